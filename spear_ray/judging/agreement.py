"""Judging the judge: how its scores agree with people's.

Source of the measures and of the published table: WavReward (arXiv 2505.09558), section 4 and table 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from spear_ray.leaderboard.statistics import draw_weights, index_conversations, interval, percentile_interval

Floats = npt.NDArray[np.float64]
LABELS = (1.0, 3.0, 5.0)
CHANCE = 1 / len(LABELS)

ATTRIBUTES = (
    "content", "age", "accent", "language", "gender", "emotion", "pitch", "speed", "volume", "audio", "implicit",
)  # fmt: skip
"""ChatReward-30K's: words, nine of the voice, and dialogues whose fit is not said. Others are shown, too."""

SOURCE = (
    "WavReward (arXiv 2505.09558), table 2: per cent of equal scores on ChatReward-30K's test set, which is not public"
)
PUBLISHED: Mapping[str, tuple[float, ...]] = {
    "Qwen2-Audio": (24.7, 32.4, 24.5, 36.8, 27.6, 33.7, 32.3, 40.5, 41.4, 50.8, 28.9),
    "Qwen-Audio": (43.4, 35.5, 23.0, 33.6, 14.9, 34.2, 27.7, 35.4, 39.0, 32.2, 35.2),
    "SALMONN": (13.5, 33.9, 34.8, 28.4, 33.9, 36.4, 25.4, 30.3, 28.0, 51.3, 20.3),
    "Audio Flamingo 2": (22.7, 20.8, 25.4, 16.8, 18.8, 18.6, 17.8, 21.5, 21.9, 20.6, 22.6),
    "GPT-4o-audio": (69.4, 92.0, 57.7, 100.0, 82.1, 58.5, 88.7, 94.5, 88.1, 83.3, 53.6),
    "Qwen2.5-Omni, prompted": (54.6, 56.3, 50.0, 48.4, 54.1, 57.8, 66.1, 34.1, 53.6, 64.9, 48.5),
    "Qwen2.5-Omni, tuned": (67.1, 81.9, 69.6, 98.9, 83.8, 66.5, 76.1, 84.8, 86.6, 86.7, 55.8),
    "Qwen2.5-Omni, tuned with LoRA": (63.8, 81.2, 43.6, 100.0, 82.1, 49.1, 74.1, 83.6, 85.1, 85.7, 54.2),
    "WavReward": (90.8, 96.9, 87.7, 100.0, 95.5, 97.5, 89.1, 91.1, 97.6, 97.0, 74.3),
}
"""By judge, in the order of `ATTRIBUTES`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """One reply that people and the judge have rated.

    Args:
        human: people's score, 1 to 5.
        label: the judge's likeliest score; NaN where it did not decide.
        expected: its expected score; NaN likewise.
        attribute: what the item tests.
        cluster: items of one cluster are resampled together.
        pair: items of one pair are compared with each other; empty for none.
    """

    human: float
    label: float
    expected: float
    attribute: str = ""
    cluster: str = ""
    pair: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Of the bootstrap."""

    resamples: int
    confidence: float
    seed: int


def agreement(rated: Sequence[Rated], sampling: Sampling) -> dict[str, Any]:
    """Accuracies, confusion and correlations with intervals, as JSON types; what cannot be had is None.

    Args:
        rated: all items; those that the judge did not decide count in `n_total` only.
        sampling: of the intervals, which draw whole clusters.
    """
    judged = [one for one in rated if one.label == one.label]
    attributes = sorted({one.attribute for one in rated if one.attribute}, key=_place)
    return {
        "n_total": len(rated),
        "n": len(judged),
        "chance": CHANCE,
        "accuracy": accuracy(judged, sampling),
        "by_attribute": {name: accuracy(_of(judged, name), sampling) for name in attributes},
        "confusion": confusion(judged),
        "spearman": correlation(judged, sampling, _spearman),
        "kendall": correlation(judged, sampling, _kendall),
        "preference": preference(judged, sampling),
        "published": {"source": SOURCE, "attributes": list(ATTRIBUTES), "judges": dict(PUBLISHED)},
    }


def accuracy(judged: Sequence[Rated], sampling: Sampling) -> dict[str, Any]:
    """Share of items whose label equals people's score."""
    hits = np.array([float(one.label == one.human) for one in judged])
    return _with_interval(hits, [one.cluster for one in judged], sampling)


def confusion(judged: Sequence[Rated]) -> dict[str, dict[str, int]]:
    """Counts by people's score, then by the judge's label."""
    scores = sorted({one.human for one in judged} | set(LABELS))
    counts = {(one.human, one.label): 0 for one in judged}
    for one in judged:
        counts[one.human, one.label] += 1
    return {f"{human:g}": {f"{label:g}": counts.get((human, label), 0) for label in LABELS} for human in scores}


def preference(judged: Sequence[Rated], sampling: Sampling) -> dict[str, Any]:
    """Share of pairs, of items with one `pair` and different human scores, that the judge orders as people do.

    Equal expected scores count half.
    """
    groups: dict[str, list[Rated]] = {}
    for one in judged:
        if one.pair:
            groups.setdefault(one.pair, []).append(one)
    hits, owners = [], []
    for name, group in groups.items():
        for first, second in combinations(group, 2):
            if first.human != second.human:
                agreed = np.sign(first.expected - second.expected) * np.sign(first.human - second.human)
                hits.append((agreed + 1) / 2)
                owners.append(name)
    return _with_interval(np.array(hits), owners, sampling)


def correlation(
    judged: Sequence[Rated], sampling: Sampling, measure: Callable[[Floats, Floats], float]
) -> dict[str, Any]:
    """A rank correlation of expected and human scores."""
    expected, human = (np.array([getattr(one, key) for one in judged]) for key in ("expected", "human"))
    count, (owner,) = index_conversations([one.cluster for one in judged])
    low = high = float("nan")
    if count > 1:
        weights = draw_weights(count, sampling.resamples, sampling.seed)
        drawn = [np.repeat(np.arange(len(judged)), one[owner].astype(np.int64)) for one in weights]
        values = np.array([measure(expected[places], human[places]) for places in drawn])
        low, high = percentile_interval(values, sampling.confidence)
    return _entry(measure(expected, human), low, high, len(judged))


def _of(judged: Sequence[Rated], attribute: str) -> list[Rated]:
    return [one for one in judged if one.attribute == attribute]


def _place(attribute: str) -> tuple[int, str]:
    return ATTRIBUTES.index(attribute) if attribute in ATTRIBUTES else len(ATTRIBUTES), attribute


def _with_interval(hits: Floats, clusters: Sequence[str], sampling: Sampling) -> dict[str, Any]:
    if not hits.size:
        return _entry(float("nan"), float("nan"), float("nan"), 0)
    low, high = interval(
        hits, clusters, "mean", resamples=sampling.resamples, confidence=sampling.confidence, seed=sampling.seed
    )
    return _entry(float(hits.mean()), low, high, hits.size)


def _entry(value: float, low: float, high: float, n: int) -> dict[str, Any]:
    numbers = {"value": value, "low": low, "high": high}
    return {**{key: one if one == one else None for key, one in numbers.items()}, "n": n}


def _spearman(first: Floats, second: Floats) -> float:
    from scipy.stats import rankdata

    return _pearson(rankdata(first), rankdata(second))


def _kendall(first: Floats, second: Floats) -> float:
    from scipy.stats import kendalltau

    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(kendalltau(first, second).statistic)


def _pearson(first: Floats, second: Floats) -> float:
    if len(first) < 2 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])
