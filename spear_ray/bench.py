"""One benchmark run from its configuration to its report."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spear_ray.config import BenchConfig, as_dict, config_hash
from spear_ray.dialogue import Dialogue, Score
from spear_ray.errors import ClusterError, ConfigError, PrerequisiteError
from spear_ray.ledger import Ledger, missing_rows
from spear_ray.provenance import data_fingerprint, git_commit, versions
from spear_ray.scorers import Scorer, scorer_type
from spear_ray.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

    from spear_ray.leaderboard.board import Board
    from spear_ray.leaderboard.steps import Shift
    from spear_ray.sources import Item, Shard, Source

JOB_FOLDER = "working_dir_files"
"""Ray unpacks a submitted job's working directory below a folder of this name."""
RESULTS = ("leaderboard.csv", "benchmark.csv", "report.html")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run left behind.

    Args:
        board: the system-level values.
        files: where the results are, by name.
        counts: rows by `<scorer>.<status>[.<code>]`.
    """

    board: Board
    files: Mapping[str, str]
    counts: Mapping[str, int]

    @property
    def exit_code(self) -> int:
        """0 where no row is in error, else 1."""
        return int(any(key.split(".")[1] == "error" for key in self.counts))


class Unavailable(Scorer[Any]):
    """Stands in for a scorer that cannot run here: each row is skipped and says what is missing."""

    def __init__(self, scorer: Scorer[Any], reason: PrerequisiteError) -> None:
        super().__init__(scorer.config)
        self.reason = reason
        self._identity = {**scorer.identity, "missing": reason.code}
        self.__dict__.update(name=scorer.name, version=scorer.version, metrics=scorer.metrics)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Differs from the real scorer's: its rows are scored when it can run."""
        return self._identity

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One skipped row each."""
        return [self.skipped(dialogue, self.reason.code, str(self.reason)) for dialogue in batch]

    def rows(self, items: Sequence[Item]) -> list[Score]:
        """Skipped rows without reading any audio."""
        return self.measure([Dialogue(**item._asdict()) for item in items])


def make_scorers(config: BenchConfig, explicit: bool) -> list[Scorer[Any]]:
    """The configured scorers; one that lacks something is replaced by `Unavailable`, unless it can work without.

    Args:
        config: the run's configuration.
        explicit: the user named the scorers: then a missing prerequisite stops the run.

    Raises:
        PrerequisiteError: `explicit`, and something is missing.
    """
    made: list[Scorer[Any]] = []
    for name in config.scorers:
        scorer = scorer_type(name)(getattr(config.scorer, name))
        reason = scorer.missing()
        if reason is not None and explicit:
            raise reason
        if reason is not None and not scorer.columns:
            scorer.config.resources.num_gpus = 0.0  # what works without its models works without their GPU
        made.append(scorer if reason is None or scorer.partial else Unavailable(scorer, reason))
    return made


def run(config: BenchConfig, console: Console, words: Sequence[str] = (), explicit: bool = False) -> Outcome:
    """Score what is left to do, then write leaderboard.csv, benchmark.csv, report.html and run.json.

    Args:
        config: the run's configuration.
        console: where progress goes.
        words: the user's own words, kept in run.json.
        explicit: see `make_scorers`.

    Raises:
        RequestError: nothing was started (exit 2).
        InfrastructureError: the cluster or the store failed (exit 3).
    """
    from spear_ray.sources import open_source

    started = datetime.now(UTC)
    _check_lasting(config.run.uri)
    scorers = make_scorers(config, explicit)
    source = open_source(config)
    shards = source.shards()
    store = Store(config.run.uri)
    store.check()
    ledger = Ledger(store)
    record = _record(config, words, source, shards, scorers, started)
    if config.leaderboard.naturalness_dev_run != "self":
        naturalness_shift(config, store, record, {})  # what is wrong with it is said before anything is scored
    _write_json(store, "run.json", {**record, "state": "running"})
    timings = _score(config, source, ledger, shards, scorers, console)
    tables = read_rows(ledger, {scorer.name: scorer.fingerprint for scorer in scorers})
    counts = count_rows(tables)
    record |= {"state": "finished", "counts": counts, "timings": timings, "finished": _now()}
    return _publish(config, store, record, tables, scorers, counts)


def republish(config: BenchConfig) -> Outcome:
    """Write the leaderboard and the report again from the rows that are committed; reads no data set.

    Raises:
        RequestError: there is no finished run at `run.uri`.
    """
    store = Store(config.run.uri)
    store.check()
    record = _finished(store)
    prints = {name: str(entry["fingerprint"]) for name, entry in record["scorers"].items()}
    tables = read_rows(Ledger(store), prints)
    scorers = [scorer_type(name)(getattr(config.scorer, name)) for name in prints]
    return _publish(config, store, record, tables, scorers, count_rows(tables))


def _finished(store: Store) -> dict[str, Any]:
    """The record of a finished run."""
    where = store.url("run.json")
    try:
        record: dict[str, Any] = json.loads(store.read("run.json"))
    except FileNotFoundError:
        raise PrerequisiteError(f"{where} does not exist: run the benchmark first") from None
    if record["state"] != "finished":
        raise PrerequisiteError(f"{where} says state '{record['state']}': run the benchmark again to complete it")
    return record


def _check_lasting(uri: str) -> None:
    """A submitted job runs in a copy of the working directory that Ray deletes: results must not land there."""
    if JOB_FOLDER in Path.cwd().parts and not uri.startswith("s3://") and not Path(uri).expanduser().is_absolute():
        raise ConfigError(
            f"run.uri={uri} is relative to the job's working directory, which Ray deletes;"
            " give an absolute path or s3://bucket/prefix"
        )


def _score(
    config: BenchConfig,
    source: Source,
    ledger: Ledger,
    shards: Sequence[Shard],
    scorers: Sequence[Scorer[Any]],
    console: Console,
) -> dict[str, Any]:
    from spear_ray import pipeline
    from spear_ray.progress import display

    for scorer in scorers:
        ledger.retire(scorer.name, scorer.fingerprint, [shard.shard_id for shard in shards])
    begun = time.monotonic()
    absent = [scorer for scorer in scorers if isinstance(scorer, Unavailable)]
    skipped = _commit_skipped(source, ledger, shards, absent)
    ready = [scorer for scorer in scorers if not isinstance(scorer, Unavailable)]
    work = pipeline.plan(shards, ledger, ready)
    progress = pipeline.Progress(total=sum(item.rows for item in work))
    if work:
        pipeline.start_ray(config.ray)
        with display(console, progress.total, config.pipeline.progress_seconds) as show:
            names = [scorer.name for scorer in ready if any(scorer.name in item.missing for item in work)]
            progress = pipeline.run(config, names, source, ledger, work, show)
    check_complete(ledger, shards, scorers)
    return {
        "rows_scored": progress.done + skipped,
        "audio_seconds": progress.audio_s,
        "scorer_cpu_seconds": progress.cpu_s,
        "wall_seconds": time.monotonic() - begun,
        "startup_seconds": progress.startup_s,
        "scoring_seconds": progress.scoring_s,
    }


def _commit_skipped(source: Source, ledger: Ledger, shards: Sequence[Shard], absent: Sequence[Unavailable]) -> int:
    written = 0
    for scorer in absent:
        done = ledger.done(scorer.name, scorer.fingerprint)
        for shard in shards:
            for rows in missing_rows(shard.rows, done.get(shard.shard_id, [])):
                ledger.commit(shard.shard_id, rows.first, scorer.rows(source.items(shard)[rows.first : rows.end]))
                written += rows.end - rows.first
    return written


def check_complete(ledger: Ledger, shards: Sequence[Shard], scorers: Sequence[Scorer[Any]]) -> None:
    """Rows out = rows in x scorers, each row once.

    Raises:
        ClusterError: rows are missing or there twice.
    """
    for scorer in scorers:
        done = ledger.done(scorer.name, scorer.fingerprint)
        for shard in shards:
            ranges = done.get(shard.shard_id, [])
            committed = sum(rows.end - rows.first for rows in ranges)
            if committed != shard.rows or missing_rows(shard.rows, ranges):
                raise ClusterError(
                    f"{scorer.name}: shard {shard.shard_id} has {shard.rows} rows, {committed} are committed;"
                    " is another run writing to the same run.uri? Run again to complete it"
                )


def read_rows(ledger: Ledger, prints: Mapping[str, str]) -> dict[str, pa.Table]:
    """All committed rows by scorer, without their details.

    Args:
        ledger: of the run.
        prints: each scorer's fingerprint.
    """
    import pyarrow as pa

    # Many small reads: the system's allocator gives their memory back, Arrow's own pool keeps it.
    pa.set_memory_pool(pa.system_memory_pool())
    return {name: ledger.read(name, fingerprint) for name, fingerprint in prints.items()}


def read_details(ledger: Ledger, scorer: str, tables: Mapping[str, pa.Table], ids: Sequence[str]) -> dict[str, str]:
    """The details of some dialogues' rows, by dialogue id."""
    if not ids:
        return {}
    table = tables[scorer]
    places = {name: place for place, name in enumerate(table["dialogue_id"].to_pylist()) if name in set(ids)}
    details = ledger.details(scorer, table["fingerprint"][0].as_py(), [places[name] for name in ids])
    return {name: text for name, text in zip(ids, details, strict=True) if text is not None}


def count_rows(tables: Mapping[str, pa.Table]) -> dict[str, int]:
    """Rows by `<scorer>.<status>[.<code>]`, sorted."""
    counts: dict[str, int] = {}
    for name, table in tables.items():
        for status, code in zip(table["status"].to_pylist(), table["code"].to_pylist(), strict=True):
            key = f"{name}.{status}" + (f".{code}" if code else "")
            counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items()))


def _publish(
    config: BenchConfig,
    store: Store,
    record: Mapping[str, Any],
    tables: Mapping[str, pa.Table],
    scorers: Sequence[Scorer[Any]],
    counts: Mapping[str, int],
) -> Outcome:
    from spear_ray.leaderboard.board import build, write_csv
    from spear_ray.leaderboard.report import render
    from spear_ray.leaderboard.spearbench import write_benchmark
    from spear_ray.leaderboard.turn_plot import SCORER, choose_dialogues

    metrics = {scorer.name: scorer.metrics for scorer in scorers}
    shift = naturalness_shift(config, store, record, tables)
    board = build(tables, metrics, config.leaderboard, shift)
    record = {**record, "leaderboard_steps": {"naturalness_shift": asdict(shift) if shift else None}}
    leaderboard, benchmark = io.StringIO(newline=""), io.StringIO(newline="")
    write_csv(board, leaderboard)
    write_benchmark(board, benchmark)
    store.write("leaderboard.csv", leaderboard.getvalue().encode())
    store.write("benchmark.csv", benchmark.getvalue().encode())
    chosen = choose_dialogues(board, tables[SCORER]) if SCORER in tables else []
    dialogues = read_details(Ledger(store), SCORER, tables, chosen)
    store.write("report.html", render(board, record, tables, dialogues).encode())
    _write_json(store, "run.json", record)
    return Outcome(board, {name: store.url(name) for name in RESULTS}, counts)


def naturalness_shift(
    config: BenchConfig, store: Store, record: Mapping[str, Any], tables: Mapping[str, pa.Table]
) -> Shift | None:
    """The shift of emotional naturalness logits that the configuration asks for; None where it asks for none.

    Raises:
        ConfigError: the named run has no dev rows, or was made with other settings or models.
        PrerequisiteError: there is no finished run.
    """
    from spear_ray.leaderboard.rows import read_rows as columns
    from spear_ray.leaderboard.steps import EMOTION, shift_from

    where = config.leaderboard.naturalness_dev_run
    if not where or EMOTION not in record["scorers"]:
        return None
    if where == "self":
        return shift_from(columns(EMOTION, tables[EMOTION]), store.url("run.json"), config.leaderboard.reference)
    dev = Store(where)
    dev.check()
    ours, theirs = (_emotion_print(one) for one in (record, _finished(dev)))
    if ours != theirs:
        raise ConfigError(
            f"leaderboard.naturalness_dev_run={where}: its emotion rows have fingerprint {theirs}, this run's {ours}:"
            " they come from other settings or models"
        )
    rows = columns(EMOTION, Ledger(dev).read(EMOTION, str(theirs)))
    return shift_from(rows, dev.url("run.json"), config.leaderboard.reference)


def _emotion_print(record: Mapping[str, Any]) -> str | None:
    found = record["scorers"].get("emotion")
    return str(found["fingerprint"]) if found else None


def _record(
    config: BenchConfig,
    words: Sequence[str],
    source: Source,
    shards: Sequence[Shard],
    scorers: Sequence[Scorer[Any]],
    started: datetime,
) -> dict[str, Any]:
    return {
        "versions": versions(),
        "git_commit": git_commit(),
        "command": ["python", "jobs/full_bench.py", *words],
        "config": as_dict(config),
        "config_hash": config_hash(config),
        "data": {
            "uri": config.data.uri,
            "layout": type(source).__name__.removesuffix("Source").lower(),
            "fingerprint": data_fingerprint(shards),
            "dialogues": sum(shard.rows for shard in shards),
            "shards": len(shards),
        },
        "scorers": {scorer.name: _scorer_record(scorer) for scorer in scorers},
        "notes": source.notes,
        "started": started.isoformat(timespec="seconds"),
    }


def _scorer_record(scorer: Scorer[Any]) -> dict[str, Any]:
    absent = isinstance(scorer, Unavailable)
    reason = scorer.reason if isinstance(scorer, Unavailable) else scorer.missing()
    return {
        "version": scorer.version,
        "fingerprint": scorer.fingerprint,
        "identity": dict(scorer.identity),
        "benchmark_columns": [] if absent else list(scorer.columns),
        "status": "skipped" if absent else "partial" if reason else "ok",
        "message": str(reason) if reason else "",
    }


def _write_json(store: Store, name: str, value: Mapping[str, Any]) -> None:
    """Keys stay in their order: a report made from the file again is the same."""
    store.write(name, (json.dumps(value, indent=2) + "\n").encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
