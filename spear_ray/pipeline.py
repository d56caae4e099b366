"""The Ray Data graph: shards -> dialogues -> one actor pool per scorer -> committed rows.

This is the only room (with the jobs and deployments above it) that imports ray.
"""

from __future__ import annotations

import json
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

import pyarrow as pa

from spear_ray import errors
from spear_ray.blocks import (
    AUDIO_COLUMNS,
    block_of,
    dialogues_of,
    score_column,
    scores_of,
    with_scores,
)
from spear_ray.config import BenchConfig, RayConfig
from spear_ray.dialogue import Dialogue, Score
from spear_ray.errors import ClusterError, ScorerError, SpearError
from spear_ray.ledger import Ledger, Rows, missing_rows, todo_by_row
from spear_ray.scorers import Resources, Scorer, scorer_type
from spear_ray.sources import Shard, Source

BLOCK_SLACK = 4
"""Blocks that may wait between stages, for each actor: enough to keep it busy, few enough to bound memory."""


TASK_RETRIES = 5
"""How often a unit of work is tried again when its actor dies; audio that kills every actor must end the run."""
SCORERS_PER_COMMITTER = 16
"""Scorer actors that one writer of rows serves; it waits for the store and holds no CPU."""
OURS = re.compile(r"^spear_ray\.errors\.(\w+): (.+)$", re.MULTILINE)
RAISED = re.compile(r"^(?!ray\.)[\w.]+(?:Error|Exception): .+$", re.MULTILINE)
"""Last lines of a traceback: errors of ours, and others that are not Ray's wrapping."""


BLOCKWISE: dict[str, Any] = {"batch_size": None, "batch_format": "pyarrow", "zero_copy_batch": True}
"""Every stage gets whole blocks as Arrow tables."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do of one shard: for each scorer the rows that are not committed."""

    shard: Shard
    missing: Mapping[str, Sequence[Rows]]

    @property
    def rows(self) -> int:
        """(row, scorer) pairs to score."""
        return sum(rows.end - rows.first for ranges in self.missing.values() for rows in ranges)


@dataclass
class Progress:
    """How far a run is; passed to the display after each committed block."""

    total: int
    done: int = 0
    audio_s: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    status: dict[str, int] = field(default_factory=dict)
    startup_s: float | None = None
    wall_s: float = 0.0

    @property
    def scoring_s(self) -> float:
        """Wall time without start-up: from when the first scorer was ready."""
        return self.wall_s - (self.startup_s or 0.0)


Display = Callable[[Progress], None]


def plan(shards: Sequence[Shard], ledger: Ledger, scorers: Sequence[Scorer[Any]]) -> list[Work]:
    """The shards that lack rows of any scorer; finished ones are left out before anything is read."""
    done = {scorer.name: ledger.done(scorer.name, scorer.fingerprint) for scorer in scorers}
    work = []
    for shard in shards:
        missing = {
            name: gaps
            for name, ranges in done.items()
            if (gaps := missing_rows(shard.rows, ranges.get(shard.shard_id, [])))
        }
        if missing:
            work.append(Work(shard, missing))
    return work


def start_ray(config: RayConfig) -> None:
    """Connect to the cluster that `ray.address` or RAY_ADDRESS names, or start a local Ray.

    Raises:
        ClusterError: it cannot be reached or started.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    if ray.is_initialized():
        return
    address = config.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"logging_level": logging.ERROR}
    if address == "local":
        options |= {
            "num_cpus": config.num_cpus or None,
            "object_store_memory": config.object_store_bytes or None,
            "include_dashboard": False,
        }
    try:
        ray.init(address=address, **options)
    except Exception as error:
        raise ClusterError(f"Ray cannot be reached at '{address}': {error}") from error


def run(
    config: BenchConfig,
    names: Sequence[str],
    source: Source,
    ledger: Ledger,
    work: Sequence[Work],
    display: Display,
) -> Progress:
    """Score all that is left to do and commit it; returns when every block is committed.

    Args:
        config: the run's configuration.
        names: the scorers that run.
        source: reads the dialogues.
        ledger: takes the rows.
        work: what is left to do.
        display: called after each committed block.

    Raises:
        ClusterError: the cluster failed or is too small.
        SpearError: what a stage reported.
    """
    import ray

    progress = Progress(total=sum(item.rows for item in work))
    started = time.monotonic()
    # Ray 2.64 will want retries said in another way; this pins 2.60.
    warnings.filterwarnings("ignore", message=".*ray_remote_args")
    try:
        dataset = _graph(config, in_order(config, names), source, ledger, work)
        for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
            for line in column(batch, "summary"):
                _note(progress, json.loads(line), started)
            display(progress)
    except (ray.exceptions.ActorDiedError, ray.exceptions.ActorUnavailableError) as error:
        raise ClusterError(
            "a process died again and again at the same work (out of memory? audio that crashes it?); what is committed"
            f" stays, the same command continues there. Ray says: {_cause(error)}"
        ) from error
    except (ray.exceptions.RayError, RuntimeError, ValueError) as error:
        raise _cause(error) from error
    return progress


def _graph(config: BenchConfig, names: Sequence[str], source: Source, ledger: Ledger, work: Sequence[Work]) -> Any:
    import ray

    context = ray.data.DataContext.get_current()
    context.target_max_block_size = config.pipeline.block_bytes
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.execution_no_progress_timeout_s = config.pipeline.stall_seconds
    cluster = ray.cluster_resources()
    pools = pool_sizes(
        {name: getattr(config.scorer, name).resources for name in names},
        cluster_cpus=float(cluster.get("CPU", 1.0)),
        cluster_gpus=float(cluster.get("GPU", 0.0)),
        units=len(work),
    )
    reader = _Reader(source, config.pipeline.block_bytes)
    dataset = ray.data.from_items([_packed(item) for item in work], override_num_blocks=len(work))
    reads_itself = not getattr(config.scorer, names[0]).resources.num_gpus
    if not reads_itself:
        dataset = dataset.map_batches(reader, num_cpus=1, **BLOCKWISE)
    for name in names:
        own_reader = reader if reads_itself and name == names[0] else None
        dataset = _scored(dataset, name, config, pools[name], last=name == names[-1], reader=own_reader)
    # An actor, not tasks: Ray starts a new process for nearly every task that holds no CPU.
    return dataset.map_batches(
        _Committer,
        fn_constructor_kwargs={"ledger": ledger, "names": tuple(names)},
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(size=1 + sum(pool.most for pool in pools.values()) // SCORERS_PER_COMMITTER),
        **BLOCKWISE,
    )


def _scored(dataset: Any, name: str, config: BenchConfig, pool: Pool, last: bool, reader: _Reader | None) -> Any:
    import ray

    resources: Resources = getattr(config.scorer, name).resources
    stage: dict[str, Any] = {"name": name, "config": getattr(config.scorer, name), "last": last}
    return dataset.map_batches(
        _ReadingStage if reader else _ScorerStage,
        fn_constructor_kwargs={**stage, "reader": reader} if reader else stage,
        num_cpus=pool.num_cpus,
        num_gpus=resources.num_gpus or None,
        memory=resources.memory_bytes,
        ray_remote_args_fn=_retries,
        compute=ray.data.ActorPoolStrategy(
            min_size=pool.least, max_size=pool.most, max_tasks_in_flight_per_actor=BLOCK_SLACK
        ),
        **BLOCKWISE,
    )


def _retries() -> dict[str, Any]:
    return {"max_task_retries": TASK_RETRIES}


@dataclass(frozen=True, slots=True)
class Pool:
    """Actors of one scorer and the CPUs that each one holds."""

    least: int
    most: int
    num_cpus: float


def pool_sizes(
    resources: Mapping[str, Resources], cluster_cpus: float, units: int, cluster_gpus: float = 0.0
) -> dict[str, Pool]:
    """How many actors each scorer gets.

    Without `concurrency`, a scorer on the GPU gets as many actors as the cluster's GPUs hold, and one on the CPU gets
    one actor for each core that is left (at most one for each unit of work); those hold a fraction of a CPU each
    where they are several, and the operating system balances them. Where no scorer is on the CPU, one core is kept
    for reading.

    Raises:
        ClusterError: the configured minimum does not fit the cluster: it would wait forever.
    """
    pools = {
        name: _fixed(name, need, cluster_gpus) for name, need in resources.items() if need.concurrency or need.num_gpus
    }
    sharing = [name for name in resources if name not in pools]
    reading = 1.0 if all(need.num_gpus for need in resources.values()) else 0.0
    fixed = reading + sum(pool.least * pool.num_cpus for pool in pools.values())
    free = cluster_cpus - fixed
    if free < 0 or (sharing and free <= 0):
        raise ClusterError(
            f"the cluster has {cluster_cpus:g} CPUs; the configured minimum of scorer actors needs {fixed:g}"
            + (f" and {', '.join(sharing)} would have none" if sharing else "")
            + "; lower scorer.<name>.resources.concurrency"
        )
    actors = max(1, min(int(free), units))
    share = min(1.0, free / (actors * len(sharing))) if sharing else 1.0
    for name in sharing:
        # Rounded down to Ray's resolution, so that all of them together still fit.
        pools[name] = Pool(actors, actors, int(min(resources[name].num_cpus, share) * 1000) / 1000)
    return pools


def _fixed(name: str, need: Resources, cluster_gpus: float) -> Pool:
    """The pool of a scorer that says how many actors it wants, or whose GPUs do."""
    if need.concurrency:
        return Pool(need.concurrency[0], need.concurrency[-1], need.num_cpus)
    if cluster_gpus < need.num_gpus:
        raise ClusterError(
            f"{name} needs {need.num_gpus:g} GPUs, the cluster has {cluster_gpus:g}; on a cluster that grows, say how"
            f" many actors there may be: scorer.{name}.resources.concurrency=[1,4]"
        )
    actors = int(cluster_gpus / need.num_gpus)
    return Pool(actors, actors, need.num_cpus)


def in_order(config: BenchConfig, names: Sequence[str]) -> list[str]:
    """Scorers on the CPU first: reading then runs in their actors."""
    return sorted(names, key=lambda name: getattr(config.scorer, name).resources.num_gpus > 0)


def column(block: pa.Table, name: str) -> list[Any]:
    """A column as Python values."""
    values: list[Any] = block.column(name).to_pylist()
    return values


class _Reader:
    """Turns a unit of work into blocks of dialogues, bounded in bytes."""

    def __init__(self, source: Source, block_bytes: int) -> None:
        self.source = source
        self.block_bytes = block_bytes

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        for row in batch.to_pylist():
            yield from self._blocks(_unpacked(row))

    def _blocks(self, work: Work) -> Iterator[pa.Table]:
        todo = todo_by_row(work.shard.rows, work.missing)
        pending: list[tuple[int, Dialogue]] = []
        size = 0
        for row, dialogue in self.source.read(work.shard, todo):
            pending.append((row, dialogue))
            size += _bytes(dialogue)
            if size >= self.block_bytes:
                yield block_of(work.shard.shard_id, pending, todo)
                pending, size = [], 0
        if pending:
            yield block_of(work.shard.shard_id, pending, todo)


class _ScorerStage:
    """An actor that holds one scorer; adds its column of rows to each block."""

    def __init__(self, name: str, config: Any, last: bool) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        self.scorer = scorer_type(name)(config)
        self.scorer.setup()
        self.last = last
        self.ready = time.monotonic()

    def __call__(self, block: pa.Table) -> pa.Table:
        before = time.thread_time()
        wanted = [self.scorer.name in todo.split(",") for todo in column(block, "todo")]
        dialogues = [dialogue for dialogue, mine in zip(dialogues_of(block), wanted, strict=True) if mine]
        scores = iter(score_safely(self.scorer, dialogues))
        added = [next(scores) if mine else None for mine in wanted]
        cpu_s = time.thread_time() - before
        ready_s = time.monotonic() - self.ready
        scored = with_scores(block, self.scorer.name, added, {"cpu_s": cpu_s, "ready_s": ready_s})
        return scored.drop_columns(AUDIO_COLUMNS) if self.last else scored


class _ReadingStage(_ScorerStage):
    """The first scorer's actor reads its units of work itself: no process waits for another's audio.

    This is said here and not left to Ray's fusion of stages, which depends on all their resources being equal;
    reading apart from it would wait for a CPU that the actors hold.
    """

    def __init__(self, reader: _Reader, **stage: Any) -> None:
        super().__init__(**stage)
        self.reader = reader

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:  # type: ignore[override]
        for block in self.reader(batch):
            yield super().__call__(block)


def score_safely(scorer: Scorer[Any], dialogues: Sequence[Dialogue]) -> list[Score]:
    """Score a batch; where that fails, one by one, so that only what cannot be scored becomes an error row."""
    try:
        return _checked(scorer, dialogues)
    except Exception as error:
        if len(dialogues) == 1:
            return [_failed(scorer, dialogues[0], error)]
        return [score for dialogue in dialogues for score in score_safely(scorer, [dialogue])]


def _checked(scorer: Scorer[Any], dialogues: Sequence[Dialogue]) -> list[Score]:
    scores = scorer.score(dialogues)
    if [score.dialogue_id for score in scores] != [dialogue.dialogue_id for dialogue in dialogues]:
        raise ScorerError(f"{scorer.name} returned other rows than it was given")
    for score in scores:
        bad = [key for key, value in score.metrics.items() if value != value or abs(value) == float("inf")]
        if bad:
            raise ScorerError(f"{scorer.name} returned values that are not finite: {', '.join(bad)}")
        try:
            json.dumps([score.metrics, score.details], allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ScorerError(f"{scorer.name} returned metrics or details that are not JSON: {error}") from error
    return scores


def _failed(scorer: Scorer[Any], dialogue: Dialogue, error: Exception) -> Score:
    code = error.code if isinstance(error, SpearError) else ScorerError.code
    return scorer.error(dialogue, code, f"{type(error).__name__}: {error}")


class _Committer:
    """Writes the score rows of a block and passes on a line of what was written."""

    def __init__(self, ledger: Ledger, names: Sequence[str]) -> None:
        self.ledger = ledger
        self.names = names

    def __call__(self, block: pa.Table) -> pa.Table:
        shards, rows = column(block, "shard"), column(block, "row")
        lines = []
        for name in self.names:
            scores = scores_of(block, name)
            places = [place for place, score in enumerate(scores) if score is not None]
            # A run of places is one file where shard and row numbers follow each other.
            for _, run_ in groupby(enumerate(places), key=lambda pair: (shards[pair[1]], rows[pair[1]] - pair[0])):
                run = [place for _, place in run_]
                kept = [score for place in run if (score := scores[place])]
                self.ledger.commit(shards[run[0]], rows[run[0]], kept)
            lines.append(_line(name, [score for score in scores if score], block))
        # Once for each block, however many scorers heard it.
        lines[0]["audio_s"] = sum(column(block, "seconds"))
        return pa.table({"summary": [json.dumps(line) for line in lines]})


def _line(name: str, scores: Sequence[Score], block: pa.Table) -> dict[str, Any]:
    status: dict[str, int] = {}
    for score in scores:
        key = f"{name}.{score.status}" + (f".{score.code}" if score.code else "")
        status[key] = status.get(key, 0) + 1
    spent = [json.loads(text) for text in column(block, score_column(name, "spent")) if text]
    return {
        "scorer": name,
        "status": status,
        "rows": len(scores),
        "cpu_s": sum(item["cpu_s"] for item in spent),
        "since_ready_s": max((item["ready_s"] for item in spent), default=0.0),
    }


def _note(progress: Progress, line: Mapping[str, Any], started: float) -> None:
    now = time.monotonic() - started
    if progress.startup_s is None:
        progress.startup_s = now - line["since_ready_s"]
    progress.wall_s = now
    progress.done += line["rows"]
    progress.audio_s += line.get("audio_s", 0.0)
    progress.cpu_s[line["scorer"]] = progress.cpu_s.get(line["scorer"], 0.0) + line["cpu_s"]
    for key, count in line["status"].items():
        progress.status[key] = progress.status.get(key, 0) + count


def _bytes(dialogue: Dialogue) -> int:
    return sum(part.nbytes for part in (dialogue.clip, dialogue.answer) if part is not None)


def _packed(work: Work) -> dict[str, Any]:
    return {**asdict(work.shard), "missing": json.dumps(work.missing)}


def _unpacked(row: dict[str, Any]) -> Work:
    missing = {name: [Rows(*pair) for pair in ranges] for name, ranges in json.loads(row.pop("missing")).items()}
    return Work(Shard(**row), missing)


def _cause(error: BaseException) -> SpearError:
    """The error of ours that a stage raised, or a ClusterError in one line.

    Ray Data passes on the text of a worker's traceback, with advice of its own behind it, and seldom the error itself.
    """
    text = str(error)
    if reported := OURS.findall(text):
        name, message = reported[-1]
        kind: type[SpearError] = getattr(errors, name, ClusterError)
        return kind(message)
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, SpearError):
            return seen
        inner = getattr(seen, "cause", None)
        seen = inner if isinstance(inner, BaseException) else seen.__cause__
    lines = RAISED.findall(text) or [line.strip() for line in text.splitlines() if line.strip()]
    return ClusterError(lines[-1] if lines else type(error).__name__)


__all__ = ["Progress", "Work", "in_order", "plan", "pool_sizes", "run", "score_safely", "start_ray"]
