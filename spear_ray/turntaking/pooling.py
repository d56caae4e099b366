"""From the surprise of single moments to that of a dialogue."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TAIL_SHARE = 0.25
MEAN_WEIGHT = 0.5


class Pooled(NamedTuple):
    """A dialogue's surprise in nats.

    Args:
        mean_nll: mean over units.
        tail_nll: mean over the `tail_k` most surprising units.
        dialog_nll: weighted mean of both.
        units: how many units.
        tail_k: how many of them make the tail.
    """

    mean_nll: float
    tail_nll: float
    dialog_nll: float
    units: int
    tail_k: int

    @property
    def nat_score(self) -> float:
        """Naturalness: the higher, the less surprising."""
        return -self.dialog_nll


def pool(unit_nll: npt.ArrayLike, tail_share: float = TAIL_SHARE, mean_weight: float = MEAN_WEIGHT) -> Pooled:
    """TurnNat's dialogue score: half the mean, half the mean of the worst quarter.

    Args:
        unit_nll: float [units], nats; at least one.
        tail_share: share of the units in the tail, rounded up.
        mean_weight: weight of the mean.

    Source: TurnNat (arXiv 2607.01345), dialogue score.
    """
    values = np.asarray(unit_nll, dtype=np.float64)
    if not values.size:
        raise ValueError("no unit to pool")
    tail_k = max(1, math.ceil(tail_share * values.size))
    mean_nll = float(values.mean())
    tail_nll = float(np.sort(values)[-tail_k:].mean())
    return Pooled(mean_nll, tail_nll, mean_weight * mean_nll + (1 - mean_weight) * tail_nll, values.size, tail_k)
