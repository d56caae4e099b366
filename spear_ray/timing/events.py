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

    - backchannel: a unit of at most `backchannel_s` that begins while the other side speaks and ends before the
      other side does, or that fills a silence inside the other side's turn no longer than `backchannel_s`.
    - interruption: a unit that begins while the other side speaks, at least `overlap_s` before its end, and is no
      backchannel.
    - turn initiation: a unit that takes the floor otherwise.
    - pause, gap: mutual silence, backchannels aside, with the same side before and after, or another one.

    Args:
        question: speech of the asking side, sorted segments in seconds.
        answer: speech of the answering side, likewise.
        thresholds: see `Thresholds`.
    """
    units = sorted(
        _Unit(segment.start, segment.end, side)
        for side, segments in ((Side.QUESTION, question), (Side.ANSWER, answer))
        for segment in merged(segments, thresholds.ipu_gap_s)
    )
    events: list[Event] = []
    turns: list[_Unit] = []
    for index, unit in enumerate(units):
        if _is_backchannel(unit, units, index, thresholds):
            events.append(Event(Kind.BACKCHANNEL, unit.side, unit.start, unit.end))
            continue
        events.extend(_onset(unit, turns, thresholds))
        turns.append(unit)
    events.extend(_silences(turns, thresholds))
    return sorted(events, key=lambda event: (event.start, event.end, event.kind))


def counts(events: Sequence[Event]) -> dict[str, int]:
    """Number of events by `<side>_<kind>s`, zeros included."""
    table = {f"{side}_{kind}s": 0 for side in Side for kind in Kind}
    for event in events:
        table[f"{event.side}_{event.kind}s"] += 1
    return table


def _is_backchannel(unit: _Unit, units: Sequence[_Unit], index: int, thresholds: Thresholds) -> bool:
    if unit.end - unit.start > thresholds.backchannel_s:
        return False
    others = [other for other in units if other.side != unit.side]
    before = [other for other in others if other.start <= unit.start]
    if not before:
        return False
    last = before[-1]
    if unit.end <= last.end:
        return True
    own_follows = next((own for own in units[index + 1 :] if own.side == unit.side), None)
    resumes = next((other for other in others if other.start > unit.start), None)
    if resumes is None or (own_follows and own_follows.start < resumes.start):
        return False
    # The other side's silence around the unit is short: it never gave the floor away.
    return unit.end <= resumes.end and resumes.start - last.end <= thresholds.backchannel_s


def _onset(unit: _Unit, turns: Sequence[_Unit], thresholds: Thresholds) -> Iterator[Event]:
    holder = turns[-1].side if turns else None
    over = max((turn.end for turn in turns if turn.side != unit.side), default=float("-inf"))
    if over - unit.start >= thresholds.overlap_s and over > unit.start:
        yield Event(Kind.INTERRUPTION, unit.side, unit.start, unit.end)
    elif holder != unit.side:
        yield Event(Kind.TURN_INITIATION, unit.side, unit.start, unit.end)


def _silences(turns: Sequence[_Unit], thresholds: Thresholds) -> Iterator[Event]:
    end = float("-inf")
    holder: Side | None = None
    for turn in turns:
        if holder is not None and turn.start > end:
            kind, least = (Kind.PAUSE, thresholds.pause_s) if turn.side == holder else (Kind.GAP, thresholds.gap_s)
            if turn.start - end >= least:
                yield Event(kind, turn.side, end, turn.start)
        if turn.end > end:
            end, holder = turn.end, turn.side


def speech_of(pairs: Sequence[Segment]) -> list[list[float]]:
    """Segments as plain lists, for the details column."""
    return [[segment.start, segment.end] for segment in pairs]
