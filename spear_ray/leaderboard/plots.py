"""Plots as HTML rows around inline SVG, so that text keeps its size on a narrow screen.

Each row's drawing is stretched to the width that is there: x runs over 0..1000 whatever the screen, strokes
keep their width (`vector-effect`), and a dot is a line of no length with round ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spear_ray.leaderboard.board import Board, Entry
from spear_ray.leaderboard.text import MINUS, label, span, with_unit

WIDTH = 1000.0
"""Units across a drawing."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear x axis from `low` to `high` in a metric's unit; its ticks have `digits` after the point."""

    low: float
    high: float
    ticks: tuple[float, ...]
    digits: int

    def x(self, value: float) -> float:
        """Place of a value across the drawing, 0..WIDTH; values beyond the ends stay at the ends."""
        share = (value - self.low) / (self.high - self.low)
        return round(WIDTH * min(1.0, max(0.0, share)), 1)


def make_axis(values: Sequence[float], count: int = 4, margin: float = 0.06) -> Axis:
    """An axis that holds all values, with round tick values.

    Args:
        values: finite numbers, at least one.
        count: about how many ticks.
        margin: empty share on either side.
    """
    low, high = min(values), max(values)
    if low == high:
        reach = abs(low) * 0.1 or 1.0
        low, high = low - reach, high + reach
    low, high = low - margin * (high - low), high + margin * (high - low)
    step = _round_step((high - low) / count)
    first = math.ceil(low / step)
    ticks = tuple(round(index * step, 10) for index in range(first, math.floor(high / step) + 1))
    return Axis(low, high, ticks, max(0, -math.floor(math.log10(step))))


def dot_plot(board: Board, headline: Entry) -> str:
    """Each system's pooled value of one metric with its interval; the reference's is a line and a band.

    Args:
        board: the values.
        headline: any entry of the metric.
    """
    found = [board.entry(system, headline.metric) for system in board.systems]
    shown = [entry for entry in found if entry is not None]
    ends = [end for one in shown for end in (one.value, one.ci_low, one.ci_high) if math.isfinite(end)]
    if not ends:
        return ""
    axis = make_axis(ends)
    reference = board.entry(board.reference, headline.metric)
    rows = "".join(_dot_row(entry, reference, axis) for entry in shown)
    unit = f" <span class='unit'>{escape(headline.unit)}</span>" if headline.unit else ""
    return (
        f"<figure class='panel'><figcaption><b>{escape(label(headline))}</b>{unit}"
        f"<span class='about'>{escape(headline.about)}</span></figcaption>"
        f"<div class='dots'>{rows}<span></span>{tick_row(axis)}<span></span></div></figure>"
    )


def tick_row(axis: Axis) -> str:
    """The numbers under a drawing."""
    marks = "".join(
        f"<span style='left:{axis.x(tick) / 10:.2f}%'>{_tick_text(tick, axis.digits)}</span>" for tick in axis.ticks
    )
    return f"<div class='ticks' aria-hidden='true'>{marks}</div>"


def drawing(content: str, height: int, kind: str) -> str:
    """An SVG that is stretched to the width that is there."""
    return (
        f"<svg class='{kind}' viewBox='0 0 {WIDTH:.0f} {height}' preserveAspectRatio='none'"
        f" aria-hidden='true'>{content}</svg>"
    )


def vertical(axis: Axis, value: float, height: int, kind: str) -> str:
    """A vertical line at a value."""
    return f"<path class='{kind}' d='M{axis.x(value)} 0V{height}'/>"


def _dot_row(entry: Entry, reference: Entry | None, axis: Axis) -> str:
    kind = "is-reference" if reference is not None and entry.system == reference.system else "is-system"
    interval = span(entry.ci_low, entry.ci_high, entry.unit)
    value = f"{escape(with_unit(entry.value, entry.unit))}<small>{interval}</small>"
    content = "".join(vertical(axis, tick, 100, "grid") for tick in axis.ticks)
    content += _reference_band(reference, axis) + _dot(entry, axis)
    return (
        f"<span class='name {kind}'>{escape(entry.system)}</span>"
        f"<div class='track {kind}'>{drawing(content, 100, 'dot')}</div>"
        f"<span class='value'>{value}</span>"
    )


def _reference_band(reference: Entry | None, axis: Axis) -> str:
    if reference is None or math.isnan(reference.value):
        return ""
    line = vertical(axis, reference.value, 100, "reference-line")
    if math.isnan(reference.ci_low):
        return line
    left, right = axis.x(reference.ci_low), axis.x(reference.ci_high)
    return f"<rect class='band' x='{left}' y='0' width='{right - left:.1f}' height='100'/>{line}"


def _dot(entry: Entry, axis: Axis) -> str:
    if math.isnan(entry.value):
        return ""
    dot = f"<path class='point' d='M{axis.x(entry.value)} 50h0.01'/>"
    if math.isnan(entry.ci_low):
        return dot
    return f"<path class='interval' d='M{axis.x(entry.ci_low)} 50H{axis.x(entry.ci_high)}'/>{dot}"


def _tick_text(tick: float, digits: int) -> str:
    return f"{tick:.{digits}f}".replace("-", MINUS)


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return power * next(factor for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)
