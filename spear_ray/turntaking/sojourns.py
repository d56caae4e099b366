"""A two-party time line as a chain of sojourns, each with what went before it.

A sojourn is a stretch in which the state does not change: the holder of the floor speaks alone, nobody speaks, or both
do. The holder is who spoke alone last. A state ends in one of two ways:

======= ============================= ===========================
state   ends by 0                     ends by 1
======= ============================= ===========================
SOLO    the speaker falls silent      the other side joins in
NONE    the holder goes on (a pause)  the other side begins (a gap)
BOTH    the other side falls silent   the holder falls silent
======= ============================= ===========================

Two changes at one instant count as two changes with a sojourn of no length between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from spear_ray.timing.segments import Segment
from spear_ray.turntaking.timeline import Timeline

REMEMBERED = 6
"""Pauses, gaps and units that the running means look back on."""

LONG_AGO_S = 20.0
"""Stands for "not in this clip" where the context asks how long ago something was."""


class State(IntEnum):
    """Who speaks, relative to the floor."""

    SOLO = 0
    NONE = 1
    BOTH = 2


class Sojourn(NamedTuple):
    """One sojourn and its context, times in seconds.

    Args:
        state: which.
        start_s: where it begins on the time line.
        length_s: how long it lasted.
        end: how it ended, 0 or 1 as in the module's table; -1 where the clip ends first.
        holder: side that holds the floor.
        after_overlap: whether both spoke just before.
        new_turn: whether the holder took the floor with this sojourn.
        previous_s: length of the sojourn before.
        before_previous: state of the one before that, or -1.
        turn_s: since the holder took the floor.
        unit_s: age of the holder's inter-pausal unit, or the length of the last one.
        listener_silent_s: since the other side last spoke; 0 while it does.
        listener_unit_s: length of the other side's last finished unit.
        gap_s: mean of the last gaps between the sides; 0 where there was none yet.
        gaps: how many these are.
        pause_s: mean of the last pauses within turns.
        pauses: how many.
        units_s: mean length of the holder's last finished units.
        units: how many.
    """

    state: int
    start_s: float
    length_s: float
    end: int
    holder: int
    after_overlap: float
    new_turn: float
    previous_s: float
    before_previous: int
    turn_s: float
    unit_s: float
    listener_silent_s: float
    listener_unit_s: float
    gap_s: float
    gaps: int
    pause_s: float
    pauses: int
    units_s: float
    units: int


class _Stretch(NamedTuple):
    """Who speaks (bit 0 the asking, bit 1 the answering side) from when to when."""

    speakers: int
    start_s: float
    end_s: float


def sojourns(timeline: Timeline) -> list[Sojourn]:
    """All sojourns with a known beginning, in order; the last one is cut off by the end of the time line.

    Before somebody has spoken alone nobody holds the floor: these stretches give no sojourn, nor does the first one.
    """
    stretches = list(_without_ties(_stretches(timeline)))
    memory = _Memory()
    found = []
    for place, stretch in enumerate(stretches):
        memory.enter(stretch)
        if place and memory.holder is not None:
            after = stretches[place + 1].speakers if place + 1 < len(stretches) else None
            found.append(memory.describe(stretch, after, stretches[max(0, place - 2) : place]))
        memory.leave(stretch, stretches[place + 1].speakers if place + 1 < len(stretches) else None)
    return found


def _stretches(timeline: Timeline) -> Iterator[_Stretch]:
    """The time line cut where somebody starts or stops."""
    changes = sorted(
        (time, side) for side, speech in enumerate(timeline.sides) for segment in speech for time in segment
    )
    speakers, start_s = 0, 0.0
    for time, side in changes:
        if time > start_s:
            yield _Stretch(speakers, start_s, time)
            start_s = time
        speakers ^= 1 << side
    if timeline.seconds > start_s:
        yield _Stretch(speakers, start_s, timeline.seconds)


def _without_ties(stretches: Iterator[_Stretch]) -> Iterator[_Stretch]:
    """A sojourn of no length between two states that differ in both sides; equal neighbours become one.

    Between silence and overlap it is that of who spoke alone last; before anybody has, there is none.
    """
    last: _Stretch | None = None
    solo: int | None = None
    for stretch in stretches:
        if last is not None and stretch.speakers == last.speakers:
            last = _Stretch(last.speakers, last.start_s, stretch.end_s)
            continue
        if last is not None:
            yield last
            solo = last.speakers if last.speakers in (1, 2) else solo
            if stretch.speakers ^ last.speakers == 3:
                between = 0 if stretch.speakers in (1, 2) else solo
                if between is not None:
                    yield _Stretch(between, stretch.start_s, stretch.start_s)
        last = stretch
    if last is not None:
        yield last


@dataclass(slots=True)
class _Past:
    """Finished units of one side."""

    started_s: float | None = None
    last: Segment | None = None
    lengths: list[float] = field(default_factory=list)


@dataclass(slots=True)
class _Memory:
    """What a listener remembers of the dialogue so far."""

    holder: int | None = None
    turn_start_s: float = 0.0
    new_turn: bool = False
    sides: tuple[_Past, _Past] = field(default_factory=lambda: (_Past(), _Past()))
    gaps: list[float] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def enter(self, stretch: _Stretch) -> None:
        """A new state begins."""
        self.new_turn = False
        if stretch.speakers in (1, 2) and stretch.speakers - 1 != self.holder:
            self.holder, self.turn_start_s, self.new_turn = stretch.speakers - 1, stretch.start_s, True
        for side, past in enumerate(self.sides):
            speaks = bool(stretch.speakers >> side & 1)
            if speaks and past.started_s is None:
                past.started_s = stretch.start_s
            if not speaks and past.started_s is not None:
                past.last = Segment(past.started_s, stretch.start_s)
                past.lengths.append(past.last.length)
                past.started_s = None

    def leave(self, stretch: _Stretch, after: int | None) -> None:
        """A silence is over: it was a pause of the holder or a gap between the two."""
        if stretch.speakers == 0 and after in (1, 2) and self.holder is not None:
            (self.pauses if after - 1 == self.holder else self.gaps).append(stretch.end_s - stretch.start_s)

    def describe(self, stretch: _Stretch, after: int | None, before: list[_Stretch]) -> Sojourn:
        """The sojourn with its context."""
        assert self.holder is not None
        holding, listening = self.sides[self.holder], self.sides[1 - self.holder]
        heard = listening.last
        return Sojourn(
            state=_state(stretch.speakers),
            start_s=stretch.start_s,
            length_s=stretch.end_s - stretch.start_s,
            end=_end(stretch.speakers, after, self.holder),
            holder=self.holder,
            after_overlap=float(before[-1].speakers == 3),
            new_turn=float(self.new_turn),
            previous_s=before[-1].end_s - before[-1].start_s,
            before_previous=_state(before[0].speakers) if len(before) > 1 else -1,
            turn_s=stretch.start_s - self.turn_start_s,
            unit_s=_age(holding, stretch.start_s),
            listener_silent_s=_silent(listening, stretch.start_s),
            listener_unit_s=heard.length if heard else 0.0,
            gap_s=_mean(self.gaps),
            gaps=min(len(self.gaps), REMEMBERED),
            pause_s=_mean(self.pauses),
            pauses=min(len(self.pauses), REMEMBERED),
            units_s=_mean(holding.lengths),
            units=min(len(holding.lengths), REMEMBERED),
        )


def _state(speakers: int) -> State:
    return {0: State.NONE, 3: State.BOTH}.get(speakers, State.SOLO)


def _end(speakers: int, after: int | None, holder: int) -> int:
    if after is None:
        return -1
    if speakers in (1, 2):
        return int(after == 3)
    return int(after - 1 != holder)


def _age(past: _Past, now_s: float) -> float:
    if past.started_s is not None:
        return now_s - past.started_s
    return past.last.length if past.last else 0.0


def _silent(past: _Past, now_s: float) -> float:
    if past.started_s is not None:
        return 0.0
    return now_s - past.last.end if past.last else LONG_AGO_S


def _mean(values: list[float]) -> float:
    recent = values[-REMEMBERED:]
    return sum(recent) / len(recent) if recent else 0.0
