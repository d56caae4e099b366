import itertools

import pytest

from spear_ray.turntaking.sojourns import LONG_AGO_S, State, sojourns

from .talk import line, talk


def shape(timeline):
    return [(State(one.state).name, round(one.length_s, 6), one.end, one.holder) for one in sojourns(timeline)]


def test_a_gap_ends_with_the_other_side_and_a_pause_with_the_holder():
    found = shape(line([(0, 2), (2.5, 4)], [(4.3, 6)], 7))
    assert found == [
        ("NONE", 0.5, 0, 0),
        ("SOLO", 1.5, 0, 0),
        ("NONE", 0.3, 1, 0),
        ("SOLO", 1.7, 0, 1),
        ("NONE", 1.0, -1, 1),
    ]


def test_a_backchannel_leaves_the_floor_where_it_was():
    found = shape(line([(0, 5)], [(2, 2.4)], 6))
    assert found == [("BOTH", 0.4, 0, 0), ("SOLO", 2.6, 0, 0), ("NONE", 1.0, -1, 0)]


def test_an_early_entry_takes_the_floor_through_overlap():
    found = shape(line([(0, 3)], [(2, 5)], 5))
    assert found == [("BOTH", 1.0, 1, 0), ("SOLO", 2.0, -1, 1)]


def test_a_change_of_both_sides_at_once_has_a_sojourn_of_no_length_between():
    assert shape(line([(0, 2)], [(2, 4)], 5))[0] == ("NONE", 0.0, 1, 0)
    assert shape(line([(0, 1), (2, 3)], [(2, 4)], 5))[1:3] == [("SOLO", 0.0, 1, 0), ("BOTH", 1.0, 1, 0)]


def test_nobody_holds_the_floor_before_somebody_has_spoken_alone():
    assert sojourns(line([], [], 10)) == []
    assert sojourns(line([(1, 2)], [(1, 2)], 3)) == []


def test_the_context_is_what_a_listener_remembers():
    chain = sojourns(line([(0, 2), (2.5, 4)], [(4.3, 6), (6.4, 8)], 9))
    last = chain[-1]
    assert (last.gaps, last.gap_s) == (1, pytest.approx(0.3))
    assert (last.pauses, last.pause_s) == (2, pytest.approx(0.45))
    assert (last.units, last.units_s) == (2, pytest.approx(1.65))
    assert last.listener_silent_s == pytest.approx(4.0)
    assert last.listener_unit_s == pytest.approx(1.5)
    assert chain[0].listener_silent_s == LONG_AGO_S


@pytest.mark.parametrize("seed", range(5))
def test_sojourns_cover_the_time_line_and_fit_together(seed):
    timeline = talk(seed)
    chain = sojourns(timeline)
    assert sum(one.length_s for one in chain) == pytest.approx(timeline.seconds - chain[0].start_s)
    for one, following in itertools.pairwise(chain):
        assert following.start_s == pytest.approx(one.start_s + one.length_s)
        assert one.state != following.state
        taken = one.end == 1 and one.state != State.SOLO
        assert (following.holder != one.holder) == (taken and following.state == State.SOLO)
