"""The board: each system's value of each metric, its interval, and how far it is from the reference."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from spear_ray.scorers.base import Direction, Reducer

if TYPE_CHECKING:
    import pyarrow as pa

    from spear_ray.config import LeaderboardConfig
    from spear_ray.leaderboard.distribution import FeatureDistance
    from spear_ray.leaderboard.steps import Shift
    from spear_ray.scorers.base import Metric

POOLED = "all"
"""The subset that pools the rows of all subsets."""

CSV_COLUMNS = (
    "system", "subset", "metric", "value", "ci_low", "ci_high", "n", "n_total", "unit", "direction",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One system's value of one metric on one subset.

    Args:
        system: whose value it is.
        subset: a subset's name, or `all`: one mean over all rows as SPEARBench pools, not a mean of subset
            means.
        scorer: which scorer measured it.
        metric: name on the board: the metric's own, with `<scorer>.` in front where two scorers share it.
        value: in `unit`; NaN where no row has the value.
        ci_low: lower end of the interval; NaN with fewer than two conversations.
        ci_high: upper end.
        n: rows that have the value.
        n_total: all rows of this system and subset, whatever their status.
        unit: of the value.
        direction: which way is better.
        headline: whether the metric is shown first and counts for the distance.
        reducer: how rows become the value.
        about: one sentence on what it is.
        column: the column of benchmark.csv that it fills, if any.
    """

    system: str
    subset: str
    scorer: str
    metric: str
    value: float
    ci_low: float
    ci_high: float
    n: int
    n_total: int
    unit: str
    direction: Direction
    headline: bool
    reducer: Reducer
    about: str
    column: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A system's value minus the reference's, for the Entry with the same system, subset and metric.

    Args:
        entry: the system's own value.
        reference: the reference's value.
        value: their difference in the metric's unit; NaN where either is absent.
        ci_low: lower end of its interval, conversations paired.
        ci_high: upper end.
        p: two-sided, Mann-Whitney U over rows; NaN where rows have no value of their own (correlations, slopes).
        standardised: difference of the row means in pooled standard deviations; may be infinite, or NaN likewise.
    """

    entry: Entry
    reference: float
    value: float
    ci_low: float
    ci_high: float
    p: float
    standardised: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A system's place: its distance to the reference, or why there is none.

    `distance` is the mean over the headline metrics of the absolute standardised difference to the reference
    on the pooled rows: 0 means like the reference. It is a sort order, not a score.
    """

    system: str
    distance: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many rows of a system ended with one status and code in one scorer, over all splits.

    `message` is one example; `dialogue_ids` are the first ones in alphabetical order, at most `EXAMPLES`.
    """

    scorer: str
    system: str
    status: str
    code: str
    count: int
    message: str
    dialogue_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """System-level values of one run.

    Args:
        reference: the system that the others are compared with.
        has_reference: whether the run holds it.
        split: whose rows count; empty when all do.
        confidence: of the intervals.
        resamples: how many times the conversations were drawn.
        standings: all systems in the order of the page: the reference, then by distance.
        subsets: `all` first, then by name.
        entries: by system, subset, metric, in the order of the page.
        differences: likewise, without the reference.
        outcomes: status counts.
        notes: plain statements on how the board came about.
        distances: how far each system's distribution of each feature is from the reference's.
    """

    reference: str
    has_reference: bool
    split: str
    confidence: float
    resamples: int
    standings: tuple[Standing, ...]
    subsets: tuple[str, ...]
    entries: tuple[Entry, ...]
    differences: tuple[Difference, ...]
    outcomes: tuple[Outcome, ...]
    notes: tuple[str, ...]
    distances: tuple[FeatureDistance, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        """All systems in the order of the page."""
        return tuple(standing.system for standing in self.standings)

    def entry(self, system: str, metric: str, subset: str = POOLED) -> Entry | None:
        """A system's entry, or None."""
        wanted = (system, subset, metric)
        found = (entry for entry in self.entries if (entry.system, entry.subset, entry.metric) == wanted)
        return next(found, None)

    def headlines(self) -> list[Entry]:
        """One entry for each headline metric, in metric order; they tell names and units."""
        first: dict[str, Entry] = {}
        for entry in self.entries:
            if entry.headline:
                first.setdefault(entry.metric, entry)
        return list(first.values())


def build(
    rows: Mapping[str, pa.Table],
    metrics: Mapping[str, tuple[Metric, ...]],
    config: LeaderboardConfig,
    shift: Shift | None = None,
) -> Board:
    """Aggregate score rows.

    Args:
        rows: the rows of one run by scorer, with the columns of `scores/<scorer>/*.parquet`.
        metrics: metric definitions by scorer.
        config: split, reference, resamples, confidence, seed.
        shift: of emotional naturalness logits, if any.

    Raises:
        MixedFingerprints: one scorer's rows have more than one fingerprint.
        ConfigError: no row has the split that `config.split` names.
    """
    from spear_ray.leaderboard._building import build_board

    return build_board(rows, metrics, config, shift)


def write_csv(board: Board, file: TextIO) -> None:
    """Write leaderboard.csv: values, then for each the difference to the reference and the test's p, then distances.

    Differences are rows named `<metric>:minus_<reference>` and `<metric>:mann_whitney_p`; their n is the
    number of the system's own rows. Distances of distributions are `<scorer>.<feature>:auroc_vs_<reference>`,
    `:smd_vs_…` and `:wasserstein_vs_…`. Absent values are blank.

    Args:
        board: the values.
        file: a text file opened with `newline=""`.
    """
    from spear_ray.leaderboard.distribution import csv_lines

    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    differences = {_place(difference.entry): difference for difference in board.differences}
    for entry in board.entries:
        writer.writerow(_line(entry, entry.metric, (entry.value, entry.ci_low, entry.ci_high)))
        if _place(entry) in differences:
            writer.writerows(_difference_lines(differences[_place(entry)], board.reference))
    writer.writerows(csv_lines(board.distances))


def number(value: float) -> str:
    """Shortest decimal that reads back as the same float; blank for NaN."""
    return "" if value != value else repr(float(value))


def _place(entry: Entry) -> tuple[str, str, str]:
    return entry.system, entry.subset, entry.metric


def _difference_lines(difference: Difference, reference: str) -> Iterable[list[str]]:
    entry, nan = difference.entry, float("nan")
    values = (difference.value, difference.ci_low, difference.ci_high)
    yield _line(entry, f"{entry.metric}:minus_{reference}", values)
    yield _line(entry, f"{entry.metric}:mann_whitney_p", (difference.p, nan, nan), unit="p")


def _line(entry: Entry, metric: str, values: tuple[float, float, float], unit: str | None = None) -> list[str]:
    numbers = [number(value) for value in values]
    direction = entry.direction if unit is None else "none"  # neither end of a p is better
    counts = [str(entry.n), str(entry.n_total)]
    return [entry.system, entry.subset, metric, *numbers, *counts, unit or entry.unit, direction]
