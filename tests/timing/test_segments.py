from itertools import pairwise

import numpy as np
import pytest

from spear_ray.timing.segments import Segment, clipped, merged, segments_of, shifted, total


def random_segments(seed: int, most: int = 12) -> list[Segment]:
    """Sorted and disjoint, on a grid of 10 ms so that edges often meet the bounds that tests use."""
    edges = np.sort(np.random.default_rng(seed).choice(1000, size=2 * most, replace=False))
    return segments_of(edges.reshape(-1, 2) / 100)


def covered(segments: list[Segment], start: float, end: float) -> np.ndarray:
    """Which of the centres of 10 ms cells within [start, end) lie in a segment."""
    centres = np.arange(start, end, 0.01) + 0.005
    return np.any([(s.start <= centres) & (centres < s.end) for s in segments] or [centres < start], axis=0)


def test_clipping_keeps_what_lies_inside_and_nothing_else():
    assert clipped(segments_of([(0, 1), (2, 4), (5, 6)]), 3, 5.5) == [(3, 4), (5, 5.5)]


def test_clipping_drops_segments_that_only_touch_the_bounds():
    assert clipped(segments_of([(0, 1), (2, 3)]), 1, 2) == []


@pytest.mark.parametrize("seed", range(20))
def test_clipped_segments_cover_the_same_instants(seed):
    segments = random_segments(seed)
    cut = clipped(segments, 2.5, 7.5)
    np.testing.assert_array_equal(covered(cut, 0, 2.5), False)
    np.testing.assert_array_equal(covered(cut, 2.5, 7.5), covered(segments, 2.5, 7.5))
    np.testing.assert_array_equal(covered(cut, 7.5, 10), False)


def test_merging_bridges_gaps_that_are_shorter_and_none_that_are_as_long():
    assert merged(segments_of([(0, 1), (1.25, 2), (2.5, 3)]), 0.5) == [(0, 2), (2.5, 3)]


@pytest.mark.parametrize("seed", range(20))
def test_merging_leaves_only_gaps_of_the_given_length_and_loses_no_speech(seed):
    segments = random_segments(seed)
    out = merged(segments, 0.3)
    assert all(after.start - before.end >= 0.3 for before, after in pairwise(out))
    assert (out[0].start, out[-1].end) == (segments[0].start, segments[-1].end)
    assert np.all(covered(out, 0, 10) | ~covered(segments, 0, 10))


def test_merging_nothing_gives_nothing():
    assert merged([], 0.2) == []


def test_shifting_moves_both_edges():
    assert shifted(segments_of([(1, 2), (3, 5)]), -1.5) == [(-0.5, 0.5), (1.5, 3.5)]


def test_total_sums_lengths():
    assert total(segments_of([(1, 2), (3, 5)])) == 3
    assert total([]) == 0
