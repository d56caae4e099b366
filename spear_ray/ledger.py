"""Which rows are done: score files under the run's folder, each written whole or not at all.

A file ``scores/<scorer>/<shard>.<first row>-<end row>.<fingerprint>.parquet`` holds rows [first, end) of one shard.
The names alone tell what is done, so that planning reads no file; a rerun writes the same rows under names that
never overlap those that are there.
"""

from __future__ import annotations

import io
import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from spear_ray.dialogue import Score
from spear_ray.errors import StorageError
from spear_ray.store import Store

SCHEMA = pa.schema(
    [
        *[
            pa.field(name, pa.string())
            for name in (
                "dialogue_id",
                "conversation_id",
                "system",
                "split",
                "subset",
                "scorer",
                "version",
                "fingerprint",
                "status",
                "code",
                "message",
            )
        ],
        pa.field("metrics", pa.map_(pa.string(), pa.float64())),
        pa.field("details", pa.string()),
    ]
)
_NAME = re.compile(r"(?P<shard>.+)\.(?P<first>\d{6,})-(?P<end>\d{6,})\.(?P<fingerprint>[0-9a-f]{16})\.parquet")
READERS = 8


class Rows(NamedTuple):
    """Rows [first, end) of a shard."""

    first: int
    end: int


class ScoreFile(NamedTuple):
    """What a score file's name says."""

    shard: str
    rows: Rows
    fingerprint: str

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{self.shard}.{self.rows.first:06d}-{self.rows.end:06d}.{self.fingerprint}.parquet"

    @classmethod
    def parse(cls, name: str) -> ScoreFile | None:
        """The parts of a name, or None where it is not one of ours."""
        found = _NAME.fullmatch(name)
        if not found:
            return None
        return cls(found["shard"], Rows(int(found["first"]), int(found["end"])), found["fingerprint"])


class Ledger:
    """The score files of one run."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def done(self, scorer: str, fingerprint: str) -> dict[str, list[Rows]]:
        """Committed rows of one scorer with that fingerprint, by shard, sorted."""
        rows: dict[str, list[Rows]] = defaultdict(list)
        for file in self._files(scorer):
            if file.fingerprint == fingerprint:
                rows[file.shard].append(file.rows)
        return {shard: sorted(ranges) for shard, ranges in rows.items()}

    def commit(self, shard: str, first: int, scores: Sequence[Score]) -> None:
        """Write rows that follow each other in a shard; all of one scorer."""
        score = scores[0]
        file = ScoreFile(shard, Rows(first, first + len(scores)), score.fingerprint)
        buffer = io.BytesIO()
        pq.write_table(table_of(scores), buffer, compression="zstd")
        self.store.write(f"scores/{score.scorer}/{file.name}", buffer.getvalue())

    def retire(self, scorer: str, fingerprint: str, shards: Iterable[str]) -> None:
        """Keep under ``scores/<scorer>`` only rows of this fingerprint and these shards.

        Others move to ``superseded/<scorer>``, and come back from there when they are wanted again. Where two files
        hold the same rows (two runs wrote at the same time), one is deleted.
        """
        wanted = set(shards)
        for folder, other, keep in (("scores", "superseded", True), ("superseded", "scores", False)):
            for file in self._files(scorer, folder):
                if (file.fingerprint == fingerprint and file.shard in wanted) != keep:
                    self.store.move(f"{folder}/{scorer}/{file.name}", f"{other}/{scorer}/{file.name}")
        ends: dict[str, int] = defaultdict(int)
        for file in sorted(self._files(scorer)):
            if file.rows.first < ends[file.shard]:
                self.store.remove(f"scores/{scorer}/{file.name}")
            else:
                ends[file.shard] = file.rows.end

    def read(self, scorer: str, fingerprint: str, details: bool = False) -> pa.Table:
        """All committed rows of one scorer with that fingerprint, without the details column unless asked for.

        Raises:
            StorageError: a file cannot be read, or holds another number of rows than its name says.
        """
        files = [file for file in self._files(scorer) if file.fingerprint == fingerprint]
        with ThreadPoolExecutor(max_workers=READERS) as pool:
            tables = list(pool.map(lambda file: self._table(scorer, file, details), files))
        if tables:
            return pa.concat_tables(tables)
        return SCHEMA.empty_table() if details else SCHEMA.empty_table().drop_columns("details")

    def details(self, scorer: str, fingerprint: str, places: Sequence[int]) -> list[str | None]:
        """The details column of single rows; only their files are read again.

        Args:
            scorer: its name.
            fingerprint: of the rows.
            places: of the rows in the table that `read` gives.
        """
        files = [file for file in self._files(scorer) if file.fingerprint == fingerprint]
        ends = list(accumulate(file.rows.end - file.rows.first for file in files))
        found = []
        for place in places:
            number = bisect_right(ends, place)
            before = ends[number - 1] if number else 0
            found.append(self._table(scorer, files[number], True)["details"][place - before].as_py())
        return found

    def _table(self, scorer: str, file: ScoreFile, details: bool) -> pa.Table:
        name = f"scores/{scorer}/{file.name}"
        try:
            columns = [column for column in SCHEMA.names if details or column != "details"]
            table = pq.read_table(io.BytesIO(self.store.read(name)), schema=SCHEMA, columns=columns)
        except (pa.ArrowException, FileNotFoundError) as error:
            raise StorageError(f"{self.store.url(name)} cannot be read: {error}; delete it and run again") from error
        if table.num_rows != file.rows.end - file.rows.first:
            raise StorageError(f"{self.store.url(name)} holds {table.num_rows} rows, its name says otherwise")
        return table

    def _files(self, scorer: str, folder: str = "scores") -> list[ScoreFile]:
        names = (name.rpartition("/")[2] for name in self.store.files(f"{folder}/{scorer}"))
        return [file for name in names if (file := ScoreFile.parse(name))]


def table_of(scores: Sequence[Score]) -> pa.Table:
    """Score rows as an Arrow table of `SCHEMA`."""
    plain = (
        "dialogue_id",
        "conversation_id",
        "system",
        "split",
        "subset",
        "scorer",
        "version",
        "fingerprint",
    )
    columns: dict[str, list[object]] = {name: [getattr(score, name) for score in scores] for name in plain}
    columns["status"] = [str(score.status) for score in scores]
    columns["code"] = [score.code for score in scores]
    columns["message"] = [score.message for score in scores]
    columns["metrics"] = [sorted(score.metrics.items()) for score in scores]
    columns["details"] = [
        None if score.details is None else json.dumps(score.details, allow_nan=False) for score in scores
    ]
    return pa.table(columns, schema=SCHEMA)


def missing_rows(total: int, done: Iterable[Rows]) -> list[Rows]:
    """What of [0, total) no committed range covers.

    >>> missing_rows(10, [Rows(2, 4), Rows(4, 7)])
    [Rows(first=0, end=2), Rows(first=7, end=10)]
    """
    gaps = []
    at = 0
    for rows in sorted(done):
        if rows.first > at:
            gaps.append(Rows(at, rows.first))
        at = max(at, rows.end)
    if at < total:
        gaps.append(Rows(at, total))
    return gaps


def todo_by_row(total: int, missing: Mapping[str, Sequence[Rows]]) -> dict[int, tuple[str, ...]]:
    """For each row that any scorer still lacks: which ones, in the given order."""
    table: dict[int, list[str]] = defaultdict(list)
    for scorer, ranges in missing.items():
        for rows in ranges:
            for row in range(rows.first, min(rows.end, total)):
                table[row].append(scorer)
    return {row: tuple(table[row]) for row in sorted(table)}
