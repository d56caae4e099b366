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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spear_ray import errors
from spear_ray.config import BenchConfig, RayConfig
from spear_ray.errors import ClusterError, SpearError
from spear_ray.ledger import Ledger, missing_rows
from spear_ray.pools import Pool, combined, pool_sizes
from spear_ray.scorers import Resources, Scorer, scorer_type
from spear_ray.sources import Shard, Source
from spear_ray.stages import Committer, Reader, ReadingStage, ScorerStage, Work, column, packed

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
    groups = sharing(config, names)
    needs = {group: combined([getattr(config.scorer, name).resources for name in group]) for group in groups}
    pools = pool_sizes(
        {_label(group): need for group, need in needs.items()},
        cluster_cpus=float(cluster.get("CPU", 1.0)),
        cluster_gpus=float(cluster.get("GPU", 0.0)),
        units=len(work),
    )
    reader = Reader(source, config.pipeline.block_bytes)
    dataset = ray.data.from_items([packed(item) for item in work], override_num_blocks=len(work))
    reads_itself = not needs[groups[0]].num_gpus
    if not reads_itself:
        dataset = dataset.map_batches(reader, num_cpus=1, **BLOCKWISE)
    for group, need in needs.items():
        stage: dict[str, Any] = {
            "scorers": [(name, getattr(config.scorer, name)) for name in group],
            "last": group == groups[-1],
        }
        own_reader = reader if reads_itself and group == groups[0] else None
        dataset = _scored(dataset, stage, need, pools[_label(group)], own_reader)
    # An actor, not tasks: Ray starts a new process for nearly every task that holds no CPU.
    return dataset.map_batches(
        Committer,
        fn_constructor_kwargs={"ledger": ledger, "names": tuple(names)},
        num_cpus=0,
        compute=ray.data.ActorPoolStrategy(size=1 + sum(pool.most for pool in pools.values()) // SCORERS_PER_COMMITTER),
        **BLOCKWISE,
    )


def _scored(dataset: Any, stage: dict[str, Any], need: Resources, pool: Pool, reader: Reader | None) -> Any:
    import ray

    return dataset.map_batches(
        ReadingStage if reader else ScorerStage,
        fn_constructor_kwargs={**stage, "reader": reader} if reader else stage,
        num_cpus=pool.num_cpus,
        num_gpus=need.num_gpus or None,
        memory=need.memory_bytes,
        ray_remote_args_fn=_retries,
        compute=ray.data.ActorPoolStrategy(
            min_size=pool.least, max_size=pool.most, max_tasks_in_flight_per_actor=BLOCK_SLACK
        ),
        **BLOCKWISE,
    )


def _retries() -> dict[str, Any]:
    return {"max_task_retries": TASK_RETRIES}


def in_order(config: BenchConfig, names: Sequence[str]) -> list[str]:
    """Scorers on the CPU first: reading then runs in their actors."""
    return sorted(names, key=lambda name: getattr(config.scorer, name).resources.num_gpus > 0)


def sharing(config: BenchConfig, names: Sequence[str]) -> list[tuple[str, ...]]:
    """Scorers by the process that they run in, in their order: those that share something costly run together."""
    groups: dict[str, list[str]] = {}
    for name in names:
        shared = scorer_type(name)(getattr(config.scorer, name)).shares
        groups.setdefault(shared or f"{name} alone", []).append(name)
    return [tuple(group) for group in groups.values()]


def _label(group: Sequence[str]) -> str:
    return " and ".join(group)


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
