"""The stages of the graph: plain callables on Arrow tables, which know nothing of Ray.

A unit of work becomes blocks of dialogues (`Reader`), each scorer adds its column (`ScorerStage`), and the rows are
written (`Committer`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from spear_ray.blocks import AUDIO_COLUMNS, block_of, dialogues_of, score_column, scores_of, with_scores
from spear_ray.dialogue import Dialogue, Score
from spear_ray.errors import InfrastructureError, ScorerError, SpearError
from spear_ray.ledger import Ledger, Rows, todo_by_row
from spear_ray.scorers import Scorer, scorer_type
from spear_ray.sources import Shard, Source


@dataclass(frozen=True, slots=True)
class Work:
    """What is left to do of one shard: for each scorer the rows that are not committed."""

    shard: Shard
    missing: Mapping[str, Sequence[Rows]]

    @property
    def rows(self) -> int:
        """(row, scorer) pairs to score."""
        return sum(rows.end - rows.first for ranges in self.missing.values() for rows in ranges)


def packed(work: Work) -> dict[str, Any]:
    """Work as a row of plain values, for the graph's input."""
    return {**asdict(work.shard), "missing": json.dumps(work.missing)}


def unpacked(row: dict[str, Any]) -> Work:
    """The work of such a row."""
    missing = {name: [Rows(*pair) for pair in ranges] for name, ranges in json.loads(row.pop("missing")).items()}
    return Work(Shard(**row), missing)


def column(block: pa.Table, name: str) -> list[Any]:
    """A column as Python values."""
    values: list[Any] = block.column(name).to_pylist()
    return values


class Reader:
    """Turns a unit of work into blocks of dialogues, bounded in bytes."""

    def __init__(self, source: Source, block_bytes: int) -> None:
        self.source = source
        self.block_bytes = block_bytes

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Blocks of dialogues for rows of `packed` work."""
        for row in batch.to_pylist():
            yield from self._blocks(unpacked(row))

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


class ScorerStage:
    """An actor that holds one scorer, or several that share what is costly; adds a column of rows for each.

    Args:
        scorers: name and configuration of each.
        last: the audio is not needed any more after this stage.
    """

    def __init__(self, scorers: Sequence[tuple[str, Any]], last: bool) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        self.scorers = [scorer_type(name)(config) for name, config in scorers]
        for scorer in self.scorers:
            scorer.setup()
        self.last = last
        self.ready = time.monotonic()

    def __call__(self, block: pa.Table) -> pa.Table:
        """The block with these scorers' rows; the last stage leaves the audio out."""
        dialogues = dialogues_of(block)
        for scorer in self.scorers:
            block = self._scored(block, scorer, dialogues)
        return block.drop_columns(AUDIO_COLUMNS) if self.last else block

    def _scored(self, block: pa.Table, scorer: Scorer[Any], dialogues: Sequence[Dialogue]) -> pa.Table:
        before = time.thread_time()
        wanted = [scorer.name in todo.split(",") for todo in column(block, "todo")]
        scores = iter(score_safely(scorer, [one for one, mine in zip(dialogues, wanted, strict=True) if mine]))
        added = [next(scores) if mine else None for mine in wanted]
        spent = {"cpu_s": time.thread_time() - before, "ready_s": time.monotonic() - self.ready}
        return with_scores(block, scorer.name, added, spent)


class ReadingStage(ScorerStage):
    """The first scorer's actor reads its units of work itself: no process waits for another's audio.

    This is said here and not left to Ray's fusion of stages, which depends on all their resources being equal;
    reading apart from it would wait for a CPU that the actors hold.
    """

    def __init__(self, reader: Reader, **stage: Any) -> None:
        super().__init__(**stage)
        self.reader = reader

    def __call__(self, batch: pa.Table) -> Iterator[pa.Table]:
        """Scored blocks for rows of `packed` work."""
        for block in self.reader(batch):
            yield super().__call__(block)


def score_safely(scorer: Scorer[Any], dialogues: Sequence[Dialogue]) -> list[Score]:
    """Score a batch; where that fails, one by one, so that only what cannot be scored becomes an error row."""
    try:
        return _checked(scorer, dialogues)
    except InfrastructureError:
        raise  # no row's fault: the run stops, and continues when it can
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


class Committer:
    """Writes the score rows of a block and passes on a line of what was written."""

    def __init__(self, ledger: Ledger, names: Sequence[str]) -> None:
        self.ledger = ledger
        self.names = names

    def __call__(self, block: pa.Table) -> pa.Table:
        """Commit a block's rows; returns one JSON line for each scorer."""
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


def _bytes(dialogue: Dialogue) -> int:
    return sum(part.nbytes for part in (dialogue.clip, dialogue.answer) if part is not None)
