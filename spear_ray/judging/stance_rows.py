"""From a judge's decisions on a stance to the values of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spear_ray.judging.choice import Choice
from spear_ray.judging.stances import TURNED_ROUND, Target, flipped, mapped

CHOICES = ("P", "N")
ORDERS = (("P", "N"), ("N", "P"))
"""Which description stands first; an even mean of both takes out a judge's liking for the first or the last."""

REFERENCE = 2.0
"""A role's pole as a score (SPEARBench, reports/benchmark_line.py)."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One stance of one dialogue.

    Args:
        positive: probability of the positive pole in each order.
        scores: -2 to 2 in each order.
        mass: the smaller of the probabilities that P and N had together.
    """

    positive: tuple[float, ...]
    scores: tuple[int, ...]
    mass: float

    @property
    def score(self) -> float:
        """Mean of both orders, -2 to 2."""
        return sum(self.scores) / len(self.scores)

    @property
    def flipped(self) -> bool:
        """Whether the orders led to different poles."""
        return flipped(self.scores)

    def metrics(self, stance: str) -> Mapping[str, float]:
        """The row's values."""
        return {
            f"stance_score_{stance}": self.score,
            f"stance_probability_{stance}": sum(self.positive) / len(self.positive),
        }


def judgement(choices: Sequence[Choice]) -> Judgement:
    """Of the decisions in both orders."""
    return Judgement(
        tuple(choice.probabilities["P"] for choice in choices),
        tuple(mapped(choice.label, choice.probabilities[choice.label]) for choice in choices),
        min(choice.mass for choice in choices),
    )


def compared(judged: Judgement, target: Target) -> Mapping[str, float]:
    """Whether the judged stance agrees with the acted one, 0 or 1 each: SPEARBench's rule on one row.

    A category counts for the pole that it is; the published code takes the second of three related categories for the
    negative pole. For the categories of `TURNED_ROUND` more positive is more negative, as published.
    """
    reference, score = target.pole * REFERENCE, judged.score
    if target.category.lower().split()[0] in TURNED_ROUND:
        reference, score = -reference, -score
    return {
        "same_stance": float(reference * score > 0),
        "more_negative": float(score < reference),
        "more_positive": float(score > reference),
    }
