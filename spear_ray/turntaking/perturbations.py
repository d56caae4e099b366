"""TurnNat's five ways to make a natural dialogue unnatural in its timing alone.

Each takes a natural clip and finds a place where the edit fits, with 3 s of context before and 2 s of future after it.
Magnitudes are those of the published builder (TurnNat, arXiv 2607.01345; its build_perturbations script and samples).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from spear_ray.timing.segments import Segment
from spear_ray.turntaking.edits import Copy, Cut, Edit, Mute, Open, Operation
from spear_ray.turntaking.timeline import Timeline

CONTEXT_S = 3.0
FUTURE_S = 2.0
MARGIN_S = 0.05
"""Cuts keep this far from speech where there is room."""

TURN_GAP_S = 1.0
"""A pause of one side in which the other is silent does not end its turn up to this length."""

MIN_TURN_S = 1.0
EARLY_ADVANCE_S = (1.2, 2.5)
EARLY_GAP_S = (0.0, 0.7)
"""Transitions that an early entry is made of. With a gap of at most 0.7 s (the published sample's) even the smallest
advance lets the two overlap for half a second; after a long gap a small advance would give a natural overlap."""

LATE_DELAY_S = (1.2, 2.0)
LATE_GAP_S = (-0.2, 2.0)
INSERTED_TURN_S = (1.0, 4.0)
INSERTED_GAIN = 0.9
HOLD_PAUSE_S = (0.3, 1.0)
REMOVED_TURN_S = (1.2, 8.0)
REMOVED_PAD_S = 0.1
NEW_PAUSE_S = (0.5, 1.5)
BACKCHANNELS = 3
BACKCHANNEL_S = (0.15, 0.8)
BACKCHANNEL_APART_S = 0.8
BACKCHANNEL_ALONE_S = 0.5
"""Own silence around a short unit that makes it a backchannel and not the beginning of a turn."""

TRIES = 40


T = TypeVar("T")


class Transition(NamedTuple):
    """One side's turn, and the other side's next one."""

    holder: int
    ended_s: float
    began_s: float

    @property
    def responder(self) -> int:
        """The other side."""
        return 1 - self.holder

    @property
    def gap_s(self) -> float:
        """Floor transfer offset in seconds; negative for an overlap."""
        return self.began_s - self.ended_s


def turns(timeline: Timeline, side: int) -> list[Segment]:
    """One side's units joined over pauses of up to 1 s in which the other side is silent."""
    out: list[Segment] = []
    for unit in timeline.sides[side]:
        pause = unit.start - out[-1].end if out else 0.0
        if out and pause <= TURN_GAP_S and timeline.is_silent(1 - side, out[-1].end, unit.start):
            out[-1] = Segment(out[-1].start, unit.end)
        else:
            out.append(unit)
    return out


def transitions(timeline: Timeline, gap_s: tuple[float, float]) -> list[Transition]:
    """Where the floor passes from a turn of at least 1 s to a turn of at least 1 s, with a gap in a range."""
    found = []
    for holder in (0, 1):
        held = [turn for turn in turns(timeline, holder) if turn.length >= MIN_TURN_S]
        for taken in turns(timeline, 1 - holder):
            before = [turn for turn in held if turn.start < taken.start and turn.end <= taken.start - gap_s[0]]
            if taken.length >= MIN_TURN_S and before and taken.start - before[-1].end <= gap_s[1]:
                found.append(Transition(holder, before[-1].end, taken.start))
    return found


def early_entry(clip: Timeline, session: Timeline, rng: np.random.Generator) -> Edit | None:
    """The responder begins earlier, over the holder's last words: equal silence is cut from both sides."""
    for one in _shuffled(transitions(clip, EARLY_GAP_S), rng):
        advance_s = float(rng.uniform(*EARLY_ADVANCE_S))
        entry_s = one.began_s - advance_s
        free = clip.is_silent(one.responder, entry_s - MARGIN_S, one.began_s) and clip.is_silent(
            one.holder, one.ended_s, one.ended_s + advance_s + MARGIN_S
        )
        if free and _fits(clip, entry_s, one.began_s):
            after_s = one.ended_s + MARGIN_S
            cuts = (
                Cut(one.responder, entry_s - MARGIN_S, one.began_s - MARGIN_S),
                Cut(one.holder, after_s, after_s + advance_s),
            )
            facts = {**_facts(one), "advance_s": advance_s, "overlap_s": advance_s - one.gap_s}
            return Edit("early_entry", cuts, facts)
    return None


def late_response(clip: Timeline, session: Timeline, rng: np.random.Generator) -> Edit | None:
    """The responder begins later: room tone goes into both sides between the turns."""
    for one in _shuffled(transitions(clip, LATE_GAP_S), rng):
        delay_s = float(rng.uniform(*LATE_DELAY_S))
        silent = one.gap_s <= 0 or clip.is_silent(one.holder, one.ended_s, one.began_s)
        if silent and _fits(clip, min(one.ended_s, one.began_s), max(one.ended_s, one.began_s)):
            middle_s = (one.ended_s + one.began_s) / 2
            at = (middle_s, middle_s) if one.gap_s >= 0 else (one.ended_s, one.began_s)
            opens = (Open(one.holder, at[0], delay_s), Open(one.responder, at[1], delay_s))
            return Edit("late_response", opens, {**_facts(one), "delay_s": delay_s})
    return None


def shift_instead_of_hold(clip: Timeline, session: Timeline, rng: np.random.Generator) -> Edit | None:
    """A turn of the other side, from elsewhere in the session, goes into the middle of a pause."""
    for holder, pause in _shuffled(_pauses(clip), rng):
        other = 1 - holder
        spare = [turn for turn in turns(session, other) if _within(turn.length, INSERTED_TURN_S)]
        if spare and _fits(clip, pause.start, pause.end):
            turn = spare[int(rng.integers(len(spare)))]
            middle_s = (pause.start + pause.end) / 2
            operations = (
                Open(0, middle_s, turn.length),
                Open(1, middle_s, turn.length),
                Copy(other, turn.start, turn.end, middle_s, INSERTED_GAIN),
            )
            facts = {"holder": holder, "pause_start_s": pause.start, "pause_end_s": pause.end, "turn_s": turn.length}
            return Edit("shift_instead_of_hold", operations, facts)
    return None


def hold_instead_of_shift(clip: Timeline, session: Timeline, rng: np.random.Generator) -> Edit | None:
    """A turn between two of the other side is taken out; the silence that is left is shortened to a pause."""
    for responder, turn, around in _shuffled(_enclosed_turns(clip), rng):
        pause_s = float(rng.uniform(*NEW_PAUSE_S))
        if pause_s < around.length and _fits(clip, around.start, around.end):
            start_s, end_s = around.start + pause_s / 2, around.end - pause_s / 2
            operations: tuple[Operation, ...] = (
                Mute(responder, turn.start - REMOVED_PAD_S, turn.end + REMOVED_PAD_S),
                Cut(0, start_s, end_s),
                Cut(1, start_s, end_s),
            )
            facts = {"holder": 1 - responder, "turn_start_s": turn.start, "turn_end_s": turn.end, "pause_s": pause_s}
            return Edit("hold_instead_of_shift", operations, facts)
    return None


def excessive_backchannel(clip: Timeline, session: Timeline, rng: np.random.Generator) -> Edit | None:
    """Backchannels of the listener, from elsewhere in the session, go over the speaker's turn."""
    for speaker, turn in _shuffled([(side, turn) for side in (0, 1) for turn in turns(clip, side)], rng):
        listener = 1 - speaker
        spare = list(_backchannels(session, listener))
        room = Segment(max(turn.start, CONTEXT_S), min(turn.end, clip.seconds - FUTURE_S))
        placed = _placed(clip, listener, spare, room, rng) if spare else []
        if len(placed) == BACKCHANNELS:
            facts = {"holder": speaker, "turn_start_s": turn.start, "turn_end_s": turn.end, "count": BACKCHANNELS}
            return Edit("excessive_backchannel", tuple(placed), facts)
    return None


Perturbation = Callable[[Timeline, Timeline, np.random.Generator], Edit | None]

KINDS: dict[str, Perturbation] = {
    "early_entry": early_entry,
    "late_response": late_response,
    "hold_instead_of_shift": hold_instead_of_shift,
    "shift_instead_of_hold": shift_instead_of_hold,
    "excessive_backchannel": excessive_backchannel,
}
"""The types of the published benchmark; each gives None where no place in the clip fits."""


def _placed(clip: Timeline, listener: int, spare: list[Segment], room: Segment, rng: np.random.Generator) -> list[Copy]:
    """Up to `BACKCHANNELS` copies within a turn, apart from each other and from the listener's own speech."""
    copies: list[Copy] = []
    taken: list[Segment] = []
    for _ in range(TRIES):
        unit = spare[int(rng.integers(len(spare)))]
        if room.length <= unit.length or len(copies) == BACKCHANNELS:
            break
        start_s = float(rng.uniform(room.start, room.end - unit.length))
        end_s = start_s + unit.length
        apart = all(end_s + BACKCHANNEL_APART_S <= at.start or at.end + BACKCHANNEL_APART_S <= start_s for at in taken)
        if apart and clip.is_silent(listener, start_s - BACKCHANNEL_ALONE_S, end_s + BACKCHANNEL_ALONE_S):
            taken.append(Segment(start_s, end_s))
            copies.append(Copy(listener, unit.start, unit.end, start_s))
    return copies


def _backchannels(session: Timeline, side: int) -> Iterator[Segment]:
    """Short units with own silence around them."""
    units = session.sides[side]
    for place, unit in enumerate(units):
        before_s = unit.start - units[place - 1].end if place else BACKCHANNEL_ALONE_S
        after_s = units[place + 1].start - unit.end if place + 1 < len(units) else BACKCHANNEL_ALONE_S
        if min(before_s, after_s) >= BACKCHANNEL_ALONE_S and _within(unit.length, BACKCHANNEL_S):
            yield unit


def _pauses(clip: Timeline) -> list[tuple[int, Segment]]:
    """Joint silences between two units of one side."""
    found = []
    for side in (0, 1):
        units = clip.sides[side]
        for before, after in itertools.pairwise(units):
            pause = Segment(before.end, after.start)
            if _within(pause.length, HOLD_PAUSE_S) and clip.is_silent(1 - side, pause.start, pause.end):
                found.append((side, pause))
    return found


def _enclosed_turns(clip: Timeline) -> list[tuple[int, Segment, Segment]]:
    """Turns of one side within a silence of the other in which nothing else is said: (side, turn, silence)."""
    found = []
    for side in (0, 1):
        for turn in turns(clip, side):
            before = [unit.end for unit in clip.sides[1 - side] if unit.end <= turn.start]
            after = [unit.start for unit in clip.sides[1 - side] if unit.start >= turn.end]
            if not (before and after and _within(turn.length, REMOVED_TURN_S)):
                continue
            around = Segment(before[-1], after[0])
            alone = clip.is_silent(side, around.start, turn.start) and clip.is_silent(side, turn.end, around.end)
            if alone and clip.is_silent(1 - side, around.start, around.end):
                found.append((side, turn, around))
    return found


def _fits(clip: Timeline, start_s: float, end_s: float) -> bool:
    """Whether an edit there has its context and its future within the clip."""
    return start_s >= CONTEXT_S and end_s + FUTURE_S <= clip.seconds


def _within(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _facts(one: Transition) -> dict[str, float]:
    return {"holder": one.holder, "ended_s": one.ended_s, "began_s": one.began_s, "gap_s": one.gap_s}


def _shuffled(items: list[T], rng: np.random.Generator) -> Iterator[T]:
    return (items[place] for place in rng.permutation(len(items)))
