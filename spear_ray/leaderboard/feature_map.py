"""The report's heat map: how far each system's distribution of each feature is from the reference's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape

from spear_ray.leaderboard._tables import scrolled
from spear_ray.leaderboard.board import Board
from spear_ray.leaderboard.distribution import ALIKE, FeatureDistance
from spear_ray.leaderboard.text import ABSENT, decimal, in_deviations, span

FULL_COLOUR = 2.0
"""Standardised mean difference from which a cell has the full colour."""

DEEPEST = 70
"""Per cent of the colour in such a cell, so that the number on it stays readable."""

NAMED = 3
"""Further features that a line names."""

Cells = Mapping[tuple[str, str], FeatureDistance]
"""By `<scorer>.<feature>` and system."""


def feature_map(board: Board) -> str:
    """The section, or nothing where no system is compared with a reference.

    One line for each group of features that go together in the reference's rows, named after its first feature; all
    features with their intervals fold away below.

    Args:
        board: its `distances` are drawn.
    """
    measured = [one for one in board.distances if not math.isnan(one.auroc)]
    if not measured:
        return ""
    compared = {one.system for one in measured}
    systems = [system for system in board.systems if system in compared]
    cells = {(_name(one), one.system): one for one in measured}
    groups = [list(names) for names in _groups(measured)]
    differing = {_name(one) for one in measured if one.smd != 0 or one.auroc != 0.5}
    lines = {first: others for first, *others in groups if differing.intersection((first, *others))}
    every = {_name(one): list[str]() for one in measured}
    return (
        f"<section class='heat'><h2>Distributions beside {escape(board.reference)}'s</h2>{_lead(board)}{_legend(board)}"
        f"{_table(lines, systems, cells, _short) if lines else ''}{_alike(groups, lines)}"
        f"<details><summary>Each feature on its own, with intervals: {len(every)}</summary>"
        f"{_table(every, systems, cells, _full)}</details></section>"
    )


def _lead(board: Board) -> str:
    reference = escape(board.reference)
    return (
        "<p class='lead'>Number and colour: difference of the means in pooled standard deviations (SD). AUROC: how"
        f" often a row of the system has a higher value than a row of {reference}; 0.5 is alike, 0 and 1 tell the two"
        f" apart every time. Features whose rank correlation over {reference}'s rows is {ALIKE} or more share a line,"
        " so that each idea stands here once.</p>"
    )


def _legend(board: Board) -> str:
    reference = escape(board.reference)
    return (
        f"<p class='legend'><span class='below'>below {reference}</span><span class='above'>above {reference}</span>"
        f"<i>full colour from {FULL_COLOUR:g} SD</i></p>"
    )


def _name(distance: FeatureDistance) -> str:
    return f"{distance.scorer}.{distance.feature}"


def _groups(distances: Iterable[FeatureDistance]) -> Iterable[Iterable[str]]:
    """Names that go together, in order."""
    found: dict[str, dict[str, None]] = {}
    for one in distances:
        found.setdefault(one.cluster, {})[_name(one)] = None
    return found.values()


def _alike(groups: Iterable[Sequence[str]], lines: Mapping[str, Sequence[str]]) -> str:
    """The features in which no system differs, in one sentence."""
    names = [_label(name, "") for group in groups if group[0] not in lines for name in group]
    return f"<p class='lead'>No difference in any system: {', '.join(names)}.</p>" if names else ""


def _table(
    lines: Mapping[str, Sequence[str]], systems: Sequence[str], cells: Cells, text: Callable[[FeatureDistance], str]
) -> str:
    """Args: for each line the name of its feature and of those that go with it."""
    heads = "".join(f"<th scope='col'>{escape(system)}</th>" for system in systems)
    body, scorer = "", ""
    for name, others in lines.items():
        if name.partition(".")[0] != scorer:
            scorer = name.partition(".")[0]
            body += f"<tr class='group'><th colspan='{len(systems) + 1}' scope='rowgroup'>{escape(scorer)}</th></tr>"
        values = "".join(_cell(cells.get((name, system)), text) for system in systems)
        body += f"<tr><th class='text' scope='row'>{_label(name, scorer)}{_with(others, scorer)}</th>{values}</tr>"
    return scrolled(f"<thead><tr><th class='text' scope='col'>feature</th>{heads}</tr></thead><tbody>{body}</tbody>")


def _label(name: str, scorer: str) -> str:
    """A feature's name as words, with its scorer where that is another one than the group's."""
    own, _, feature = name.replace("_", " ").partition(".")
    return escape(feature if own == scorer.replace("_", " ") else f"{feature} ({own})")


def _with(others: Sequence[str], scorer: str) -> str:
    """Some of the features that go with a line's own."""
    if not others:
        return ""
    words = [_label(other, scorer) for other in others[:NAMED]]
    more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
    return f"<small>with {', '.join(words)}{more}</small>"


def _cell(distance: FeatureDistance | None, text: Callable[[FeatureDistance], str]) -> str:
    if distance is None:
        return f"<td>{ABSENT}</td>"
    return f"<td{_colour(distance.smd)} title='{_full_words(distance)}'>{text(distance)}</td>"


def _colour(smd: float) -> str:
    if math.isnan(smd) or smd == 0:
        return ""
    part = round(DEEPEST * min(abs(smd) / FULL_COLOUR, 1))
    side = "above" if smd > 0 else "below"
    return f" style='background:color-mix(in srgb,var(--{side}) {part}%,transparent)'"


def _short(distance: FeatureDistance) -> str:
    return f"{in_deviations(distance.smd)}<small>AUROC {decimal(distance.auroc, 'auroc')}</small>"


def _full(distance: FeatureDistance) -> str:
    return (
        f"{in_deviations(distance.smd)} SD<small>{span(distance.smd_low, distance.smd_high, 'SD', signed=True)}</small>"
        f"<small>AUROC {decimal(distance.auroc, 'auroc')} {span(distance.auroc_low, distance.auroc_high, 'auroc')}"
        f"</small><small>Wasserstein {decimal(distance.wasserstein, 'SD')} SD"
        f" {span(distance.wasserstein_low, distance.wasserstein_high, 'SD')}</small>"
    )


def _full_words(distance: FeatureDistance) -> str:
    return escape(
        f"{distance.system}, {_name(distance)}: {distance.n} of {distance.n_total} rows; Wasserstein"
        f" {decimal(distance.wasserstein, 'SD')} SD",
        quote=True,
    )
