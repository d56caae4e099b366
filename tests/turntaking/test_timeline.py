from spear_ray.timing.segments import Segment
from spear_ray.turntaking.timeline import opened, removed

from .talk import line


def test_units_are_joined_over_short_silences_and_clicks_are_dropped():
    units = line([(0, 1), (1.1, 2), (3, 3.05), (4, 5)], [], 6).as_units()
    assert units.sides.asking == (Segment(0, 2), Segment(4, 5))


def test_pairs_may_come_in_any_order_and_are_cut_to_the_time_line():
    assert line([(4, 9), (-1, 1)], [], 6).sides.asking == (Segment(0, 1), Segment(4, 6))


def test_a_crop_has_its_own_time_line():
    part = line([(0, 2), (5, 9)], [(3, 4)], 10).crop(1, 6)
    assert part.sides.asking == (Segment(0, 1), Segment(4, 5))
    assert part.sides.answering == (Segment(2, 3),)
    assert part.seconds == 5


def test_opening_splits_a_segment_and_removing_the_same_stretch_restores_it():
    speech = [Segment(0, 2), Segment(3, 4)]
    wider = opened(speech, 1, 0.5)
    assert wider == [Segment(0, 1), Segment(1.5, 2.5), Segment(3.5, 4.5)]
    assert removed(wider, 1, 1.5) == speech


def test_silence_is_known_for_each_side():
    both = line([(1, 2)], [(3, 4)], 5)
    assert both.is_silent(0, 2, 5)
    assert not both.is_silent(1, 2, 3.5)
