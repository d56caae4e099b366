"""The arithmetic of SPEARBench's table: pure functions on arrays, defects included.

See `spear_ray.leaderboard.published` for what is unexpected about them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spear_ray.judging.stances import TURNED_ROUND
from spear_ray.leaderboard.statistics import Floats

Texts = Sequence[str]
Table = Mapping[str, Texts]
"""Columns of one per-row CSV file as text, by name; blank where a cell is empty."""

DIALECTS = 16
"""Length of a dialect vector (VoxLect's English dialects)."""


def numbers(texts: Texts) -> Floats:
    """Texts as [rows] float64; NaN for what is blank, not a number or not finite."""
    values = np.array([_number(text) for text in texts], dtype=np.float64)
    return np.where(np.isfinite(values), values, np.nan)


def joined_numbers(tables: Sequence[Table], column: str) -> Floats:
    """A column of several files, joined; [rows] of NaN for a file without it."""
    parts = [numbers(table[column]) if column in table else np.full(_rows(table), np.nan) for table in tables]
    return np.concatenate([np.empty(0), *parts])


def joined_texts(tables: Sequence[Table], column: str) -> list[str]:
    """A column of several files without outer blanks, joined; blanks for a file without it."""
    return [str(text).strip() for table in tables for text in table.get(column, [""] * _rows(table))]


def mean(values: Floats) -> float:
    """Mean of the values that exist; NaN where none does."""
    present = values[np.isfinite(values)]
    return float(np.mean(present)) if present.size else float("nan")


def deviation(values: Floats) -> float:
    """Sample standard deviation (n - 1) of the values that exist; NaN with fewer than two."""
    present = values[np.isfinite(values)]
    return float(np.std(present, ddof=1)) if present.size > 1 else float("nan")


def error_rates(tables: Sequence[Table], kind: str) -> Floats:
    """All rows of all recognisers of WER or CER, as fractions.

    The plain column counts only where no recogniser is named.

    Args:
        tables: base metrics of the subsets.
        kind: `WER` or `CER`.
    """
    names = sorted({name for table in tables for name in table if name.startswith(f"{kind}_")}) or [kind]
    return np.concatenate([np.empty(0), *(joined_numbers(tables, name) for name in names)])


def interruption_share(interrupted_ms: Floats, flags: Floats) -> float:
    """Share of all rows with an interruption; rows without a value count as none. NaN without rows.

    Args:
        interrupted_ms: [rows] overlap in ms.
        flags: [rows] 0 or 1, NaN where the file does not say; then the overlap decides.
    """
    if interrupted_ms.size == 0:
        return float("nan")
    return float(np.mean((flags > 0) | (np.isnan(flags) & (interrupted_ms > 0))))


def pearson(first: Floats, second: Floats) -> float:
    """Pearson's r over rows that have both values; NaN with fewer than two or without variation."""
    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < 2 or np.ptp(first[both]) == 0 or np.ptp(second[both]) == 0:
        return float("nan")
    return float(np.corrcoef(first[both], second[both])[0, 1])


def entrainment_slope(questions: Floats, answers: Floats) -> float:
    """Slope of answers on questions, all dimensions and rows in one regression with intercept.

    Both sides are flattened and scaled to [0, 1] by their own extremes first.

    Args:
        questions: [rows, dimensions].
        answers: the same shape.

    Returns:
        The slope; NaN with fewer than two numbers or where a side is constant.
    """
    x, y = questions.ravel(), answers.ravel()
    if x.size < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    x, y = (x - x.min()) / np.ptp(x), (y - y.min()) / np.ptp(y)
    return float(np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2))


def total_variance(answers: Floats) -> float:
    """Trace of the sample covariance; 0 for one row, NaN for none.

    Args:
        answers: [rows, dimensions].
    """
    if len(answers) < 2:
        return 0.0 if len(answers) else float("nan")
    return float(np.var(answers, axis=0, ddof=1).sum())


def stance_reference(category: str, related: str) -> float:
    """+2 where the category is the first of the related ones, -2 for the second, NaN else, so for a third.

    Args:
        category: the target's category.
        related: categories with `|` between them.
    """
    wanted = category.strip().lower()
    poles = [one.strip().lower() for one in related.split("|")]
    if not wanted or wanted not in poles[:2]:
        return float("nan")
    return 2.0 if wanted == poles[0] else -2.0


def stance_shares(references: Floats, scores: Floats, categories: Texts) -> tuple[float, float, float]:
    """Shares of rows whose judged stance agrees with, lies below and lies above the reference.

    Args:
        references: [rows] in -2..2, NaN where there is none.
        scores: [rows] the judge's scores.
        categories: [rows]; those that begin with one of `TURNED_ROUND` change the sign of both.

    Returns:
        Fractions (same sign, more negative, more positive) of the rows that have both; NaNs without rows.
    """
    signs = np.array([-1.0 if _first_word(category) in TURNED_ROUND else 1.0 for category in categories])
    both = np.isfinite(references) & np.isfinite(scores)
    if not both.any():
        return float("nan"), float("nan"), float("nan")
    reference, score = (references * signs)[both], (scores * signs)[both]
    same = np.sign(reference) == np.sign(score)
    return float(same.mean()), float((score < reference).mean()), float((score > reference).mean())


def dialect_vector(text: str) -> Floats | None:
    """A Python list literal of `DIALECTS` finite numbers, else None."""
    try:
        literal: Any = ast.literal_eval(text)
        vector = np.array(literal, dtype=np.float64)
    except (ValueError, SyntaxError, TypeError):
        return None
    return vector if vector.shape == (DIALECTS,) and np.isfinite(vector).all() else None


def _first_word(category: str) -> str:
    return next(iter(category.lower().split()), "")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _rows(table: Table) -> int:
    return max((len(column) for column in table.values()), default=0)
