"""How well a predictor tells natural dialogues from edited ones: TurnNat's statistics, intervals by conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spear_ray.leaderboard.statistics import draw_weights, index_conversations, percentile_interval

Floats = npt.NDArray[np.float64]

RESAMPLES = 1000
CONFIDENCE = 0.95


class ScoredPair(NamedTuple):
    """A natural clip and what was made of it, both scored.

    Args:
        kind: of the edit.
        source: conversation id.
        natural_nll: nats.
        edited_nll: nats.
    """

    kind: str
    source: str
    natural_nll: float
    edited_nll: float


class _Part(NamedTuple):
    """The pairs of one kind, with the index of each pair's conversation."""

    natural: Floats
    edited: Floats
    conversation: npt.NDArray[np.int64]


def pair_table(pairs: Sequence[ScoredPair], seed: int) -> dict[str, Any]:
    """Statistics of each kind of edit, and overall: the mean over the kinds, each kind counting alike.

    Args:
        pairs: at least one.
        seed: of the bootstrap.

    Returns:
        `overall` and `types`; each has n, conversations, pairwise_accuracy (share of pairs whose edited clip is the
        more surprising one), c_index (the same over all natural x edited pairs, ties left out), delta_nll (mean of
        edited minus natural, nats), and for each of the three `<name>_ci95` [low, high] from resampling conversations.
    """
    kinds = sorted({pair.kind for pair in pairs})
    count, (index,) = index_conversations([pair.source for pair in pairs])
    weights = draw_weights(count, RESAMPLES, seed)
    parts = {kind: _part(pairs, index, kind) for kind in kinds}
    values = {kind: _statistics(part, None) for kind, part in parts.items()}
    resampled = {kind: _resampled(part, weights) for kind, part in parts.items()}
    types = {
        kind: {"n": int(part.natural.size), "conversations": len(set(part.conversation.tolist()))}
        | _with_intervals(values[kind], resampled[kind])
        for kind, part in parts.items()
    }
    overall = {"n": len(pairs), "conversations": count} | _with_intervals(
        _mean(list(values.values())), _mean(list(resampled.values()))
    )
    return {"overall": overall, "types": types}


def c_index(natural: Floats, edited: Floats, natural_weight: Floats, edited_weight: Floats) -> float:
    """Share of natural x edited pairs in which the edited one is higher, ties left out; NaN where all are ties.

    Args:
        natural: [n].
        edited: [m].
        natural_weight: [n], how often each counts.
        edited_weight: [m].
    """
    order = np.argsort(natural)
    below = np.concatenate([[0.0], np.cumsum(natural_weight[order])])
    ordered = natural[order]
    lower = below[np.searchsorted(ordered, edited, side="left")]
    higher = below[-1] - below[np.searchsorted(ordered, edited, side="right")]
    concordant, wrong = float(edited_weight @ lower), float(edited_weight @ higher)
    return concordant / (concordant + wrong) if concordant + wrong else float("nan")


def _part(pairs: Sequence[ScoredPair], index: npt.NDArray[np.int64], kind: str) -> _Part:
    rows = [place for place, pair in enumerate(pairs) if pair.kind == kind]
    natural = np.array([pairs[row].natural_nll for row in rows])
    edited = np.array([pairs[row].edited_nll for row in rows])
    return _Part(natural, edited, index[rows])


def _statistics(part: _Part, weight: Floats | None) -> dict[str, Floats]:
    counts = np.ones(part.natural.size) if weight is None else weight
    total = counts.sum()
    if not total:
        return {name: np.array(np.nan) for name in ("pairwise_accuracy", "c_index", "delta_nll")}
    delta = part.edited - part.natural
    return {
        "pairwise_accuracy": np.array((counts * (delta > 0)).sum() / total),
        "c_index": np.array(c_index(part.natural, part.edited, counts, counts)),
        "delta_nll": np.array((counts * delta).sum() / total),
    }


def _resampled(part: _Part, weights: npt.NDArray[np.uint16]) -> dict[str, Floats]:
    drawn = [_statistics(part, row[part.conversation].astype(np.float64)) for row in weights]
    return {name: np.array([one[name] for one in drawn]) for name in drawn[0]}


def _mean(tables: list[dict[str, Floats]]) -> dict[str, Floats]:
    return {name: np.mean([table[name] for table in tables], axis=0) for name in tables[0]}


def _with_intervals(values: Mapping[str, Floats], resampled: Mapping[str, Floats]) -> dict[str, Any]:
    table: dict[str, Any] = {name: float(value) for name, value in values.items()}
    return table | {f"{name}_ci95": list(percentile_interval(resampled[name], CONFIDENCE)) for name in values}
