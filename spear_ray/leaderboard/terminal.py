"""The ranking as a table for the terminal, made for 80 columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from spear_ray.leaderboard.board import Board, Entry, Standing
from spear_ray.leaderboard.text import ABSENT, decimal, distance, label, shown_headlines, span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

SYSTEM_WIDTH, METRIC_WIDTH = 24, 13
"""Columns that system and distance, and each metric, take; what does not fit goes into another table below."""

INTERVAL_OF = "latency_ms"
"""The one headline metric that shows its interval; more would not fit."""


def print_ranking(board: Board, console: Console) -> None:
    """Print systems in order with headline metrics and the distance to the reference.

    Args:
        board: the values.
        console: where to print.
    """
    headlines = shown_headlines(board)
    step = max(2, (console.width - SYSTEM_WIDTH) // METRIC_WIDTH)
    for first in range(0, max(1, len(headlines)), step):
        console.print(_table(board, headlines[first : first + step], last=first + step >= len(headlines)))
    for note in board.notes:
        console.print(note, style="dim", markup=False, highlight=False)
    if board.has_reference:
        text = f"Distance: mean |difference to {board.reference}| in standard deviations over these metrics."
        console.print(text, style="dim", markup=False, highlight=False)


def _table(board: Board, headlines: Sequence[Entry], last: bool) -> Table:
    """Some of the metrics; the last table also has the distance."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("system", overflow="fold", min_width=12)
    for entry in headlines:
        table.add_column(Text(f"{label(entry)}\n{entry.unit}"), justify="right", overflow="fold")
    if last:
        table.add_column("distance", justify="right", no_wrap=True)
    for standing in board.standings:
        is_reference = standing.system == board.reference
        name = Text(standing.system)
        if is_reference:
            name.append(" (reference)", style="dim")
        cells = [Text(_cell(board.entry(standing.system, entry.metric))) for entry in headlines]
        far = [_far(standing, is_reference)] if last else []
        table.add_row(name, *cells, *far, style="bold" if is_reference else "")
    return table


def _far(standing: Standing, is_reference: bool) -> str:
    return ABSENT if is_reference else distance(standing.distance)


def _cell(entry: Entry | None) -> str:
    if entry is None:
        return ABSENT
    value = decimal(entry.value, entry.unit)
    if entry.metric != INTERVAL_OF:
        return value
    return f"{value}\n{span(entry.ci_low, entry.ci_high, entry.unit)}".rstrip()
