"""One dialogue as its two sides' activity, with the moments marked that surprise the turn-taking predictor most."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from spear_ray.leaderboard.board import Board
from spear_ray.leaderboard.plots import Axis, drawing, make_axis, tick_row, vertical
from spear_ray.leaderboard.rows import read_rows
from spear_ray.leaderboard.text import decimal

if TYPE_CHECKING:
    import pyarrow as pa

SCORER = "turn_taking"
KEY = "dialog_nll"
HEIGHT = 100
LANES = {"asking": (16, 44), "answering": (58, 86)}
"""Top and bottom of each side's lane."""

TAIL_SHARE = 0.25
MAX_MARKS = 6
WORDS = {
    "falls_silent": "the {holder} side falls silent",
    "other_joins_in": "the {other} side joins in",
    "goes_on": "the {holder} side goes on after a pause",
    "other_begins": "the {other} side begins",
    "other_falls_silent": "the {other} side falls silent again",
    "gives_up_the_floor": "the {holder} side gives up the floor",
    "clip_ends": "the dialogue ends in this state",
    "utterance_start": "the {holder} side begins",
    "utterance_end": "the {holder} side ends",
}
SIDES = ("asking", "answering")


def choose_dialogues(board: Board, table: pa.Table) -> list[str]:
    """The most surprising dialogue of any system but the reference, and the reference's of the same item if it has one.

    Args:
        board: its split and reference.
        table: the rows of `turn_taking`.
    """
    rows = read_rows(SCORER, table)
    counted = (rows.status == "ok") & ((rows.split == board.split) if board.split else True)
    values = np.where(counted & (rows.system != board.reference), rows.value(KEY), np.nan)
    if not np.isfinite(values).any():
        return []
    worst = str(rows.dialogue_id[int(np.nanargmax(values))])
    item = worst.partition("/")[2]
    twin = f"{board.reference}/{item}"
    return [worst, *([twin] if twin in set(rows.dialogue_id[counted].tolist()) else [])]


def turn_plot(dialogues: Mapping[str, str]) -> str:
    """Lanes of speech and marked boundaries, one drawing for each dialogue, all on one time axis.

    Args:
        dialogues: the `details` of turn_taking rows (JSON) by dialogue id.

    Returns:
        HTML; empty where there is no dialogue.
    """
    found = {name: json.loads(details) for name, details in dialogues.items()}
    if not found:
        return ""
    axis = make_axis([0.0, max(details["seconds"] for details in found.values())], count=8, margin=0.0)
    body = "".join(_row(name, details, axis) for name, details in found.items())
    notes = "".join(_list(name, details) for name, details in found.items())
    return f"<div class='latencies turns'>{body}<span></span>{tick_row(axis)}</div>{notes}"


def marked(units: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """The most surprising quarter of a dialogue's units, at most six, in order of time.

    Args:
        units: [kind, side, start_s, end_s, nll] each.
    """
    count = min(MAX_MARKS, math.ceil(TAIL_SHARE * len(units)))
    worst = sorted(units, key=lambda unit: -float(unit[4]))[:count]
    return sorted(worst, key=lambda unit: float(unit[3]))


def _row(name: str, details: Mapping[str, Any], axis: Axis) -> str:
    system, _, item = name.partition("/")
    lines = "".join(vertical(axis, tick, HEIGHT, "grid") for tick in axis.ticks)
    lanes = "".join(_lane(side, details["activity"][side], axis) for side in SIDES)
    marks = "".join(vertical(axis, float(unit[3]), HEIGHT, "surprise") for unit in marked(details["units"]))
    return (
        f"<span class='name'>{escape(system)}<small>{escape(item)}</small></span>"
        f"<div class='track'>{drawing(lines + lanes + marks, HEIGHT, 'turns')}</div>"
    )


def _lane(side: str, speech: Sequence[Sequence[float]], axis: Axis) -> str:
    top, bottom = LANES[side]
    bars = "".join(f"M{axis.x(start)} {top}H{axis.x(end)}V{bottom}H{axis.x(start)}Z" for start, end in speech)
    return f"<path class='speech {side}' d='{bars}'/>" if bars else ""


def _list(name: str, details: Mapping[str, Any]) -> str:
    items = "".join(f"<li>{_sentence(unit)}</li>" for unit in marked(details["units"]))
    return f"<details><summary>{escape(name)}: what is marked</summary><ol class='notes'>{items}</ol></details>"


def _sentence(unit: Sequence[Any]) -> str:
    kind, side, start_s, end_s, nll = unit
    holder = SIDES[side] if side in (0, 1) else "neither"
    other = SIDES[1 - side] if side in (0, 1) else "neither"
    words = WORDS.get(kind, kind.replace("_", " ")).format(holder=holder, other=other)
    lasted = decimal(float(end_s) - float(start_s), "s")
    return escape(f"{decimal(float(end_s), 's')} s: {words}, {lasted} s after the last change; {nll:.1f} nats")
