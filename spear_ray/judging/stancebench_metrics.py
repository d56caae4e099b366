"""StanceBench's measures of a judge: does the judged stance agree with the acted role?

Source: StanceBench (github.com/YuzheWangjhu/StanceBench), metrics.py and its notebook. What the text leaves open was
worked out from recorded values; it is said where.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import numpy.typing as npt

from spear_ray.judging.stancebench import Said
from spear_ray.judging.stances import CONFIDENT, UNCERTAIN, mapped

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
GRID = tuple(round(step * 0.05, 2) for step in range(21))
"""Of both thresholds of the oracle."""


@dataclass(frozen=True, slots=True)
class Side:
    """One speaker of a conversation as the published runner wrote it.

    Args:
        category: what was acted.
        items: what was said of each judged item in both orders; empty where none was judged.
        attempted: whether the runner tried at all.
    """

    category: str
    items: tuple[tuple[Said, Said], ...]
    attempted: bool = True

    @property
    def orders(self) -> tuple[float, float]:
        """Mean score over items in each order."""
        first, second = zip(*((one.score, other.score) for one, other in self.items), strict=True)
        return float(np.mean(first)), float(np.mean(second))

    def score(self, uncertain: float = UNCERTAIN, confident: float = CONFIDENT) -> float:
        """Mean score over items and orders, with other thresholds where wanted."""
        told = [one for pair in self.items for one in pair]
        return float(np.mean([mapped(one.choice, one.probability, uncertain, confident) for one in told]))

    @property
    def signed(self) -> float:
        """Mean signed probability, scaled to [-2, 2]."""
        return 2 * float(np.mean([one.signed for pair in self.items for one in pair]))

    @property
    def flip_rate(self) -> float:
        """Items whose orders led to different poles by score."""
        return float(np.mean([one.score * other.score < 0 for one, other in self.items]))

    @property
    def disagreement(self) -> float:
        """Items whose orders led to different choices."""
        return float(np.mean([one.choice != other.choice for one, other in self.items]))

    @property
    def orders_disagree(self) -> bool:
        """Whether the means of both orders lie on different sides of 0."""
        first, second = self.orders
        return first * second < 0


@dataclass(frozen=True, slots=True)
class Poles:
    """The categories of both ends of a dimension."""

    positive: Collection[str]
    negative: Collection[str]

    def has(self, side: Side) -> bool:
        """Whether a side acts one of them."""
        return side.category in self.positive or side.category in self.negative


def summary(sides: Sequence[Side], poles: Poles) -> dict[str, float]:
    """The package's summary: of the sides that act a pole, whether the runner tried them or not.

    Returns:
        attempts, evaluated, failure_rate, categorical_pole_consistency, mean_flip_rate.
    """
    attempts = [side for side in sides if poles.has(side)]
    judged = [side for side in attempts if side.items]
    acted, scores = _acted(judged, poles), np.array([side.score() for side in judged])
    return {
        "attempts": float(len(attempts)),
        "evaluated": float(len(judged)),
        "failure_rate": 1 - len(judged) / len(attempts),
        "categorical_pole_consistency": consistency(acted, scores),
        "mean_flip_rate": float(np.mean([side.flip_rate for side in judged])),
    }


def failure_rate(sides: Sequence[Side]) -> float:
    """The notebook's share of attempted sides, whatever they act, of which no item was judged."""
    attempts = [side for side in sides if side.attempted]
    return sum(not side.items for side in attempts) / len(attempts)


def measures(
    sides: Sequence[Side], poles: Poles, by_probability: bool = False, most_disagreement: float | None = None
) -> dict[str, float]:
    """The notebook's measures.

    Consistency, error rate and AUROC leave out scores of 0; the oracle takes them in (inferred).

    Args:
        sides: all of them.
        poles: of the dimension.
        by_probability: scores are signed probabilities.
        most_disagreement: leaves out sides with at least this share of items whose choices differ between the orders,
            and sides whose orders disagree as a whole (inferred); None keeps all.
    """
    kept = [side for side in sides if side.items and _agrees(side, most_disagreement)]
    judged = [side for side in kept if poles.has(side)]
    acted = _acted(judged, poles)
    scores = np.array([side.signed if by_probability else side.score() for side in judged])
    sure = scores != 0
    return {
        "consistency": consistency(acted, scores),
        "equal_error_rate": equal_error_rate(acted[sure], scores[sure]),
        "auroc": auroc(acted[sure], scores[sure]),
        "oracle_f1": best_f1(acted, scores) if by_probability else oracle_f1(judged, acted),
        "uncertain_rate": float(np.mean(~sure)),
        "rows": float(len(kept)),
        "item_disagreement": float(np.mean([side.disagreement for side in kept])),
        "row_disagreement": float(np.mean([side.disagreement > 0 for side in kept])),
    }


def consistency(acted: Flags, scores: Floats) -> float:
    """Share of scores other than 0 that have the sign of the acted pole.

    Args:
        acted: [rows], True for the positive pole.
        scores: [rows].
    """
    sure = scores != 0
    return float(np.mean((scores[sure] > 0) == acted[sure]))


def equal_error_rate(acted: Flags, scores: Floats) -> float:
    """Mean of false negative and false positive rate where they differ least.

    Only the corners of the ROC curve count, and of equals the one with the higher threshold, as in scikit-learn's
    roc_curve (inferred from recorded values).
    """
    thresholds = np.r_[np.inf, np.unique(scores)[::-1]]
    hits = np.array([np.sum(scores[acted] >= one) for one in thresholds])
    alarms = np.array([np.sum(scores[~acted] >= one) for one in thresholds])
    inner = np.logical_or(np.diff(alarms[1:], 2) != 0, np.diff(hits[1:], 2) != 0)
    corners = np.r_[True, True, inner, True] if len(thresholds) > 2 else np.full(len(thresholds), True)
    misses = 1 - hits[corners] / acted.sum()
    false = alarms[corners] / (~acted).sum()
    best = int(np.argmin(np.abs(misses - false)))
    return float((misses[best] + false[best]) / 2)


def auroc(acted: Flags, scores: Floats) -> float:
    """P(score of a positive row > score of a negative one) + P(equal) / 2."""
    difference = scores[acted][:, None] - scores[~acted]
    return float(np.mean((difference > 0) + (difference == 0) / 2))


def best_f1(acted: Flags, scores: Floats) -> float:
    """The highest F1 of the positive pole over cuts between two neighbouring scores; NaN where all are equal."""
    return max((_f1(acted, scores >= one) for one in np.unique(scores)[1:]), default=float("nan"))


def oracle_f1(judged: Sequence[Side], acted: Flags) -> float:
    """`best_f1` with the best of all pairs of thresholds that make scores out of probabilities."""
    found = [
        best_f1(acted, np.array([side.score(*pair) for side in judged]))
        for pair in combinations_with_replacement(GRID, 2)
    ]
    return max((one for one in found if one == one), default=float("nan"))


def _agrees(side: Side, most: float | None) -> bool:
    return most is None or (side.disagreement < most and not side.orders_disagree)


def _acted(sides: Sequence[Side], poles: Poles) -> Flags:
    return np.array([side.category in poles.positive for side in sides], dtype=np.bool_)


def _f1(acted: Flags, predicted: Flags) -> float:
    hits = np.sum(acted & predicted)
    return float(2 * hits / (np.sum(acted) + np.sum(predicted))) if hits else 0.0
