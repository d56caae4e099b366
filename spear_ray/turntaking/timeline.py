"""Who speaks when: two sides' speech on one time line, and the cuts that perturbations are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spear_ray.timing.segments import Segment, clipped, merged, segments_of, shifted

IPU_GAP_S = 0.2
"""Silence of one side that is shorter does not end an inter-pausal unit (Skantze 2021, section 2.1: 100-200 ms)."""

MIN_SPEECH_S = 0.1
"""Shorter speech is a click or a breath."""

Speech = tuple[Segment, ...]


class Sides(NamedTuple):
    """What belongs to each side of a dialogue: 0 the side that asks, 1 the side that answers."""

    asking: Speech
    answering: Speech


@dataclass(frozen=True, slots=True)
class Timeline:
    """Two-party activity.

    Args:
        sides: speech of each side in seconds, sorted and disjoint.
        seconds: length.
    """

    sides: Sides
    seconds: float

    @classmethod
    def of(cls, asking: Iterable[Sequence[float]], answering: Iterable[Sequence[float]], seconds: float) -> Timeline:
        """From [start, end] pairs in seconds, in any order; what lies outside the time line is cut off."""
        sides = (clipped(sorted(segments_of(pairs)), 0.0, seconds) for pairs in (asking, answering))
        return cls(Sides(*(tuple(side) for side in sides)), seconds)

    def as_units(self, gap_s: float = IPU_GAP_S, min_speech_s: float = MIN_SPEECH_S) -> Timeline:
        """Inter-pausal units: one side's speech joined over short silences, then without what is too short."""
        joined = (merged(side, gap_s) for side in self.sides)
        units = (tuple(unit for unit in side if unit.length >= min_speech_s) for side in joined)
        return Timeline(Sides(*units), self.seconds)

    def crop(self, start_s: float, end_s: float) -> Timeline:
        """The part from `start_s` to `end_s`, on its own time line."""
        sides = (tuple(shifted(clipped(side, start_s, end_s), -start_s)) for side in self.sides)
        return Timeline(Sides(*sides), end_s - start_s)

    def is_silent(self, side: int, start_s: float, end_s: float) -> bool:
        """Whether a side does not speak between two times."""
        return not clipped(self.sides[side], start_s, end_s)


def opened(speech: Sequence[Segment], at_s: float, seconds: float) -> list[Segment]:
    """Speech after `at_s` moves later; a segment across it is split."""
    before = clipped(speech, float("-inf"), at_s)
    return [*before, *shifted(clipped(speech, at_s, float("inf")), seconds)]


def removed(speech: Sequence[Segment], start_s: float, end_s: float) -> list[Segment]:
    """The stretch is cut out: what follows moves earlier, and joins where it touches."""
    before = clipped(speech, float("-inf"), start_s)
    after = shifted(clipped(speech, end_s, float("inf")), start_s - end_s)
    if before and after and before[-1].end == after[0].start:
        return [*before[:-1], Segment(before[-1].start, after[0].end), *after[1:]]
    return [*before, *after]
