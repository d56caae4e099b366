"""Values of a whole set of rows that are no mean of row values: correlations, slopes, variances, shares.

Each is a function of sums over rows (moments), so that thousands of bootstrap resamples are one matrix product: the
sums of a resample are the weighted sums of its conversations. Ranks and extremes are those of all rows, also within a
resample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SetReducer = Literal["pearson", "flattened_slope", "mean_spearman", "total_variance", "largest_share"]
SET_REDUCERS: tuple[SetReducer, ...] = get_args(SetReducer)

NO_VARIATION = 1e-12
"""Relative to the mean square, below which a set counts as constant: what rounding leaves of zero."""


@dataclass(frozen=True, slots=True)
class Moments:
    """A statistic of rows by way of sums.

    Args:
        terms: [rows, M], what each row adds to the sums.
        finish: sums [..., M] to the statistic [...]; NaN where it is not defined.
    """

    terms: Floats
    finish: Callable[[Floats], Floats]

    @property
    def value(self) -> float:
        """Over all rows, each once."""
        return float(self.finish(self.terms.sum(axis=0)))


def moments(values: Floats, reducer: SetReducer) -> Moments:
    """The moments of complete rows.

    Args:
        values: [rows, keys], all finite, at least one row.
        reducer: `pearson` of two keys; `flattened_slope` and `mean_spearman` of the first half of the keys
            (questions) and the second (answers); `total_variance` of all keys; `largest_share` of the commonest label
            in the first key.
    """
    return _MOMENTS[reducer](values)


def _pearson(values: Floats) -> Moments:
    """Pearson's r of two columns [rows, 2]."""
    return Moments(_products(values[:, 0], values[:, 1]), _correlation)


def _mean_spearman(values: Floats) -> Moments:
    """Spearman's rank correlation of question and answer over rows, for each dimension, then their mean.

    Dimensions without variation are left out.
    """
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=0)
    questions, answers = np.split(ranks, 2, axis=1)
    dimensions = questions.shape[1]
    terms = np.stack([_products(questions[:, d], answers[:, d]) for d in range(dimensions)], axis=1)

    def finish(sums: Floats) -> Floats:
        each = _correlation(sums.reshape(*sums.shape[:-1], dimensions, -1))
        return _mean_of_defined(each)

    return Moments(terms.reshape(len(values), -1), finish)


def _flattened_slope(values: Floats) -> Moments:
    """Slope of answers on questions, all dimensions and rows in one regression, each side scaled to [0, 1].

    Source: SPEARBench, benchmark_line.py; see `published_rules.entrainment_slope`.
    """
    questions, answers = np.split(values, 2, axis=1)
    if np.ptp(questions) == 0 or np.ptp(answers) == 0:
        return Moments(np.zeros((len(values), 1)), lambda sums: np.full(sums.shape[:-1], np.nan))
    ratio = float(np.ptp(questions) / np.ptp(answers))
    x, y = questions - questions.mean(), answers - answers.mean()
    count = np.full(len(values), float(x.shape[1]))
    terms = np.stack([count, x.sum(1), y.sum(1), (x * x).sum(1), (x * y).sum(1)], axis=1)

    def finish(sums: Floats) -> Floats:
        n, sx, sy, sxx, sxy = np.moveaxis(sums, -1, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = sxx - sx * sx / n
            slope = (sxy - sx * sy / n) / np.where(spread > NO_VARIATION * sxx, spread, np.nan)
        result: Floats = slope * ratio
        return result

    return Moments(terms, finish)


def _total_variance(values: Floats) -> Moments:
    """Trace of the sample covariance (n - 1); NaN with fewer than two rows."""
    centred = values - values.mean(axis=0)
    ones = np.ones((len(values), 1))
    dimensions = values.shape[1]

    def finish(sums: Floats) -> Floats:
        n, first, second = sums[..., :1], sums[..., 1 : 1 + dimensions], sums[..., 1 + dimensions :]
        with np.errstate(invalid="ignore", divide="ignore"):
            each = (second - first * first / n) / np.where(n > 1, n - 1, np.nan)
        result: Floats = np.maximum(each, 0.0).sum(axis=-1)
        return result

    return Moments(np.concatenate([ones, centred, centred * centred], axis=1), finish)


def _largest_share(values: Floats) -> Moments:
    """Share of the commonest label: what answering always the same would score."""
    labels = np.unique(values[:, 0])
    terms = (values[:, :1] == labels).astype(np.float64)

    def finish(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            result: Floats = sums.max(axis=-1) / sums.sum(axis=-1)
        return result

    return Moments(terms, finish)


def _products(x: Floats, y: Floats) -> Floats:
    """[rows, 6]: 1, x, y, x x, y y, x y of centred columns."""
    x, y = x - x.mean(), y - y.mean()
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)


def _correlation(sums: Floats) -> Floats:
    n, sx, sy, sxx, syy, sxy = np.moveaxis(sums, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread_x, spread_y = sxx - sx * sx / n, syy - sy * sy / n
        varies = (spread_x > NO_VARIATION * sxx) & (spread_y > NO_VARIATION * syy)
        found = (sxy - sx * sy / n) / np.sqrt(np.where(varies, spread_x * spread_y, np.nan))
    result: Floats = np.clip(found, -1.0, 1.0)
    return result


def _mean_of_defined(values: Floats) -> Floats:
    defined = np.isfinite(values)
    counts = defined.sum(axis=-1)
    with np.errstate(invalid="ignore"):
        result: Floats = np.where(defined, values, 0.0).sum(axis=-1) / np.where(counts > 0, counts, np.nan)
    return result


_MOMENTS: dict[SetReducer, Callable[[Floats], Moments]] = {
    "pearson": _pearson,
    "mean_spearman": _mean_spearman,
    "flattened_slope": _flattened_slope,
    "total_variance": _total_variance,
    "largest_share": _largest_share,
}
