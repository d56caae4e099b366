"""How `build` makes a Board out of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spear_ray.config import LeaderboardConfig
from spear_ray.dialects.labels import DIALECTS, log_odds
from spear_ray.leaderboard import statistics
from spear_ray.leaderboard.board import POOLED, Board, Difference, Entry, Outcome, Standing
from spear_ray.leaderboard.distribution import distances
from spear_ray.leaderboard.rows import ScorerRows, choose_split, read_rows
from spear_ray.leaderboard.steps import EMOTION, LOGIT, Shift, shifted, with_vocal_arousal
from spear_ray.scorers.base import Metric

if TYPE_CHECKING:
    import pyarrow as pa

DISTANCE_RESAMPLES = 500
"""For intervals of distances between distributions, of which there are many: their ends move by about a tenth of their
length from 500 to 2,000 resamples."""

EXAMPLES = 20
"""Dialogue ids that an outcome keeps."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The rows behind one Entry.

    Args:
        values: [rows], or [rows, keys] where a row has several.
        conversations: [rows].
        scale: from the statistic of the values to the metric's unit.
        of_rows: whether each row has a value of its own.
    """

    values: statistics.Floats
    conversations: Sequence[str]
    scale: float = 1.0
    of_rows: bool = True


@dataclass(frozen=True, slots=True)
class _Named:
    """A metric with the scorer that measures it and its name on the board."""

    scorer: str
    name: str
    metric: Metric


def build_board(
    tables: Mapping[str, pa.Table],
    metrics: Mapping[str, tuple[Metric, ...]],
    config: LeaderboardConfig,
    shift: Shift | None,
) -> Board:
    """See `spear_ray.leaderboard.board.build`."""
    everything = {scorer: read_rows(scorer, table) for scorer, table in tables.items()}
    if EMOTION in everything:
        emotion = with_vocal_arousal(everything[EMOTION], config.reference)
        everything[EMOTION] = shifted(emotion, shift) if shift else emotion
    split = choose_split(everything, config.split)
    counted = {scorer: rows.where(rows.split == split) if split else rows for scorer, rows in everything.items()}
    systems = sorted({str(system) for rows in counted.values() for system in np.unique(rows.system)})
    entries, differences = _measured(counted, _named(metrics, tables), config)
    standings = rank(systems, entries, differences, config.reference)
    places = {standing.system: place for place, standing in enumerate(standings)}
    return Board(
        reference=config.reference,
        has_reference=config.reference in systems,
        split=split,
        confidence=config.confidence,
        resamples=config.resamples,
        standings=tuple(standings),
        subsets=(POOLED, *sorted({entry.subset for entry in entries} - {POOLED})),
        entries=tuple(sorted(entries, key=lambda entry: places[entry.system])),
        differences=tuple(sorted(differences, key=lambda difference: places[difference.entry.system])),
        outcomes=tuple(_outcomes(everything)),
        distances=tuple(distances(counted, _features(metrics), config, min(config.resamples, DISTANCE_RESAMPLES))),
        notes=(*_notes(split, systems, standings, config), *_step_notes(everything, shift)),
    )


def _features(metrics: Mapping[str, tuple[Metric, ...]]) -> dict[str, list[str]]:
    """Keys by scorer whose distributions are compared: of each row's own values that have a better or worse."""
    return {
        scorer: [metric.sources[0] for metric in declared if metric.of_rows and metric.direction != "none"]
        for scorer, declared in metrics.items()
    }


def rank(
    systems: Sequence[str], entries: Sequence[Entry], differences: Sequence[Difference], reference: str
) -> list[Standing]:
    """Order the systems: the reference, then by distance to it, then those without a distance by name.

    Without the reference there is no ranking: the order is alphabetical.

    Args:
        systems: names.
        entries: all of them; headline metrics that no system has a value of do not count.
        differences: to the reference.
        reference: its name.
    """
    if reference not in systems:
        reason = f"the reference system '{reference}' is not in the run"
        return [Standing(system=system, distance=None, reason=reason) for system in sorted(systems)]
    pooled = [entry for entry in entries if entry.subset == POOLED and entry.headline]
    measured = list(dict.fromkeys(entry.metric for entry in pooled if entry.n > 0))
    places = [_standing(system, measured, differences) for system in systems if system != reference]
    places.sort(key=lambda one: (one.distance is None, one.distance or 0.0, one.system))
    return [Standing(system=reference, distance=0.0 if measured else None), *places]


def _standing(system: str, measured: Sequence[str], differences: Sequence[Difference]) -> Standing:
    found = {
        difference.entry.metric: abs(difference.standardised)
        for difference in differences
        if difference.entry.system == system and difference.entry.subset == POOLED
    }
    lacking = [metric for metric in measured if not found.get(metric, float("nan")) >= 0]
    if not measured:
        return Standing(system=system, distance=None, reason="no headline metric was measured")
    if lacking:
        reason = f"no comparison with the reference for {', '.join(lacking)}"
        return Standing(system=system, distance=None, reason=reason)
    return Standing(system=system, distance=float(np.mean([found[metric] for metric in measured])))


def _named(metrics: Mapping[str, tuple[Metric, ...]], tables: Mapping[str, pa.Table]) -> list[_Named]:
    """Metrics of the scorers that have rows; headline ones first, else in the order of declaration."""
    declared = [(scorer, metric) for scorer in tables for metric in metrics.get(scorer, ())]
    uses = Counter(metric.name for _, metric in declared)
    named = [
        _Named(scorer, metric.name if uses[metric.name] == 1 else f"{scorer}.{metric.name}", metric)
        for scorer, metric in declared
    ]
    return sorted(named, key=lambda one: not one.metric.headline)


def _measured(
    rows: Mapping[str, ScorerRows], metrics: Sequence[_Named], config: LeaderboardConfig
) -> tuple[list[Entry], list[Difference]]:
    """Entry and difference of each (system, subset, metric) that has rows, in this order.

    One metric after the other, so that only one metric's values are in memory beside the rows.
    """
    groups = {scorer: _groups(columns) for scorer, columns in rows.items()}
    places = sorted({place for found in groups.values() for place in found}, key=_pooled_first)
    found: list[tuple[int, int, Entry, Difference | None]] = []
    for number, one in enumerate(metrics):
        cells = {
            place: _cell(rows[one.scorer], groups[one.scorer][place], one.metric)
            for place in places
            if place in groups[one.scorer]
        }
        entries = {place: _entry(*place, one, cell, config) for place, cell in cells.items()}
        for place, entry in entries.items():
            other = config.reference, place[1]
            compared = place[0] != config.reference and other in cells
            difference = _difference(entry, cells[place], entries[other], cells[other], config) if compared else None
            found.append((places.index(place), number, entry, difference))
    found.sort(key=lambda item: item[:2])
    return [item[2] for item in found], [item[3] for item in found if item[3] is not None]


def _cell(rows: ScorerRows, places: statistics.Integers, metric: Metric) -> Cell:
    """The values of some rows."""
    columns = [rows.value(key)[places] for key in metric.sources]
    values = columns[0] if metric.of_rows else np.stack(columns, axis=1)
    if metric.transform == "log_odds":
        values = log_odds(values.reshape(len(values), -1, len(DIALECTS))).reshape(values.shape)
    return Cell(values, rows.conversation_id[places].tolist(), metric.scale, metric.of_rows)


def _groups(rows: ScorerRows) -> dict[tuple[str, str], statistics.Integers]:
    """Row numbers of each (system, subset), and of each system's rows together."""
    found: dict[tuple[str, str], statistics.Integers] = {}
    for system in np.unique(rows.system):
        ours = np.flatnonzero(rows.system == system)
        found[str(system), POOLED] = ours
        for subset in np.unique(rows.subset[ours]):
            if subset != POOLED:
                found[str(system), str(subset)] = ours[rows.subset[ours] == subset]
    return found


def _pooled_first(place: tuple[str, str]) -> tuple[str, bool, str]:
    system, subset = place
    return system, subset != POOLED, subset


def _entry(system: str, subset: str, one: _Named, cell: Cell, config: LeaderboardConfig) -> Entry:
    metric = one.metric
    low, high = statistics.interval(
        cell.values,
        cell.conversations,
        metric.reducer,
        resamples=config.resamples,
        confidence=config.confidence,
        seed=config.seed,
    )
    return Entry(
        system=system,
        subset=subset,
        scorer=one.scorer,
        metric=one.name,
        value=statistics.estimate(cell.values, metric.reducer) * cell.scale,
        ci_low=low * cell.scale,
        ci_high=high * cell.scale,
        n=int(statistics.complete(cell.values).sum()),
        n_total=len(cell.values),
        unit=metric.unit,
        direction=metric.direction,
        headline=metric.headline,
        reducer=metric.reducer,
        about=metric.about,
        column=metric.column,
    )


def _difference(entry: Entry, cell: Cell, other: Entry, reference: Cell, config: LeaderboardConfig) -> Difference:
    low, high = statistics.difference_interval(
        (cell.values, cell.conversations),
        (reference.values, reference.conversations),
        entry.reducer,
        resamples=config.resamples,
        confidence=config.confidence,
        seed=config.seed,
    )
    return Difference(
        entry=entry,
        reference=other.value,
        value=entry.value - other.value,
        ci_low=low * cell.scale,
        ci_high=high * cell.scale,
        p=statistics.mann_whitney_p(cell.values, reference.values) if cell.of_rows else float("nan"),
        standardised=(
            statistics.standardised_mean_difference(cell.values, reference.values) if cell.of_rows else float("nan")
        ),
    )


def _outcomes(rows: Mapping[str, ScorerRows]) -> Iterator[Outcome]:
    for scorer, columns in rows.items():
        labels = list(zip(columns.system.tolist(), columns.status.tolist(), columns.code.tolist(), strict=True))
        where: dict[tuple[str, str, str], list[int]] = {}
        for index, label in enumerate(labels):
            where.setdefault(label, []).append(index)
        for (system, status, code), indices in sorted(where.items()):
            yield Outcome(
                scorer=scorer,
                system=system,
                status=status,
                code=code,
                count=len(indices),
                message=next((str(text) for text in columns.message[indices] if text), ""),
                dialogue_ids=tuple(str(one) for one in columns.dialogue_id[indices[:EXAMPLES]]),
            )


def _step_notes(rows: Mapping[str, ScorerRows], shift: Shift | None) -> Iterator[str]:
    if shift is not None:
        yield shift.note()
    elif EMOTION in rows and np.isfinite(rows[EMOTION].value(LOGIT)).any():
        yield (
            "Emotional naturalness logits are as TRACE gives them; SPEARBench's table shows them shifted by dev rows of"
            " the human system (leaderboard.naturalness_dev_run)."
        )


def _notes(
    split: str, systems: Sequence[str], standings: Sequence[Standing], config: LeaderboardConfig
) -> Iterator[str]:
    yield f"Rows of the split '{split}' count." if split else "Rows of all splits count."
    if config.reference not in systems:
        yield (
            f"There is no ranking: the reference system '{config.reference}' is not in the run,"
            " so systems stand in alphabetical order and no difference is shown."
        )
    yield from (
        f"{standing.system} has no distance: {standing.reason}."
        for standing in standings
        if config.reference in systems and standing.distance is None and standing.reason
    )
