"""Arithmetic on sorted, disjoint [start, end) segments; the unit (seconds, samples) is the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Segment(NamedTuple):
    """Half-open [start, end)."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """End minus start."""
        return self.end - self.start


Segments = Sequence[Segment]


def segments_of(pairs: Iterable[Sequence[float]]) -> list[Segment]:
    """Segments from (start, end) pairs."""
    return [Segment(float(pair[0]), float(pair[1])) for pair in pairs]


def clipped(segments: Segments, start: float, end: float) -> list[Segment]:
    """The parts that lie within [start, end).

    >>> clipped([Segment(0, 2), Segment(3, 5)], 1, 4)
    [Segment(start=1, end=2), Segment(start=3, end=4)]
    """
    cut = (Segment(max(s.start, start), min(s.end, end)) for s in segments)
    return [segment for segment in cut if segment.end > segment.start]


def shifted(segments: Segments, by: float) -> list[Segment]:
    """All segments moved by an offset."""
    return [Segment(s.start + by, s.end + by) for s in segments]


def merged(segments: Segments, gap: float) -> list[Segment]:
    """Neighbours whose gap is shorter than `gap` become one.

    >>> merged([Segment(0, 1), Segment(1.1, 2), Segment(3, 4)], 0.2)
    [Segment(start=0, end=2), Segment(start=3, end=4)]
    """
    out: list[Segment] = []
    for segment in segments:
        if out and segment.start - out[-1].end < gap:
            out[-1] = Segment(out[-1].start, max(out[-1].end, segment.end))
        else:
            out.append(segment)
    return out


def total(segments: Segments) -> float:
    """Summed length."""
    return sum(segment.length for segment in segments)
