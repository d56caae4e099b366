"""How numbers and names are written for people, in the report and in the terminal."""

from __future__ import annotations

import math

from spear_ray.leaderboard.board import Board, Difference, Entry
from spear_ray.scorers.base import Direction

ABSENT = "–"
MINUS = "−"

DECIMALS = {"ms": 0, "%": 1, "s": 2, "count": 2, "MOS": 2}
"""Digits after the point by unit; `OTHER_DECIMALS` for all others."""

OTHER_DECIMALS = 3


def decimal(value: float, unit: str, *, signed: bool = False) -> str:
    """A number with the digits that suit its unit; a dash for NaN."""
    if math.isnan(value):
        return ABSENT
    text = f"{value:{'+' if signed else ''}.{DECIMALS.get(unit, OTHER_DECIMALS)}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def span(low: float, high: float, unit: str, *, signed: bool = False) -> str:
    """An interval; empty where there is none."""
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{decimal(low, unit, signed=signed)}, {decimal(high, unit, signed=signed)}]"


def with_unit(value: float, unit: str) -> str:
    """A number and its unit."""
    return f"{decimal(value, unit)} {unit}".strip() if not math.isnan(value) else ABSENT


def label(entry: Entry) -> str:
    """A metric's name as words, without the unit that stands beside it: `latency_ms` is `latency`."""
    return entry.metric.removesuffix(f"_{entry.unit}").replace("_", " ")


def p_value(p: float) -> str:
    """A p; below 0.001 it says so."""
    if math.isnan(p):
        return ABSENT
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def in_deviations(standardised: float) -> str:
    """A standardised difference; infinite where neither side varies."""
    if math.isnan(standardised):
        return ABSENT
    if math.isinf(standardised):
        return "+∞" if standardised > 0 else f"{MINUS}∞"
    text = f"{standardised:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", MINUS)


def distance(value: float | None) -> str:
    """A distance to the reference; a dash where there is none."""
    if value is None:
        return ABSENT
    return "∞" if math.isinf(value) else f"{value:.2f}"


def aim(direction: Direction, reference: str) -> str:
    """Which way is better, in words."""
    return {
        "higher": "higher is better",
        "lower": "lower is better",
        "human": f"nearer to {reference} is better",
        "none": "neither way is better",
    }[direction]


def verdict(difference: Difference, reference: str) -> str:
    """What the interval of a difference says, in words."""
    if math.isnan(difference.ci_low):
        return ABSENT
    if difference.ci_low <= 0 <= difference.ci_high:
        return "no clear difference"
    above = difference.value > 0
    words = f"{'above' if above else 'below'} {reference}"
    better = {"higher": above, "lower": not above}.get(difference.entry.direction)
    return words if better is None else f"{words}, {'better' if better else 'worse'}"


def shown_headlines(board: Board) -> list[Entry]:
    """Headline metrics that some system has, `answered` and `latency_ms` first."""
    first = ("answered", "latency_ms")
    measured = {entry.metric for entry in board.entries if entry.n > 0}
    found = [entry for entry in board.headlines() if entry.metric in measured]
    return sorted(found, key=lambda entry: first.index(entry.metric) if entry.metric in first else len(first))
