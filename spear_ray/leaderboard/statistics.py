"""Estimates with intervals that resample whole conversations, and comparisons of two systems.

Items cut from one conversation are not independent, so the bootstrap draws conversations, never single rows
(cluster bootstrap: Davison and Hinkley 1997, section 3.8). Everything here is a pure function on arrays. A
value that a row does not have is NaN and takes no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

from spear_ray.leaderboard.moments import SetReducer, moments

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Weights = npt.NDArray[np.uint16]
RowReducer = Literal["mean", "median"]
"""Reducers of one value per row; the others need all rows at once."""
Reducer = RowReducer | SetReducer

CELLS_PER_CHUNK = 100_000
"""Resamples x rows (or conversations) held as 8-byte numbers at the same time: 0.8 MB."""


@lru_cache(maxsize=2)
def draw_weights(conversations: int, resamples: int, seed: int) -> Weights:
    """How often each conversation is drawn in each resample.

    Args:
        conversations: number C of conversations in the population.
        resamples: number B of resamples.
        seed: of the generator; the same three numbers give the same weights.

    Returns:
        uint16 [B, C], each row sums to C. Read-only, for it is shared between calls.
    """
    generator = np.random.default_rng(seed)
    equal = np.full(conversations, 1 / conversations)
    weights = np.empty((resamples, conversations), dtype=np.uint16)
    for part in _chunks(resamples, conversations):
        weights[part] = generator.multinomial(conversations, equal, size=part.stop - part.start)
    weights.flags.writeable = False
    return weights


def estimate(values: Floats, reducer: Reducer) -> float:
    """The statistic of the rows that have their values; NaN where none has.

    Args:
        values: [rows], or [rows, keys] for what needs several values of a row; NaN where absent.
        reducer: `mean`, `median` or one of `moments.SET_REDUCERS`.
    """
    present = values[complete(values)]
    if present.size == 0:
        return float("nan")
    if reducer == "mean":
        return float(np.mean(present))
    return float(np.median(present)) if reducer == "median" else moments(present, reducer).value


def complete(values: Floats) -> npt.NDArray[np.bool_]:
    """Which rows have all of their values, bool [rows].

    Args:
        values: [rows] or [rows, keys].
    """
    present = np.isfinite(values)
    return np.asarray(present if present.ndim == 1 else present.all(axis=1))


def resampled(weights: Weights, values: Floats, conversation: Integers, reducer: Reducer) -> Floats:
    """The estimate in each resample.

    Args:
        weights: [B, C], from `draw_weights`.
        values: [rows] or [rows, keys], NaN where absent.
        conversation: [rows], index of each row's conversation in 0..C-1.
        reducer: over the rows of the drawn conversations.

    Returns:
        [B]; NaN where a resample holds no conversation that has a value.
    """
    present = complete(values)
    values, conversation = values[present], conversation[present]
    if values.size == 0:
        return np.full(len(weights), np.nan)
    if reducer == "median":
        return _medians(weights, values, conversation)
    return _means(weights, values, conversation) if reducer == "mean" else _sets(weights, values, conversation, reducer)


def percentile_interval(resamples: Floats, confidence: float) -> tuple[float, float]:
    """The percentile interval of resampled estimates; NaNs where no resample has a value.

    Args:
        resamples: [B].
        confidence: for instance 0.95.
    """
    present = resamples[np.isfinite(resamples)]
    if present.size == 0:
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = np.quantile(present, [tail, 1 - tail])
    return float(low), float(high)


def index_conversations(*groups: Sequence[str]) -> tuple[int, list[Integers]]:
    """Number the conversations of one or more groups of rows on one list.

    Args:
        groups: the conversation id of each row, one sequence for each group.

    Returns:
        How many conversations the groups have together, and for each group the index of each row's
        conversation. Indices follow the sorted ids, so that resamples do not depend on the order of rows.
    """
    position = {name: index for index, name in enumerate(sorted(set().union(*groups)))}
    return len(position), [np.array([position[name] for name in group], dtype=np.int64) for group in groups]


def interval(
    values: Floats,
    conversations: Sequence[str],
    reducer: Reducer,
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> tuple[float, float]:
    """Percentile interval of a statistic, resampling whole conversations.

    Args:
        values: [rows] or [rows, keys], NaN where absent.
        conversations: [rows], the conversation id of each row.
        reducer: which statistic.
        resamples: number of resamples.
        confidence: for instance 0.95.
        seed: of the resamples.

    Returns:
        (low, high); NaNs, that is no interval, where fewer than two conversations have a value.
    """
    count, (index,) = index_conversations(conversations)
    if _conversations_with_values(values, index) < 2:
        return float("nan"), float("nan")
    weights = draw_weights(count, resamples, seed)
    return percentile_interval(resampled(weights, values, index, reducer), confidence)


def difference_interval(
    system: tuple[Floats, Sequence[str]],
    reference: tuple[Floats, Sequence[str]],
    reducer: Reducer,
    *,
    resamples: int,
    confidence: float,
    seed: int,
) -> tuple[float, float]:
    """Percentile interval of `system - reference`, paired by conversation.

    A resample draws from the union of both systems' conversations and gives both the same weights: what makes
    one conversation hard for everybody cancels out.

    Args:
        system: values [rows] or [rows, keys] and conversation ids [rows].
        reference: the same for the reference system.
        reducer: which statistic.
        resamples: number of resamples.
        confidence: for instance 0.95.
        seed: of the resamples.

    Returns:
        (low, high); NaNs where either side has values in fewer than two conversations.
    """
    count, (index, reference_index) = index_conversations(system[1], reference[1])
    sides = ((system[0], index), (reference[0], reference_index))
    if any(_conversations_with_values(*side) < 2 for side in sides):
        return float("nan"), float("nan")
    weights = draw_weights(count, resamples, seed)
    ours, theirs = (resampled(weights, *side, reducer) for side in sides)
    return percentile_interval(ours - theirs, confidence)


def standardised_mean_difference(values: Floats, reference: Floats) -> float:
    """Difference of the means in pooled standard deviations (Cohen's d, Cohen 1988, section 2.2).

    Args:
        values: [rows] of a system, NaN where absent.
        reference: [rows] of the reference system.

    Returns:
        0 where both sides are constant and equal; +-inf where both are constant and differ; NaN where a side
        has no values or both have only one.
    """
    ours, theirs = values[np.isfinite(values)], reference[np.isfinite(reference)]
    freedom = ours.size + theirs.size - 2
    if ours.size == 0 or theirs.size == 0 or freedom < 1:
        return float("nan")
    difference = float(np.mean(ours) - np.mean(theirs))
    if np.ptp(ours) == 0 and np.ptp(theirs) == 0:
        return 0.0 if ours[0] == theirs[0] else float(np.copysign(np.inf, difference))
    squares = np.sum((ours - np.mean(ours)) ** 2) + np.sum((theirs - np.mean(theirs)) ** 2)
    return difference / float(np.sqrt(squares / freedom))


def mann_whitney_p(values: Floats, reference: Floats) -> float:
    """Two-sided p of the Mann-Whitney U test, over rows as SPEARBench reports it.

    The test takes rows as independent; the interval of the difference does not.

    Args:
        values: [rows] of a system, NaN where absent.
        reference: [rows] of the reference system.

    Returns:
        p, or NaN where a side has no values.
    """
    from scipy.stats import mannwhitneyu

    ours, theirs = values[np.isfinite(values)], reference[np.isfinite(reference)]
    if ours.size == 0 or theirs.size == 0:
        return float("nan")
    if np.ptp(np.concatenate([ours, theirs])) == 0:
        return 1.0
    return float(mannwhitneyu(ours, theirs, alternative="two-sided").pvalue)


def _means(weights: Weights, values: Floats, conversation: Integers) -> Floats:
    conversations = weights.shape[1]
    totals = np.stack(
        [
            np.bincount(conversation, values, minlength=conversations),
            np.bincount(conversation, minlength=conversations).astype(np.float64),
        ],
        axis=1,
    )
    drawn = np.concatenate([weights[part].astype(np.float64) @ totals for part in _chunks(len(weights), conversations)])
    means: Floats = np.full(len(weights), np.nan)
    np.divide(drawn[:, 0], drawn[:, 1], out=means, where=drawn[:, 1] > 0)
    return means


def _sets(weights: Weights, values: Floats, conversation: Integers, reducer: SetReducer) -> Floats:
    found = moments(values, reducer)
    totals = np.zeros((weights.shape[1], found.terms.shape[1]))
    np.add.at(totals, conversation, found.terms)
    width = max(weights.shape[1], totals.shape[1])
    return np.concatenate(
        [found.finish(weights[part].astype(np.float64) @ totals) for part in _chunks(len(weights), width)]
    )


def _medians(weights: Weights, values: Floats, conversation: Integers) -> Floats:
    order = np.argsort(values, kind="stable")
    ordered, owner = values[order], conversation[order]
    return np.concatenate(
        [_weighted_medians(weights[part][:, owner], ordered) for part in _chunks(len(weights), values.size)]
    )


def _weighted_medians(weights: Weights, ordered: Floats) -> Floats:
    """Median of `ordered` [rows] with each value repeated `weights` [b, rows] times."""
    cumulative = np.cumsum(weights, axis=1, dtype=np.int64)
    total = cumulative[:, -1]
    # Ranks from 1: an even total has two middle values, an odd one the same value twice.
    lower = np.sum(cumulative < ((total + 1) // 2)[:, None], axis=1)
    upper = np.sum(cumulative < (total // 2 + 1)[:, None], axis=1)
    last = ordered.size - 1
    middle = (ordered[np.minimum(lower, last)] + ordered[np.minimum(upper, last)]) / 2
    return np.where(total > 0, middle, np.nan)


def _conversations_with_values(values: Floats, conversation: Integers) -> int:
    return int(np.unique(conversation[complete(values)]).size)


def _chunks(resamples: int, width: int) -> list[slice]:
    step = max(1, CELLS_PER_CHUNK // max(1, width))
    return [slice(start, min(start + step, resamples)) for start in range(0, resamples, step)]
