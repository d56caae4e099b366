"""TurnNat's published statistics of pairs: how well a score tells natural clips from edited ones.

Source: TurnNat (arXiv 2607.01345), pair statistics and the 1-5 scale of its evaluation script. The benchmark's own
table, with intervals by conversation, is `pair_table`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL_95 = 1.96
"""Standard errors to either side of the mean."""

SCALE_QUANTILES = (0.05, 0.95)
"""The run's quantiles of dialog_nll that stand for 5 (natural) and 1."""

_SCALE_BEST = 5.0
_SCALE_WORST = 1.0
_SCALE_MIN_WIDTH = 1e-6


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, sample variance, and half width of the 95 % interval of the mean.

    NaN for no values; variance and half width are 0 for one value, as published.
    """

    mean: float
    var: float
    half_width: float

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Spread:
        """Of float [n]; values that are not finite are left out."""
        known = _finite(values)
        if not known.size:
            return cls(math.nan, math.nan, math.nan)
        var = float(known.var(ddof=1)) if known.size > 1 else 0.0
        return cls(float(known.mean()), var, NORMAL_95 * math.sqrt(var) / math.sqrt(known.size))

    def row(self, name: str) -> dict[str, float]:
        """Columns `<name>_mean`, `_var`, `_ci95_low`, `_ci95_high` and `_ci95_half_width`."""
        columns = {
            "mean": self.mean,
            "var": self.var,
            "ci95_low": self.mean - self.half_width,
            "ci95_high": self.mean + self.half_width,
            "ci95_half_width": self.half_width,
        }
        return {f"{name}_{column}": value for column, value in columns.items()}


@dataclass(frozen=True, slots=True)
class CIndex:
    """How often an edited clip is more surprising than a natural one, over all of both.

    Args:
        concordant: cross pairs in which it is.
        wrong: cross pairs in which it is less surprising.
        tied: the rest.
    """

    concordant: int
    wrong: int
    tied: int

    @property
    def comparable(self) -> int:
        """Cross pairs that are not tied."""
        return self.concordant + self.wrong

    @property
    def total(self) -> int:
        """All cross pairs."""
        return self.comparable + self.tied

    @property
    def value(self) -> float:
        """Share of concordant ones among the comparable; NaN where there is none."""
        return self.concordant / self.comparable if self.comparable else math.nan

    def row(self) -> dict[str, float | int]:
        """Columns `dialogue_nll_c_index` and `dialogue_nll_c_index_<count>`."""
        name = "dialogue_nll_c_index"
        return {
            name: self.value,
            f"{name}_concordant": self.concordant,
            f"{name}_wrong": self.wrong,
            f"{name}_tied": self.tied,
            f"{name}_total_pairs": self.total,
            f"{name}_comparable_pairs": self.comparable,
        }


@dataclass(frozen=True, slots=True)
class Scale:
    """Surprise on a scale of 1 (unnatural) to 5 (natural), linear between two anchors and clipped.

    Args:
        low_nll: this and less is a 5.
        high_nll: this and more is a 1.
        segments: how many clips the anchors come from.
    """

    low_nll: float
    high_nll: float
    segments: int

    @classmethod
    def of_run(cls, nll: npt.ArrayLike, quantiles: tuple[float, float] = SCALE_QUANTILES) -> Scale:
        """Anchored at two quantiles of a run's clips, natural and edited; NaN anchors where none has a score.

        Args:
            nll: float [clips], dialog_nll; values that are not finite are left out.
            quantiles: of the anchors.
        """
        known = _finite(nll)
        if not known.size:
            return cls(math.nan, math.nan, 0)
        low, high = (float(np.quantile(known, quantile)) for quantile in quantiles)
        return cls(low, high if high > low else low + _SCALE_MIN_WIDTH, int(known.size))

    def scores(self, nll: npt.ArrayLike) -> Floats:
        """Float [clips] to scores; NaN where there is none."""
        values = np.asarray(nll, dtype=np.float64)
        share = (np.where(np.isfinite(values), values, np.nan) - self.low_nll) / (self.high_nll - self.low_nll)
        return np.clip(_SCALE_BEST - (_SCALE_BEST - _SCALE_WORST) * share, _SCALE_WORST, _SCALE_BEST)


def c_index(edited: npt.ArrayLike, natural: npt.ArrayLike) -> CIndex:
    """Compare each edited clip with each natural one, in n log n.

    Args:
        edited: float [n], dialog_nll; values that are not finite are left out.
        natural: float [m], likewise.
    """
    changed, ordered = _finite(edited), np.sort(_finite(natural))
    lower = int(np.searchsorted(ordered, changed, side="left").sum())
    not_higher = int(np.searchsorted(ordered, changed, side="right").sum())
    return CIndex(lower, changed.size * ordered.size - not_higher, not_higher - lower)


def pair_statistics(natural: npt.ArrayLike, edited: npt.ArrayLike, scale: Scale) -> dict[str, float | int]:
    """Statistics of one group of pairs under their published names.

    Args:
        natural: float [pairs], dialog_nll of the natural clips.
        edited: float [pairs], of what was made of them; a pair of which one has no score is left out.
        scale: the run's.

    Returns:
        `n`; `pairwise_accuracy`, share of pairs whose edited clip is the more surprising one; `Spread.row` of
        delta_nll (edited minus natural), edited_nll, natural_nll, delta_score_1_5 (natural minus edited),
        edited_score_1_5 and natural_score_1_5; `CIndex.row`.
    """
    before, after = np.asarray(natural, dtype=np.float64), np.asarray(edited, dtype=np.float64)
    complete = np.isfinite(after - before)
    before, after = before[complete], after[complete]
    before_score, after_score = scale.scores(before), scale.scores(after)
    spreads = {
        "delta_nll": after - before,
        "edited_nll": after,
        "natural_nll": before,
        "delta_score_1_5": before_score - after_score,
        "edited_score_1_5": after_score,
        "natural_score_1_5": before_score,
    }
    row: dict[str, float | int] = {
        "n": int(before.size),
        "pairwise_accuracy": float((after > before).mean()) if before.size else math.nan,
    }
    for name, values in spreads.items():
        row |= Spread.of(values).row(name)
    return row | c_index(after, before).row()


def statistics_by_kind(
    kinds: Sequence[str], natural: npt.ArrayLike, edited: npt.ArrayLike, scale: Scale
) -> dict[str, dict[str, float | int]]:
    """`pair_statistics` of each kind of edit that has a complete pair, by name.

    Args:
        kinds: [pairs], kind of edit.
        natural: float [pairs].
        edited: float [pairs].
        scale: the run's.
    """
    before, after = np.asarray(natural, dtype=np.float64), np.asarray(edited, dtype=np.float64)
    complete, kind = np.isfinite(after - before), np.asarray(kinds)
    return {
        name: pair_statistics(before[kind == name], after[kind == name], scale)
        for name in sorted(set(kind[complete].tolist()))
    }


def _finite(values: npt.ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]
