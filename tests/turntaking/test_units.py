import numpy as np
import pytest

from spear_ray.turntaking.tracks import row_from_runs
from spear_ray.turntaking.units import Unit, UnitSettings, boundary_units, merged_utterances, speech_runs

SETTINGS = UnitSettings()
FRAMES = 500


def track(*channels, frames=FRAMES):
    return np.stack([row_from_runs(runs, frames) for runs in channels])


def utterances(*channels, frames=FRAMES):
    return [
        (one.speaker, one.start_frame, one.end_frame)
        for one in merged_utterances(track(*channels, frames=frames), 50.0, SETTINGS)
    ]


def units(*channels, duration_s=10.0, **changes):
    found = boundary_units(track(*channels), 50.0, duration_s, UnitSettings(**changes))
    return [(one.kind, one.start_s, one.end_s, one.speaker) for one in found]


def test_runs_of_both_speakers_come_by_time():
    runs = speech_runs(track([(100, 150), (300, 400)], [(120, 130)]), 50.0)
    assert [(run.speaker, run.start_s, run.end_s) for run in runs] == [(0, 2.0, 3.0), (1, 2.4, 2.6), (0, 6.0, 8.0)]


def test_a_gap_of_up_to_a_second_joins_two_runs():
    assert utterances([(100, 150), (199, 250)], []) == [(0, 100, 250)]
    assert utterances([(100, 150), (201, 250)], []) == [(0, 100, 150), (0, 201, 250)]


def test_a_gap_of_exactly_a_second_is_too_long_at_60_of_3000_places():
    parted = [
        start
        for start in range(3000)
        if len(utterances([(start - 10, start), (start + 50, 3060)], [], frames=3060)) > 1
    ]
    assert len(parted) == 60


def test_runs_are_not_joined_where_the_other_one_speaks_in_more_than_a_fifth_of_the_gap():
    assert (0, 100, 250) in utterances([(100, 150), (190, 250)], [(160, 168)])
    assert (0, 100, 150) in utterances([(100, 150), (190, 250)], [(160, 169)])


def test_a_joined_utterance_knows_what_it_was_made_of():
    first = merged_utterances(track([(100, 150), (175, 250), (275, 300)], [(152, 157)]), 50.0, SETTINGS)[0]
    assert (first.merged_from, first.duration_s) == (3, 4.0)
    assert first.internal_gap_s == pytest.approx(1.0)
    assert first.max_other_share == pytest.approx(5 / 25)


def test_an_utterance_in_one_piece_has_no_gap():
    only = merged_utterances(track([(100, 150)], []), 50.0, SETTINGS)[0]
    assert (only.merged_from, only.internal_gap_s, only.max_other_share) == (1, 0.0, None)


def test_an_utterance_gives_the_two_seconds_before_each_of_its_ends():
    assert units([(200, 300)], []) == [("utterance_start", 2.0, 4.0, 0), ("utterance_end", 4.0, 6.0, 0)]


def test_spans_and_both_are_modes():
    span = ("utterance_span", 2.0, 6.0, 0)
    assert units([(200, 300)], [], mode="spans") == [span]
    assert sorted(units([(200, 300)], [], mode="both")) == sorted([*units([(200, 300)], []), span])


def test_units_may_reach_past_their_boundary():
    assert units([(200, 300)], [], pre_s=0.5, post_s=1.0)[0] == ("utterance_start", 3.5, 5.0, 0)


def test_units_are_cut_off_at_the_ends_of_the_dialogue():
    assert units([(50, 500)], [], duration_s=9.99, post_s=1.0) == [
        ("utterance_start", 0.0, 2.0, 0),
        ("utterance_end", 8.0, 9.99, 0),
    ]


def test_an_utterance_that_begins_with_the_dialogue_has_no_start_unit():
    assert units([(0, 100)], []) == [("utterance_end", 0.0, 2.0, 0)]


def test_utterances_shorter_than_the_setting_give_no_unit():
    assert units([(200, 224)], []) == []
    assert len(units([(200, 225)], [])) == 2
    assert len(units([(200, 224)], [], min_utterance_s=0.2)) == 2


def test_units_come_by_time_then_kind_then_speaker():
    found = units([(200, 300)], [(100, 200), (300, 400)])
    assert [(kind, end_s, speaker) for kind, _, end_s, speaker in found] == [
        ("utterance_start", 2.0, 1),
        ("utterance_end", 4.0, 1),
        ("utterance_start", 4.0, 0),
        ("utterance_end", 6.0, 0),
        ("utterance_start", 6.0, 1),
        ("utterance_end", 8.0, 1),
    ]


def test_units_that_the_ends_of_the_dialogue_make_alike_are_one():
    turns = [(10, 40), (95, 130)]
    assert len(units(turns, [])) == 4
    assert units(turns, [], duration_s=0.104, min_utterance_s=0.0, post_s=1.0) == [
        ("utterance_end", 0.0, 0.104, 0),
        ("utterance_start", 0.0, 0.104, 0),
    ]


@pytest.mark.parametrize(("rate_hz", "moved"), [(50.0, 213), (12.5, 54)])
def test_seconds_move_the_first_frame_of_a_unit_at_some_places(rate_hz, moved):
    places = range(150, 3000)
    whole = [(place - 100) * int(2 * rate_hz) // 100 for place in places]
    found = [Unit("utterance_start", place / 50 - 2.0, place / 50, 0).frames(3000, rate_hz)[0] for place in places]
    assert sum(a != b for a, b in zip(whole, found, strict=True)) == moved


def test_seconds_move_the_last_frame_of_a_unit_at_31_places_at_12_5_hz():
    places = range(150, 3000)
    found = [Unit("utterance_start", place / 50 - 2.0, place / 50, 0).frames(3000, 12.5)[1] for place in places]
    assert sum(-(-place // 4) != last for place, last in zip(places, found, strict=True)) == 31


def test_frames_of_a_unit_begin_after_the_context_and_end_with_the_models():
    unit = Unit("utterance_end", 2.0, 4.0, 0)
    assert unit.frames(500, 50.0, 3.0) == (150, 200)
    assert unit.frames(180, 50.0, 3.0) == (150, 180)
    assert unit.frames(500, 12.5, 3.0) == (38, 50)
