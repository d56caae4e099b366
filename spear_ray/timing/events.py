"""Interaction events of a two-party dialogue, after InteractSpeech, read from two streams of speech segments.

Source: Chen et al., InteractSpeech (Findings of EMNLP 2025): turn initiation, interruption, backchannel, pause and
gap. The paper gives definitions but no thresholds; ours are parameters. Voice activity alone cannot tell a short
answer ("yes") from a backchannel: a short unit counts as a backchannel only where the other side keeps the floor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from spear_ray.timing.segments import Segment, Segments, merged


class Side(StrEnum):
    """Who: the side that asks (channel 0) or the side that answers (channel 1)."""

    QUESTION = "question"
    ANSWER = "answer"


class Kind(StrEnum):
    """What happened."""

    TURN_INITIATION = "turn_initiation"
    INTERRUPTION = "interruption"
    BACKCHANNEL = "backchannel"
    PAUSE = "pause"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Thresholds in seconds.

    Args:
        ipu_gap_s: silences shorter than this do not end an inter-pausal unit.
        backchannel_s: a backchannel is at most this long.
        overlap_s: a unit that begins less than this before the other's end does not interrupt.
        pause_s: shortest mutual silence that counts as a pause.
        gap_s: shortest mutual silence that counts as a gap.
    """

    ipu_gap_s: float = 0.2
    backchannel_s: float = 1.0
    overlap_s: float = 0.2
    pause_s: float = 0.2
    gap_s: float = 0.0


class Event(NamedTuple):
    """One event; `side` does it (for a gap: takes the floor after it), times in seconds on the time line."""

    kind: Kind
    side: Side
    start: float
    end: float


class _Unit(NamedTuple):
    start: float
    end: float
    side: Side


def interaction_events(question: Segments, answer: Segments, thresholds: Thresholds) -> list[Event]:
    """All events of a dialogue, by start.

    The side whose turn ends last has the floor. A turn is a unit that is no backchannel.

    - backchannel: a unit of at most `backchannel_s` inside the turn of the side that has the floor: it ends before
      that side does, or lies around a silence of that side no longer than `backchannel_s` and ends before the side
      is done again. Where a longer unit follows in the same silence, both are the beginning of a turn.
    - interruption: a turn that begins while the other side speaks, at least `overlap_s` before its end.
    - turn initiation: a turn that takes the floor otherwise.
    - pause, gap: silence between turns (backchannels aside), with the same side before and after, or another one.

    Args:
        question: speech of the asking side, sorted segments in seconds.
        answer: speech of the answering side, likewise.
        thresholds: see `Thresholds`.
    """
    units = sorted(
        (
            _Unit(segment.start, segment.end, side)
            for side, segments in ((Side.QUESTION, question), (Side.ANSWER, answer))
            for segment in merged(segments, thresholds.ipu_gap_s)
        ),
        # Of two that begin together the longer one comes first: it has the floor.
        key=lambda unit: (unit.start, -unit.end, unit.side),
    )
    events: list[Event] = []
    holder: _Unit | None = None
    for index, unit in enumerate(units):
        if holder is not None and _is_backchannel(index, units, holder, thresholds):
            events.append(Event(Kind.BACKCHANNEL, *_what(unit)))
            continue
        events.extend(_turn(unit, holder, thresholds))
        if holder is None or unit.end > holder.end:
            holder = unit
    return sorted(events, key=lambda event: (event.start, event.end, event.kind))


def counts(events: Sequence[Event]) -> dict[str, int]:
    """Number of events by `<side>_<kind>s`, zeros included."""
    table = {f"{side}_{kind}s": 0 for side in Side for kind in Kind}
    for event in events:
        table[f"{event.side}_{event.kind}s"] += 1
    return table


def _is_backchannel(index: int, units: Sequence[_Unit], holder: _Unit, thresholds: Thresholds) -> bool:
    unit = units[index]
    if unit.side == holder.side or unit.end - unit.start > thresholds.backchannel_s:
        return False
    if unit.end <= holder.end:
        return True
    later = range(index + 1, len(units))
    resumed = next((place for place in later if units[place].side == holder.side), len(units))
    if resumed == len(units) or units[resumed].start - holder.end > thresholds.backchannel_s:
        return False
    only = index + 1 == resumed
    return unit.end <= units[resumed].end and (only or _is_backchannel(index + 1, units, holder, thresholds))


def _turn(unit: _Unit, holder: _Unit | None, thresholds: Thresholds) -> Iterator[Event]:
    """What a turn is, given the turn that ended last before or during it: first the silence, then the onset."""
    if holder is None:
        yield Event(Kind.TURN_INITIATION, *_what(unit))
        return
    silence = unit.start - holder.end
    kind, least = (Kind.PAUSE, thresholds.pause_s) if unit.side == holder.side else (Kind.GAP, thresholds.gap_s)
    if silence > 0 and silence >= least:
        yield Event(kind, unit.side, holder.end, unit.start)
    if unit.side != holder.side:
        interrupts = silence < 0 and -silence >= thresholds.overlap_s
        yield Event(Kind.INTERRUPTION if interrupts else Kind.TURN_INITIATION, *_what(unit))


def _what(unit: _Unit) -> tuple[Side, float, float]:
    return unit.side, unit.start, unit.end


def speech_of(pairs: Sequence[Segment]) -> list[list[float]]:
    """Segments as plain lists, for the details column."""
    return [[segment.start, segment.end] for segment in pairs]
