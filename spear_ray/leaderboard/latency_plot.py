"""When answers start: the distribution of signed latency, one row for each system."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from spear_ray.leaderboard.board import Board
from spear_ray.leaderboard.plots import WIDTH, Axis, drawing, make_axis, tick_row, vertical
from spear_ray.leaderboard.rows import ScorerRows
from spear_ray.leaderboard.statistics import Floats
from spear_ray.leaderboard.text import with_unit

KEY = "latency_ms"
HEIGHT = 100
"""Units from top to bottom of a row: the density ends at `BASE`, single answers are ticks below."""

BASE = 86
GRID_POINTS = 200
MAX_TICKS = 300
"""Single answers drawn in a row; beyond that, evenly spaced ones of the sorted answers."""

TAIL = 0.5
"""Percent of all answers that may lie beyond either end of the axis."""

MIN_BANDWIDTH_MS = 30.0
"""Answers closer together than this are not told apart by a listener, nor by the curve."""


def latency_plot(board: Board, rows: ScorerRows) -> str:
    """One row for each system: density, single answers, and the reference's density as an outline.

    Args:
        board: order of systems and the reference.
        rows: of the vad scorer, those that count.

    Returns:
        HTML; empty where nobody answered.
    """
    values = rows.value(KEY)
    if not np.isfinite(values).any():
        return ""
    ours = {system: values[rows.system == system] for system in board.systems}
    axis = make_axis(_ends(values), count=6, margin=0.02)
    body = "".join(_row(board, system, ours, axis) for system in board.systems)
    return f"<div class='latencies'>{body}<span></span>{tick_row(axis)}</div>"


def density(values: Floats, grid: Floats) -> Floats:
    """Gaussian kernel density with Silverman's bandwidth (Silverman 1986, equation 3.31).

    Args:
        values: [n] finite, n > 0.
        grid: [points].

    Returns:
        [points], the area over the whole line is 1.
    """
    quartiles = np.percentile(values, [25, 75])
    spread = min(float(np.std(values)), float(np.ptp(quartiles)) / 1.34) or float(np.std(values))
    bandwidth = max(MIN_BANDWIDTH_MS, 0.9 * spread * values.size**-0.2)
    total = np.zeros_like(grid)
    for part in np.array_split(values, max(1, values.size // 1000)):
        total += np.exp(-0.5 * ((grid[:, None] - part[None, :]) / bandwidth) ** 2).sum(axis=1)
    scaled: Floats = total / (values.size * bandwidth * np.sqrt(2 * np.pi))
    return scaled


def _ends(values: Floats) -> list[float]:
    present = values[np.isfinite(values)]
    low, high = np.percentile(present, [TAIL, 100 - TAIL])
    return [min(0.0, float(low)), max(0.0, float(high))]


def _row(board: Board, system: str, values: Mapping[str, Floats], axis: Axis) -> str:
    present = values[system][np.isfinite(values[system])]
    kind = "is-reference" if system == board.reference else "is-system"
    outside = int(((present < axis.low) | (present > axis.high)).sum())
    facts = [
        f"{present.size} of {values[system].size} answered",
        f"median {with_unit(float(np.median(present)), 'ms')}" if present.size else "",
        f"{outside} beyond the axis" if outside else "",
    ]
    small = "".join(f"<small>{fact}</small>" for fact in facts if fact)
    reference = values.get(board.reference, np.empty(0))
    content = _content(present, reference[np.isfinite(reference)], axis)
    return (
        f"<span class='name {kind}'>{escape(system)}{small}</span>"
        f"<div class='track {kind}'>{drawing(content, HEIGHT, 'density')}</div>"
    )


def _content(values: Floats, reference: Floats, axis: Axis) -> str:
    grid = np.linspace(axis.low, axis.high, GRID_POINTS)
    curves = {kind: density(sample, grid) for kind, sample in (("own", values), ("outline", reference)) if sample.size}
    top = max((float(curve.max()) for curve in curves.values()), default=0.0) or 1.0
    lines = "".join(vertical(axis, tick, HEIGHT, "grid") for tick in axis.ticks)
    drawn = "".join(_curve(kind, curve / top) for kind, curve in curves.items())
    return lines + drawn + vertical(axis, 0.0, HEIGHT, "zero") + _ticks(values, axis)


def _curve(kind: str, heights: Floats) -> str:
    """The line of a density; under a system's own also the area down to the base."""
    xs = np.linspace(0, WIDTH, heights.size)
    line = "L".join(f"{x:.0f} {BASE * (1 - 0.94 * y):.1f}" for x, y in zip(xs, heights, strict=True))
    area = f"<path class='area' d='M0 {BASE}L{line}V{BASE}Z'/>" if kind == "own" else ""
    return f"{area}<path class='{kind}' d='M{line}'/>"


def _ticks(values: Floats, axis: Axis) -> str:
    inside = np.sort(values[(values >= axis.low) & (values <= axis.high)])
    if inside.size > MAX_TICKS:
        inside = inside[np.linspace(0, inside.size - 1, MAX_TICKS).astype(int)]
    marks = "".join(f"M{axis.x(float(value))} {BASE + 3}V{HEIGHT - 1}" for value in inside)
    return f"<path class='answers' d='{marks}'/>" if marks else ""
