"""How far a system's distribution of a feature is from the reference's, and which features go together.

Systems that agree in a feature's mean may still differ in its spread or tails, so three measures stand side by side:
AUROC (order only), the standardised mean difference (location) and the Wasserstein distance (the whole shape).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from spear_ray.leaderboard.board import POOLED, number
from spear_ray.leaderboard.moments import NO_VARIATION
from spear_ray.leaderboard.statistics import (
    Floats,
    Integers,
    Weights,
    draw_weights,
    index_conversations,
    percentile_interval,
    standardised_mean_difference,
)

if TYPE_CHECKING:
    from spear_ray.config import LeaderboardConfig
    from spear_ray.leaderboard.rows import ScorerRows

ALIKE = 0.8
"""Absolute rank correlation from which two features count as one idea (SPEARBench, distributional features)."""

MIN_PAIRS = 10
"""Rows that must have both features before their correlation counts: two rows always correlate perfectly."""

RESAMPLES_PER_CHUNK = 128
"""Held at the same time; with SPEARBench's rows of two systems 5 MB for each array, the fastest that was tried."""

Side = tuple[Floats, Sequence[str]]
"""Values [rows], NaN where absent, and conversation ids [rows]."""
Estimate = tuple[float, float, float]
"""Value, lower and upper end of its interval."""

MEASURES = (("auroc", "auroc", "human"), ("smd", "SD", "human"), ("wasserstein", "SD", "lower"))
"""Name, unit and direction of each measure in leaderboard.csv."""

FIELDS = tuple(measure + end for measure, _, _ in MEASURES for end in ("", "_low", "_high"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDistance:
    """How far one system's rows of one feature are from the reference's, over all subsets.

    `low` and `high` are the ends of intervals: NaN where a side has values in fewer than two conversations.

    Args:
        system: whose rows.
        reference: what it is compared with; `human` stands for it here, whatever its name.
        scorer: which scorer measured the feature.
        feature: the scorer's key of it.
        cluster: `<scorer>.<feature>` of the first feature that goes with this one; its own where it is the first.
        auroc: P(system > human) + P(equal) / 2 of two rows; 0.5 is alike.
        smd: standardised mean difference in pooled standard deviations, positive where the system is above.
        wasserstein: distance of the distributions in standard deviations of the human rows. Never negative, and in
            finite samples above 0 even for equal distributions, so that its interval is no test of equality.
        n: rows of the system that have the feature.
        n_total: all rows of the system in this scorer.
        n_human: human rows that have the feature.
    """

    system: str
    reference: str
    scorer: str
    feature: str
    cluster: str
    auroc: float
    auroc_low: float
    auroc_high: float
    smd: float
    smd_low: float
    smd_high: float
    wasserstein: float
    wasserstein_low: float
    wasserstein_high: float
    n: int
    n_total: int
    n_human: int


def auroc(system: Floats, human: Floats) -> float:
    """Area under the ROC curve of telling the system from the human by this value alone (Hanley and McNeil 1982).

    Args:
        system: [rows], NaN where absent.
        human: the same of the reference.

    Returns:
        P(system > human) + P(equal) / 2; NaN where a side has no value.
    """
    return float(_once(system, human)[0])


def wasserstein(system: Floats, human: Floats) -> float:
    """First Wasserstein distance of the two empirical distributions: the area between their distribution functions.

    Args:
        system: [rows], NaN where absent.
        human: the same of the reference.

    Returns:
        In sample standard deviations of the human rows. Where these are constant, 0 if the system is the same and
        infinite if not; NaN where the system has no value or the reference fewer than two.
    """
    return float(_once(system, human)[2])


def compare(system: Side, human: Side, config: LeaderboardConfig) -> tuple[Estimate, ...]:
    """AUROC, standardised mean difference, Wasserstein distance, with percentile intervals.

    Conversations are paired as `statistics.difference_interval` pairs them. Resamples in which a measure is undefined
    or infinite do not count.

    Args:
        system: its values and conversation ids.
        human: the same of the reference.
        config: resamples, confidence, seed.
    """
    points, ends = _once(system[0], human[0]), [(float("nan"), float("nan"))] * 3
    points[1] = standardised_mean_difference(system[0], human[0])
    count, (ours, theirs) = index_conversations(system[1], human[1])
    sides = [(system[0], ours), (human[0], theirs)]
    if all(np.unique(conversation[np.isfinite(values)]).size > 1 for values, conversation in sides):
        drawn = _Pair.of(sides, count).measures(draw_weights(count, config.resamples, config.seed))
        ends = [percentile_interval(values, config.confidence) for values in drawn]
    return tuple((float(point), low, high) for point, (low, high) in zip(points, ends, strict=True))


def clusters(features: Mapping[str, Floats], threshold: float = ALIKE) -> dict[str, str]:
    """Group features that say much the same: connected components of the pairs with |Spearman rho| >= threshold.

    They do not depend on the order of merging; the ends of a long chain may correlate less than the threshold.

    Args:
        features: values [rows] by name, NaN where absent, all of the same rows; each pair takes the rows it shares.
        threshold: of the absolute rank correlation.

    Returns:
        For each feature the name of its group: the group's first feature in the order of `features`.
    """
    names, values = list(features), list(features.values())
    first = list(range(len(names)))
    for i in range(len(names)):
        for j in range(i):
            joined = {first[i], first[j]}
            if len(joined) == 2 and abs(_spearman(values[i], values[j])) >= threshold:
                first = [min(joined) if one in joined else one for one in first]
    return {name: names[place] for name, place in zip(names, first, strict=True)}


def distances(
    rows: Mapping[str, ScorerRows],
    features: Mapping[str, Sequence[str]],
    config: LeaderboardConfig,
    resamples: int | None = None,
) -> list[FeatureDistance]:
    """Compare each system with the reference in each feature: by scorer, system, feature.

    NaNs stand where a system has no value of a feature. Scorers without rows of the reference have no distances.

    Args:
        rows: those that count, by scorer.
        features: keys by scorer, in the order of declaration; keys that no row has are left out.
        config: reference, resamples, confidence, seed.
        resamples: in place of the config's.
    """
    config = config if resamples is None else replace(config, resamples=resamples)
    kept = {
        scorer: [key for key in dict.fromkeys(keys) if np.isfinite(rows[scorer].value(key)).any()]
        for scorer, keys in features.items()
        if scorer in rows
    }
    groups = clusters(_aligned(rows, kept, config.reference))
    return [one for scorer, keys in kept.items() for one in _of_scorer(rows[scorer], scorer, keys, groups, config)]


def csv_lines(distances: Iterable[FeatureDistance]) -> list[list[str]]:
    """Lines in the layout of `board.CSV_COLUMNS`, three for each distance; absent values are blank."""
    return [
        [one.system, POOLED, f"{one.scorer}.{one.feature}:{measure}_vs_{one.reference}"]
        + [number(getattr(one, field)) for field in FIELDS if field.startswith(measure)]
        + [str(one.n), str(one.n_total), unit, direction]
        for one in distances
        for measure, unit, direction in MEASURES
    ]


@dataclass(frozen=True, slots=True)
class _Pair:
    """One feature of two systems: the K distinct values in ascending order, and sparse counts [K, C] of rows."""

    grid: Floats
    system: Any
    human: Any

    @classmethod
    def of(cls, sides: Sequence[tuple[Floats, Integers]], conversations: int) -> _Pair:
        """Of system and human: values [rows], NaN where absent, and the index of each row's conversation."""
        from scipy.sparse import csr_array

        kept = [(values[np.isfinite(values)], owner[np.isfinite(values)]) for values, owner in sides]
        grid = np.unique(np.concatenate([values for values, _ in kept]))
        places = [(np.searchsorted(grid, values), owner) for values, owner in kept]
        counts = [csr_array((np.ones(len(at[0])), at), shape=(grid.size, conversations)) for at in places]
        # Sums of squares lose nothing around the human median, and constants stay exact.
        return cls(grid - np.median(kept[1][0]), *counts)

    def measures(self, weights: Weights) -> Floats:
        """AUROC, standardised mean difference and Wasserstein distance [3, B] of resamples [B, C]."""
        parts = (weights[start : start + RESAMPLES_PER_CHUNK] for start in range(0, len(weights), RESAMPLES_PER_CHUNK))
        columns = (np.ascontiguousarray(part.T, dtype=np.float64) for part in parts)
        with np.errstate(invalid="ignore", divide="ignore"):  # absent sides and constants
            return np.concatenate([self._measures(self.system @ one, self.human @ one) for one in columns], axis=1)

    def _measures(self, system: Floats, human: Floats) -> Floats:
        """Of counts [K, B]: each row counts as often as it was drawn."""
        below_system, below_human = np.cumsum(system, axis=0), np.cumsum(human, axis=0)
        n, m = below_system[-1], below_human[-1]
        auroc = np.einsum("kb,kb->b", system, below_human - human / 2) / (n * m)
        # Whole numbers are compared, so that equal distributions are exactly 0 apart.
        area = np.diff(self.grid) @ np.abs(below_system * m - below_human * n)[:-1] / (n * m)
        difference = np.where(area == 0, 0.0, self.grid @ system / n - self.grid @ human / m)
        ours, theirs = self._squares(system, n), self._squares(human, m)
        pooled, own = _deviation(ours + theirs, n + m - 2), _deviation(theirs, m - 1)
        return np.stack([auroc, _over(difference, pooled), _over(area, own)])

    def _squares(self, counts: Floats, n: Floats) -> Floats:
        """Sum of squared deviations from the mean [B]; 0 where only rounding is left."""
        first, second = self.grid @ counts, self.grid**2 @ counts
        spread = second - first * first / n
        return np.where(spread <= NO_VARIATION * second, 0.0, spread)


def _once(system: Floats, human: Floats) -> Floats:
    """The three measures of all rows, each once."""
    if not (np.isfinite(system).any() and np.isfinite(human).any()):
        return np.full(3, np.nan)
    pair = _Pair.of([(values, np.zeros(values.size, dtype=np.int64)) for values in (system, human)], 1)
    return pair.measures(np.ones((1, 1), dtype=np.uint16))[:, 0]


def _deviation(squares: Floats, freedom: Floats) -> Floats:
    return np.sqrt(squares / np.where(freedom > 0, freedom, np.nan))


def _over(distance: Floats, deviation: Floats) -> Floats:
    """A distance in deviations: 0 / 0 is 0."""
    return np.where((distance == 0) & (deviation == 0), 0.0, distance / deviation)


def _spearman(first: Floats, second: Floats) -> float:
    """NaN with fewer than `MIN_PAIRS` rows that have both, or where a side does not vary."""
    from scipy.stats import rankdata

    both = np.isfinite(first) & np.isfinite(second)
    if both.sum() < MIN_PAIRS or np.ptp(first[both]) == 0 or np.ptp(second[both]) == 0:
        return float("nan")
    return float(np.corrcoef(rankdata(first[both]), rankdata(second[both]))[0, 1])


def _aligned(rows: Mapping[str, ScorerRows], kept: Mapping[str, Sequence[str]], reference: str) -> dict[str, Floats]:
    """The reference's features of all scorers, on one list of dialogues."""
    human = {scorer: rows[scorer].where(rows[scorer].system == reference) for scorer in kept}
    count, places = index_conversations(*(one.dialogue_id.tolist() for one in human.values()))
    found = {f"{scorer}.{key}": np.full(count, np.nan) for scorer, keys in kept.items() for key in keys}
    for (scorer, one), place in zip(human.items(), places, strict=True):
        for key in kept[scorer]:
            found[f"{scorer}.{key}"][place] = one.value(key)
    return found


def _of_scorer(
    rows: ScorerRows, scorer: str, keys: Sequence[str], groups: Mapping[str, str], config: LeaderboardConfig
) -> Iterator[FeatureDistance]:
    human = rows.where(rows.system == config.reference)
    for system in sorted(set(rows.system.tolist()) - {config.reference}) if human.system.size else ():
        ours = rows.where(rows.system == system)
        for key in keys:
            side, other = ((one.value(key), one.conversation_id.tolist()) for one in (ours, human))
            found = [value for estimate in compare(side, other, config) for value in estimate]
            yield FeatureDistance(
                system=system,
                reference=config.reference,
                scorer=scorer,
                feature=key,
                cluster=groups[f"{scorer}.{key}"],
                n=int(np.isfinite(side[0]).sum()),
                n_total=ours.system.size,
                n_human=int(np.isfinite(other[0]).sum()),
                **dict(zip(FIELDS, found, strict=True)),
            )
