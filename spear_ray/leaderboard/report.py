"""report.html: one self-contained page, without scripts and without anything from the network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from spear_ray.leaderboard._provenance import provenance_section, skipped_section
from spear_ray.leaderboard._tables import difference_section, ranking_table, values_section
from spear_ray.leaderboard.board import Board
from spear_ray.leaderboard.feature_map import feature_map
from spear_ray.leaderboard.latency_plot import latency_plot
from spear_ray.leaderboard.plots import dot_plot
from spear_ray.leaderboard.rows import read_rows
from spear_ray.leaderboard.style import CSS
from spear_ray.leaderboard.text import shown_headlines
from spear_ray.leaderboard.turn_plot import turn_plot

if TYPE_CHECKING:
    import pyarrow as pa

LATENCY_SCORER = "vad"


def render(
    board: Board, run: Mapping[str, Any], rows: Mapping[str, pa.Table], dialogues: Mapping[str, str] | None = None
) -> str:
    """The report as HTML.

    Args:
        board: the values.
        run: content of run.json; every key is optional.
        rows: the rows that the board was built from, by scorer; the latency distribution is drawn from them.
        dialogues: `details` of the turn_taking rows that are drawn as examples, by dialogue id.
    """
    parts = (
        _header(board, run),
        _section("Ranking", _how_to_read(board), ranking_table(board), _notes(board.notes)),
        _section("The headline metrics", _dots_text(board), _dots(board)),
        _latency_section(board, rows),
        _turn_section(dialogues or {}),
        difference_section(board),
        feature_map(board),
        values_section(board),
        skipped_section(board, run),
        provenance_section(run),
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{_title(board)} · spear_ray</title><style>{CSS}</style></head>\n"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _title(board: Board) -> str:
    others = [system for system in board.systems if system != board.reference]
    if len(others) > 1:
        return f"How natural are {len(others)} systems in conversation?"
    name = others[0] if others else board.reference
    return escape(f"How natural is {name} in conversation?")


def _header(board: Board, run: Mapping[str, Any]) -> str:
    data = run.get("data") or {}
    facts = (
        f"{data['dialogues']} dialogues" if "dialogues" in data else "",
        str(data.get("uri", "")),
        f"split {board.split}" if board.split else "all splits",
        f"finished {run['finished']}" if run.get("finished") else "",
    )
    line = " · ".join(escape(fact) for fact in facts if fact)
    return f"<header><p class='kicker'>spear_ray report</p><h1>{_title(board)}</h1><p class='facts'>{line}</p></header>"


def _how_to_read(board: Board) -> str:
    reference = escape(board.reference)
    return (
        "<p class='lead'>Each value is one mean or median over all rows that have it, with a"
        f" {board.confidence:.0%} interval from resampling whole conversations. Most of these measures have"
        f" no good end of their own: a system is natural where it is like the reference, <b>{reference}</b>."
        f" <b>Distance</b> is the mean over the headline metrics of the absolute difference to {reference},"
        " in pooled standard deviations: 0 is alike. It orders the table and is not a score.</p>"
    )


def _section(title: str, *content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{''.join(content)}</section>" if any(content) else ""


def _notes(notes: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"<ul class='notes'>{items}</ul>" if items else ""


def _dots_text(board: Board) -> str:
    if not board.has_reference:
        return "<p class='lead'>Value and interval of each system.</p>"
    return (
        "<p class='lead'>Value and interval of each system. The dashed line and its band are"
        f" {escape(board.reference)}'s value and interval.</p>"
    )


def _dots(board: Board) -> str:
    panels = "".join(dot_plot(board, headline) for headline in shown_headlines(board))
    return f"<div class='panels'>{panels}</div>" if panels else "<p>No headline metric was measured.</p>"


def _latency_section(board: Board, rows: Mapping[str, pa.Table]) -> str:
    if LATENCY_SCORER not in rows:
        return ""
    columns = read_rows(LATENCY_SCORER, rows[LATENCY_SCORER])
    counted = columns.where(columns.split == board.split) if board.split else columns
    plot = latency_plot(board, counted)
    if not plot:
        return ""
    legend = "<span class='zero-line'>end of the question</span><span class='system'>answers</span>"
    if board.has_reference:
        legend += f"<span class='reference'>{escape(board.reference)}</span>"
    return _section(
        "When the answer starts",
        "<p class='lead'>Milliseconds from the end of the question to the start of the answer. Left of 0 the"
        " answer began before the question had ended. All curves have the same area; each tick below is one"
        " answer.</p>",
        f"<p class='legend'>{legend}</p>",
        plot,
    )


def _turn_section(dialogues: Mapping[str, str]) -> str:
    plot = turn_plot(dialogues)
    if not plot:
        return ""
    return _section(
        "A dialogue's turns",
        "<p class='lead'>The dialogue whose timing is most surprising to the turn-taking predictor, and beside it the"
        " reference's answer to the same question. Bars are speech; lines mark the most surprising quarter of the"
        " moments at which somebody starts or stops.</p>",
        "<p class='legend'><span class='system'>asks</span><span class='answers-bar'>answers</span>"
        "<span class='surprise-line'>surprising</span><i>seconds</i></p>",
        plot,
    )
