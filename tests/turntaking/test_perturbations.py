"""Each edit does what its name says, within its limits, and the same for the same seed."""

import itertools

import numpy as np
import pytest

from spear_ray.timing.segments import Segment, clipped, total
from spear_ray.turntaking import perturbations as rules
from spear_ray.turntaking.edits import Copy, Cut, Edit, Mute, Open, edited
from spear_ray.turntaking.pairs_made import place_edit
from spear_ray.turntaking.perturbations import KINDS, turns

from .talk import line, talk

SEEDS = range(60)


def placed(kind):
    """Edits that found a place in random talk: (whole, clip, edit, edited clip)."""
    for seed in SEEDS:
        whole = talk(seed % 6, seconds=240)
        found = place_edit(kind, whole, np.random.default_rng(seed))
        if found:
            _, clip, edit = found
            yield whole, clip, edit, edited(clip, edit, whole)


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_finds_places_and_keeps_its_context_and_future(kind):
    found = list(placed(kind))
    assert len(found) > 10
    for _, clip, edit, after in found:
        assert edit.kind == kind
        assert after.sides != clip.sides
        for side in (0, 1):
            before = clipped(clip.sides[side], 0, rules.CONTEXT_S - rules.REMOVED_PAD_S)
            assert clipped(after.sides[side], 0, rules.CONTEXT_S - rules.REMOVED_PAD_S) == before


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_edit_and_another_seed_another(kind):
    whole = talk(1, seconds=240)
    edits = [place_edit(kind, whole, np.random.default_rng(seed)) for seed in (*SEEDS, *SEEDS)]
    first, second = edits[: len(SEEDS)], edits[len(SEEDS) :]
    assert first == second
    assert len({str(edit) for edit in first if edit}) > 5


def test_early_entry_moves_the_responder_over_the_holders_last_words():
    for _, clip, edit, after in placed("early_entry"):
        facts = edit.facts
        holder, entry_s = int(facts["holder"]), facts["began_s"] - facts["advance_s"]
        assert rules.EARLY_ADVANCE_S[0] <= facts["advance_s"] <= rules.EARLY_ADVANCE_S[1]
        assert after.seconds == pytest.approx(clip.seconds - facts["advance_s"])
        assert facts["overlap_s"] >= rules.EARLY_ADVANCE_S[0] - rules.EARLY_GAP_S[1]
        assert any(unit.start == pytest.approx(entry_s) for unit in after.sides[1 - holder])
        assert any(unit.end == pytest.approx(facts["ended_s"]) for unit in after.sides[holder])
        for side in (0, 1):
            assert total(after.sides[side]) == pytest.approx(total(clip.sides[side]))


def test_late_response_adds_only_silence():
    for _, clip, edit, after in placed("late_response"):
        facts = edit.facts
        assert after.seconds == pytest.approx(clip.seconds + facts["delay_s"])
        later = facts["began_s"] + facts["delay_s"]
        assert any(unit.start == pytest.approx(later) for unit in after.sides[1 - int(facts["holder"])])
        for side in (0, 1):
            assert total(after.sides[side]) == pytest.approx(total(clip.sides[side]))


def test_shift_instead_of_hold_puts_a_turn_into_a_pause():
    for whole, clip, edit, after in placed("shift_instead_of_hold"):
        facts = edit.facts
        other = 1 - int(facts["holder"])
        assert after.seconds == pytest.approx(clip.seconds + facts["turn_s"])
        copy = edit.operations[-1]
        taken = clipped(whole.sides[other], copy.source_start_s, copy.source_end_s)
        assert total(after.sides[other]) == pytest.approx(total(clip.sides[other]) + total(taken))
        assert after.is_silent(1 - other, copy.at_s, copy.at_s + facts["turn_s"])


def test_hold_instead_of_shift_leaves_a_pause_of_the_holder():
    for _, clip, edit, after in placed("hold_instead_of_shift"):
        facts = edit.facts
        holder = int(facts["holder"])
        pauses = [b.start - a.end for a, b in zip(after.sides[holder], after.sides[holder][1:], strict=False)]
        assert any(pause == pytest.approx(facts["pause_s"]) for pause in pauses)
        assert total(after.sides[1 - holder]) < total(clip.sides[1 - holder])
        assert total(after.sides[holder]) == pytest.approx(total(clip.sides[holder]))


def test_backchannels_stand_apart_within_the_speakers_turn():
    for _, clip, edit, after in placed("excessive_backchannel"):
        listener = 1 - int(edit.facts["holder"])
        spans = sorted((one.at_s, one.at_s + one.source_end_s - one.source_start_s) for one in edit.operations)
        assert len(spans) == rules.BACKCHANNELS
        gaps = [b[0] - a[1] for a, b in itertools.pairwise(spans)]
        assert min(gaps) >= rules.BACKCHANNEL_APART_S - 1e-9
        assert edit.facts["turn_start_s"] <= spans[0][0]
        assert spans[-1][1] <= edit.facts["turn_end_s"]
        assert len(after.sides[listener]) == len(clip.sides[listener]) + rules.BACKCHANNELS


def test_no_edit_fits_into_silence_or_one_long_turn():
    for empty in (line([], [], 25), line([(0, 25)], [], 25)):
        assert all(kind(empty, empty, np.random.default_rng(0)) is None for kind in KINDS.values())


def test_a_turn_ends_where_the_other_side_speaks_in_its_pause():
    held = line([(0, 1), (1.5, 2), (4, 5), (5.6, 6)], [(5.1, 5.4)], 8)
    assert turns(held, 0) == [Segment(0, 2), Segment(4, 5), Segment(5.6, 6)]


def test_operations_see_what_earlier_ones_left():
    clip = line([(0, 2)], [(3, 4)], 6)
    edit = Edit("late_response", (Open(0, 2.5, 1), Open(1, 2.5, 1), Mute(0, 1, 2), Cut(0, 5, 6), Cut(1, 5, 6)))
    after = edited(clip, edit, clip)
    assert after.sides == ((Segment(0, 1),), (Segment(4, 5),))
    assert after.seconds == 6


def test_copied_speech_joins_what_it_touches():
    clip = line([], [(1, 2)], 10)
    edit = Edit("excessive_backchannel", (Copy(1, 5, 6, 2),))
    assert edited(clip, edit, line([], [(5.0, 6.0)], 10)).sides.answering == (Segment(1, 3),)


def test_an_edit_that_lengthens_one_side_alone_is_refused():
    clip = line([(0, 2)], [(3, 4)], 6)
    with pytest.raises(ValueError, match="sides of"):
        edited(clip, Edit("late_response", (Open(0, 1, 1),)), clip)
