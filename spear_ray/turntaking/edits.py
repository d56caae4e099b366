"""Edits of a two-channel dialogue as lists of operations, the same for time lines and for audio.

Each operation sees the dialogue as the operations before it left it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from spear_ray.timing.segments import Segment, clipped, shifted
from spear_ray.turntaking.timeline import Sides, Timeline, opened, removed


@dataclass(frozen=True, slots=True)
class Open:
    """Room tone of `seconds` goes into one side at `at_s`; what follows moves later."""

    side: int
    at_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """A stretch of one side is taken out; what follows moves earlier."""

    side: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Mute:
    """Room tone replaces a stretch of one side."""

    side: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Copy:
    """A stretch of the whole session's same side goes over one side at `at_s`, with a gain."""

    side: int
    source_start_s: float
    source_end_s: float
    at_s: float
    gain: float = 1.0


Operation = Open | Cut | Mute | Copy


@dataclass(frozen=True, slots=True)
class Edit:
    """What was done to a dialogue.

    Args:
        kind: one of `perturbations.KINDS`.
        operations: in their order.
        facts: what a reader wants to know: the side, times in the natural clip, how much it was moved, in seconds.
    """

    kind: str
    operations: tuple[Operation, ...]
    facts: Mapping[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for a JSON record."""
        operations = [{"operation": type(one).__name__.lower(), **asdict(one)} for one in self.operations]
        return {"kind": self.kind, "facts": dict(self.facts), "operations": operations}


def edited(clip: Timeline, edit: Edit, session: Timeline) -> Timeline:
    """The time line after an edit.

    Args:
        clip: before.
        edit: its times are relative to `clip`, those of copied material to `session`.
        session: where copied material comes from.

    Raises:
        ValueError: the edit leaves the two sides with different lengths.
    """
    sides = [list(side) for side in clip.sides]
    lengths = [clip.seconds, clip.seconds]
    for one in edit.operations:
        sides[one.side] = _applied(sides[one.side], one, session)
        lengths[one.side] += _grown(one)
    if abs(lengths[0] - lengths[1]) > 1e-6:
        raise ValueError(f"{edit.kind} leaves sides of {lengths[0]} s and {lengths[1]} s")
    seconds = lengths[0]
    return Timeline(Sides(*(tuple(clipped(side, 0.0, seconds)) for side in sides)), seconds)


def _applied(speech: list[Segment], one: Operation, session: Timeline) -> list[Segment]:
    if isinstance(one, Open):
        return opened(speech, one.at_s, one.seconds)
    if isinstance(one, Cut):
        return removed(speech, one.start_s, one.end_s)
    if isinstance(one, Mute):
        return [*clipped(speech, float("-inf"), one.start_s), *clipped(speech, one.end_s, float("inf"))]
    source = clipped(session.sides[one.side], one.source_start_s, one.source_end_s)
    return united([*speech, *shifted(source, one.at_s - one.source_start_s)])


def _grown(one: Operation) -> float:
    if isinstance(one, Open):
        return one.seconds
    return one.start_s - one.end_s if isinstance(one, Cut) else 0.0


def united(speech: Sequence[Segment]) -> list[Segment]:
    """Sorted and disjoint: what overlaps or touches becomes one."""
    out: list[Segment] = []
    for segment in sorted(speech):
        if out and segment.start <= out[-1].end:
            out[-1] = Segment(out[-1].start, max(out[-1].end, segment.end))
        else:
            out.append(segment)
    return out
