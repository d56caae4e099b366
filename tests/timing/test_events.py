"""Each time line is drawn with one character for 100 ms: `#` speech, `.` silence."""

from itertools import groupby

import numpy as np
import pytest

from spear_ray.timing.events import Event, Kind, Side, Thresholds, counts, interaction_events
from spear_ray.timing.segments import Segment, Segments, merged

LIMITS = Thresholds()
Q, A = Side.QUESTION, Side.ANSWER


def drawn(line: str) -> list[Segment]:
    out, at = [], 0
    for mark, run in groupby(line):
        length = len(list(run))
        if mark == "#":
            out.append(Segment(at / 10, (at + length) / 10))
        at += length
    return out


def seen(question: str, answer: str) -> list[tuple[Kind, Side, float]]:
    """Kind, side and start of each event."""
    return [
        (event.kind, event.side, event.start) for event in interaction_events(drawn(question), drawn(answer), LIMITS)
    ]


def test_first_speech_takes_the_floor():
    assert seen("..####", "") == [(Kind.TURN_INITIATION, Q, 0.2)]


def test_silence_holds_no_event():
    assert seen("", "....") == []


def test_answer_after_a_silence_is_a_gap_and_a_turn_initiation():
    assert seen(
        "##########....................",
        "..............################",
    ) == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.GAP, A, 1.0), (Kind.TURN_INITIATION, A, 1.4)]


def test_silence_inside_a_turn_is_a_pause():
    assert seen("##########....##########", "") == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.PAUSE, Q, 1.0)]


def test_silence_under_200_ms_is_neither_pause_nor_gap_inside_a_turn():
    assert seen("##########.##########", "") == [(Kind.TURN_INITIATION, Q, 0.0)]


def test_long_silence_of_one_speaker_is_still_a_pause():
    assert seen("##########" + 50 * "." + "####", "")[1:] == [(Kind.PAUSE, Q, 1.0)]


def test_short_gap_counts():
    assert (Kind.GAP, A, 1.0) in seen("##########............", "...........###########")


def test_answer_without_a_silence_has_no_gap():
    assert seen("##########............", "..........############") == [
        (Kind.TURN_INITIATION, Q, 0.0),
        (Kind.TURN_INITIATION, A, 1.0),
    ]


def test_long_speech_inside_the_other_sides_speech_interrupts():
    assert seen(
        "###################...........",
        "...........###################",
    ) == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.INTERRUPTION, A, 1.1)]


def test_short_speech_that_outlasts_the_other_side_interrupts():
    assert (Kind.INTERRUPTION, A, 1.5) in seen("##################......", "...............######...")


def test_overlap_of_200_ms_interrupts_and_a_shorter_one_takes_the_floor():
    question = [Segment(0.0, 2.0)]
    for start, kind in ((1.79, Kind.INTERRUPTION), (1.81, Kind.TURN_INITIATION)):
        events = interaction_events(question, [Segment(start, 4.0)], LIMITS)
        assert events[1:] == [Event(kind, A, start, 4.0)]


def test_failed_interruption_leaves_the_floor_where_it_was():
    assert seen(
        "##############################...##########",
        ".......#############.......................",
    ) == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.INTERRUPTION, A, 0.7), (Kind.PAUSE, Q, 3.0)]


def test_after_a_failed_interruption_the_same_side_may_still_take_the_floor():
    assert seen(
        "##############################...............",
        ".......#############.............############",
    )[2:] == [(Kind.GAP, A, 3.0), (Kind.TURN_INITIATION, A, 3.3)]


def test_short_speech_inside_the_other_sides_speech_is_a_backchannel():
    assert seen(
        "##############################",
        "...........#####..............",
    ) == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.BACKCHANNEL, A, 1.1)]


def test_backchannel_in_a_short_silence_leaves_the_pause():
    assert seen(
        "##########......##########",
        "...........####...........",
    ) == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.PAUSE, Q, 1.0), (Kind.BACKCHANNEL, A, 1.1)]


def test_backchannel_may_lie_across_the_end_of_an_utterance():
    assert (Kind.BACKCHANNEL, A, 0.8) in seen(
        "##########......##########",
        "........####..............",
    )


def test_two_backchannels_may_share_a_silence():
    assert [
        kind for kind, side, _ in seen("##########.........##########", "...........##...##...........") if side == A
    ] == [
        Kind.BACKCHANNEL,
        Kind.BACKCHANNEL,
    ]


def test_short_beginning_of_a_long_turn_is_no_backchannel():
    assert seen(
        "##########.........###....................",
        "...........###...#########################",
    ) == [
        (Kind.TURN_INITIATION, Q, 0.0),
        (Kind.GAP, A, 1.0),
        (Kind.TURN_INITIATION, A, 1.1),
        (Kind.PAUSE, A, 1.4),
        (Kind.BACKCHANNEL, Q, 1.9),
    ]


def test_short_answer_that_takes_the_floor_is_no_backchannel():
    assert seen(
        "##########..............",
        "............####........",
    ) == [(Kind.TURN_INITIATION, Q, 0.0), (Kind.GAP, A, 1.0), (Kind.TURN_INITIATION, A, 1.2)]


def test_short_answer_before_a_long_silence_is_no_backchannel():
    assert seen(
        "##########...................##########",
        "............####.......................",
    ) == [
        (Kind.TURN_INITIATION, Q, 0.0),
        (Kind.GAP, A, 1.0),
        (Kind.TURN_INITIATION, A, 1.2),
        (Kind.GAP, Q, 1.6),
        (Kind.TURN_INITIATION, Q, 2.9),
    ]


def test_a_side_does_not_answer_its_listeners_backchannels_with_backchannels():
    assert seen(
        "####################...####...########",
        "..................####....###.........",
    ) == [
        (Kind.TURN_INITIATION, Q, 0.0),
        (Kind.BACKCHANNEL, A, 1.8),
        (Kind.PAUSE, Q, 2.0),
        (Kind.BACKCHANNEL, A, 2.6),
        (Kind.PAUSE, Q, 2.7),
    ]


def test_own_short_speech_after_taking_the_floor_is_no_backchannel():
    assert seen(
        "####################.........###########",
        "............###########...##............",
    ) == [
        (Kind.TURN_INITIATION, Q, 0.0),
        (Kind.INTERRUPTION, A, 1.2),
        (Kind.PAUSE, A, 2.3),
        (Kind.GAP, Q, 2.8),
        (Kind.TURN_INITIATION, Q, 2.9),
    ]


def test_of_two_that_begin_together_the_longer_has_the_floor():
    assert set(seen("###########", "#####......")) == {(Kind.TURN_INITIATION, Q, 0.0), (Kind.BACKCHANNEL, A, 0.0)}
    assert set(seen("#####......", "###########")) == {(Kind.BACKCHANNEL, Q, 0.0), (Kind.TURN_INITIATION, A, 0.0)}


def test_counts_name_side_and_kind_and_hold_zeros():
    table = counts(interaction_events(drawn("##########....####"), [], LIMITS))
    assert table["question_turn_initiations"] == table["question_pauses"] == 1
    assert sum(table.values()) == 2
    assert len(table) == len(Side) * len(Kind)


def random_side(random: np.random.Generator) -> list[Segment]:
    """Up to a minute of speech from 0.1 to 4 s with silences from 0.05 to 3 s."""
    lengths = random.uniform(0.1, 4.0, 20) * random.choice([0.2, 1.0], 20)
    silences = random.uniform(0.05, 3.0, 20)
    starts = np.cumsum(silences) + np.concatenate([[0], np.cumsum(lengths)[:-1]])
    return [Segment(float(start), float(start + length)) for start, length in zip(starts, lengths, strict=True)]


@pytest.fixture(params=range(50))
def sides(request) -> tuple[list[Segment], list[Segment]]:
    random = np.random.default_rng(request.param)
    return random_side(random), random_side(random)


def units_of(segments: Segments, side: Side) -> list[tuple[Side, float, float]]:
    return [(side, *unit) for unit in merged(segments, LIMITS.ipu_gap_s)]


def of_kind(events: list[Event], *kinds: Kind) -> list[Event]:
    return [event for event in events if event.kind in kinds]


def test_events_are_sorted_and_have_a_length(sides):
    events = interaction_events(*sides, LIMITS)
    assert [event.start for event in events] == sorted(event.start for event in events)
    assert all(event.end > event.start for event in events)


def test_mirrored_channels_give_mirrored_events(sides):
    other = {Q: A, A: Q}
    mirrored = interaction_events(sides[1], sides[0], LIMITS)
    assert interaction_events(*sides, LIMITS) == [event._replace(side=other[event.side]) for event in mirrored]


def test_no_pause_or_gap_overlaps_a_turn(sides):
    events = interaction_events(*sides, LIMITS)
    backchannels = {event[1:] for event in of_kind(events, Kind.BACKCHANNEL)}
    turns = [unit for unit in units_of(sides[0], Q) + units_of(sides[1], A) if unit not in backchannels]
    for silence in of_kind(events, Kind.PAUSE, Kind.GAP):
        assert not [turn for turn in turns if turn[1] < silence.end and silence.start < turn[2]]


def test_each_gap_ends_where_a_turn_is_taken_and_no_pause_does(sides):
    events = interaction_events(*sides, LIMITS)
    taken = {(event.side, event.start) for event in of_kind(events, Kind.TURN_INITIATION)}
    assert {(gap.side, gap.end) for gap in of_kind(events, Kind.GAP)} <= taken
    assert not {(pause.side, pause.end) for pause in of_kind(events, Kind.PAUSE)} & taken


def test_each_unit_is_at_most_one_of_turn_initiation_interruption_and_backchannel(sides):
    events = interaction_events(*sides, LIMITS)
    spoken = [event[1:] for event in of_kind(events, Kind.TURN_INITIATION, Kind.INTERRUPTION, Kind.BACKCHANNEL)]
    assert len(spoken) == len(set(spoken))
    assert set(spoken) <= set(units_of(sides[0], Q) + units_of(sides[1], A))


def test_interruptions_begin_in_the_other_sides_speech_and_backchannels_are_short(sides):
    events = interaction_events(*sides, LIMITS)
    units = units_of(sides[0], Q) + units_of(sides[1], A)
    for event in of_kind(events, Kind.INTERRUPTION):
        assert [u for u in units if u[0] != event.side and u[1] <= event.start <= u[2] - LIMITS.overlap_s]
    assert all(event.end - event.start <= LIMITS.backchannel_s for event in of_kind(events, Kind.BACKCHANNEL))


def test_counts_add_up_to_the_number_of_events(sides):
    events = interaction_events(*sides, LIMITS)
    table = counts(events)
    assert sum(table.values()) == len(events)
    assert table["answer_gaps"] == len([event for event in events if event.kind == Kind.GAP and event.side == A])


def test_random_time_lines_hold_every_kind():
    kinds = set()
    for seed in range(20):
        random = np.random.default_rng(seed)
        kinds |= {event.kind for event in interaction_events(random_side(random), random_side(random), LIMITS)}
    assert kinds == set(Kind)
