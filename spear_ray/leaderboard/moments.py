"""Values of a whole set of rows that are no mean of row values: correlations, slopes, variances, shares.

Each is a function of sums over rows (moments), so that thousands of bootstrap resamples are one matrix product: the
sums of a resample are the weighted sums of its conversations. Ranks, extremes and means of groups are those of all
rows, also within a resample.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

SetReducer = Literal[
    "pearson", "flattened_slope", "mean_spearman", "total_variance", "largest_share", "normalised_deviation"
]
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
            in the first key; `normalised_deviation` of all keys but two: the first names a row's group, the second is
            what the group's mean is taken of.
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
    return Moments(_squares(values), lambda sums: _variances(sums).sum(axis=-1))


def _normalised_deviation(values: Floats) -> Moments:
    """Sample standard deviation (n - 1) of columns in units of a group's mean, averaged over the columns.

    Rows of a group whose mean is not positive do not count. The means are those of all rows, also within a resample.

    Source: SPEARBench, normalize_features_by_answered_speaker.py and benchmark_line.py: there the groups are answered
    speakers, the means those of their pitch, the columns percentiles of pitch.

    Args:
        values: [rows, 2 + columns]: group, what its mean is taken of, columns.
    """
    _, group = np.unique(values[:, 0], return_inverse=True)
    mean = (np.bincount(group, values[:, 1]) / np.bincount(group))[group]
    usable = mean > 0
    scaled = values[usable, 2:] / mean[usable, None]
    terms = np.zeros((len(values), 1 + 2 * scaled.shape[1]))
    if usable.any():
        terms[usable] = _squares(scaled)
    return Moments(terms, lambda sums: _mean_of_defined(np.sqrt(_variances(sums))))


def _largest_share(values: Floats) -> Moments:
    """Share of the commonest label: what answering always the same would score."""
    labels = np.unique(values[:, 0])
    terms = (values[:, :1] == labels).astype(np.float64)

    def finish(sums: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            result: Floats = sums.max(axis=-1) / sums.sum(axis=-1)
        return result

    return Moments(terms, finish)


def _squares(values: Floats) -> Floats:
    """[rows, 1 + 2 columns]: 1, centred columns, their squares."""
    centred = values - values.mean(axis=0)
    return np.concatenate([np.ones((len(values), 1)), centred, centred * centred], axis=1)


def _variances(sums: Floats) -> Floats:
    """Sample variances (n - 1) [..., columns] from sums of `_squares`; NaN with fewer than two rows."""
    n, first, second = np.split(sums, [1, (sums.shape[-1] + 1) // 2], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = (second - first * first / n) / np.where(n > 1, n - 1, np.nan)
    result: Floats = np.maximum(each, 0.0)
    return result


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
    "normalised_deviation": _normalised_deviation,
}
