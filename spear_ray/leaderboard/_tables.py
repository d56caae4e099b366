"""The report's tables of values: ranking, differences, everything."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from spear_ray.leaderboard.board import POOLED, Board, Difference, Entry, Standing
from spear_ray.leaderboard.text import (
    ABSENT,
    aim,
    decimal,
    distance,
    in_deviations,
    label,
    p_value,
    shown_headlines,
    span,
    verdict,
)


def ranking_table(board: Board) -> str:
    """One line for each system: headline metrics and distance."""
    headlines = shown_headlines(board)
    heads = "".join(f"<th scope='col'>{_name_and_unit(entry)}</th>" for entry in headlines)
    far = [one.distance for one in board.standings if one.distance is not None and math.isfinite(one.distance)]
    lines = "".join(_ranking_line(board, one, headlines, max(far, default=0.0)) for one in board.standings)
    return scrolled(
        f"<thead><tr><th class='text' scope='col'>system</th>{heads}"
        f"<th scope='col'>distance to {escape(board.reference)}</th></tr></thead><tbody>{lines}</tbody>"
    )


def difference_section(board: Board) -> str:
    """Differences to the reference on the pooled rows; the metrics that are not headlines fold away."""
    pooled = [one for one in board.differences if one.entry.subset == POOLED]
    if not pooled:
        return ""
    first = [one for one in pooled if one.entry.headline]
    rest = [one for one in pooled if not one.entry.headline]
    more = f"<details><summary>The other metrics</summary>{_difference_table(board, rest)}</details>"
    return (
        f"<section><h2>Differences to {escape(board.reference)}</h2>"
        f"<p class='lead'>System minus {escape(board.reference)}. The interval draws the same conversations"
        " for both, so that a hard conversation counts on both sides. SD: difference of the means in pooled"
        " standard deviations. p: two-sided Mann-Whitney U test over rows, which takes rows as"
        " independent.</p>"
        f"{_difference_table(board, first) if first else ''}{more if rest else ''}</section>"
    )


def values_section(board: Board) -> str:
    """Every metric by system and subset, one table for each scorer."""
    scorers = list(dict.fromkeys(entry.scorer for entry in board.entries))
    tables = "".join(_scorer_table(board, scorer) for scorer in scorers)
    return (
        "<section><h2>All values</h2><p class='lead'>Value, interval, and how many rows have a value out of"
        f" all rows of that system and subset. The column <i>{POOLED}</i> is one value over all rows, not a"
        f" mean of the subsets.</p>{tables}</section>"
    )


def scrolled(content: str) -> str:
    """A table in a box of its own, which scrolls where the screen is narrow."""
    return f"<div class='scroll' tabindex='0' role='region' aria-label='table'><table>{content}</table></div>"


def _ranking_line(board: Board, standing: Standing, headlines: Sequence[Entry], furthest: float) -> str:
    is_reference = standing.system == board.reference
    kind, tag = (" class='is-reference'", "<span class='tag'>reference</span>") if is_reference else ("", "")
    cells = "".join(_cell(board.entry(standing.system, entry.metric)) for entry in headlines)
    far = ABSENT if is_reference else distance(standing.distance)
    return (
        f"<tr{kind}><th class='text' scope='row'>{escape(standing.system)}{tag}</th>{cells}"
        f"<td>{far}{'' if is_reference else _bar(standing.distance, furthest)}</td></tr>"
    )


def _bar(value: float | None, furthest: float) -> str:
    if value is None or not furthest or math.isinf(value):
        return ""
    return f"<span class='bar' style='width:{100 * value / furthest:.0f}%'></span>"


def _cell(entry: Entry | None, *, compact: bool = False) -> str:
    """Value, interval and counts below each other, or the last two on one line."""
    if entry is None:
        return f"<td>{ABSENT}</td>"
    interval = span(entry.ci_low, entry.ci_high, entry.unit)
    lines = [interval, f"{entry.n} of {entry.n_total}"]
    small = [" · ".join(filter(None, lines))] if compact else lines
    return f"<td>{decimal(entry.value, entry.unit)}{''.join(f'<small>{line}</small>' for line in small)}</td>"


def _name_and_unit(entry: Entry) -> str:
    unit = f" <span class='unit'>{escape(entry.unit)}</span>" if entry.unit else ""
    return f"{escape(label(entry))}{unit}"


def _difference_table(board: Board, differences: Sequence[Difference]) -> str:
    heads = ("difference", "SD", "p", "reading")
    columns = "".join(f"<th class='{'text' if head == 'reading' else ''}' scope='col'>{head}</th>" for head in heads)
    body = ""
    for metric in dict.fromkeys(one.entry.metric for one in differences):
        ours = [one for one in differences if one.entry.metric == metric]
        body += _group(ours[0].entry, board.reference, len(heads) + 1)
        body += "".join(_difference_line(one, board.reference) for one in ours)
    return scrolled(f"<thead><tr><th class='text' scope='col'>system</th>{columns}</tr></thead><tbody>{body}</tbody>")


def _difference_line(difference: Difference, reference: str) -> str:
    entry = difference.entry
    interval = span(difference.ci_low, difference.ci_high, entry.unit, signed=True)
    return (
        f"<tr><td class='text'>{escape(entry.system)}</td>"
        f"<td>{decimal(difference.value, entry.unit, signed=True)}<small>{interval}</small></td>"
        f"<td>{in_deviations(difference.standardised)}</td><td>{escape(p_value(difference.p))}</td>"
        f"<td class='text'>{escape(verdict(difference, reference))}</td></tr>"
    )


def _scorer_table(board: Board, scorer: str) -> str:
    entries = [entry for entry in board.entries if entry.scorer == scorer]
    measured = {entry.metric for entry in entries if entry.n}
    names = list(dict.fromkeys(entry.metric for entry in entries if entry.metric in measured))
    absent = dict.fromkeys(entry.metric for entry in entries if entry.metric not in measured)
    body = "".join(_metric_lines(board, [one for one in entries if one.metric == name]) for name in names)
    heads = "".join(f"<th scope='col'>{escape(subset)}</th>" for subset in board.subsets)
    table = scrolled(f"<thead><tr><th class='text' scope='col'>system</th>{heads}</tr></thead><tbody>{body}</tbody>")
    plural = "metric" if len(names) == 1 else "metrics"
    lacking = f"<p class='lead'>Not measured in any row: {escape(', '.join(absent))}.</p>" if absent else ""
    summary = f"<summary>{escape(scorer)}: {len(names)} {plural}</summary>"
    return f"<details open>{summary}{table if names else ''}{lacking}</details>"


def _metric_lines(board: Board, entries: Iterable[Entry]) -> str:
    by_place = {(entry.system, entry.subset): entry for entry in entries}
    lines = _group(next(iter(by_place.values())), board.reference, len(board.subsets) + 1)
    for system in dict.fromkeys(system for system, _ in by_place):
        cells = "".join(_cell(by_place.get((system, subset)), compact=True) for subset in board.subsets)
        lines += f"<tr><td class='text'>{escape(system)}</td>{cells}</tr>"
    return lines


def _group(entry: Entry, reference: str, columns: int) -> str:
    about = f"{entry.about} {aim(entry.direction, reference).capitalize()}."
    return (
        f"<tr class='group'><th colspan='{columns}' scope='rowgroup'>{_name_and_unit(entry)}"
        f"<small>{escape(about.strip())}</small></th></tr>"
    )
