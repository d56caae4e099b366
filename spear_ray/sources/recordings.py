"""A plain folder of two-channel files with a small CSV, for people with ordinary recordings.

Columns: id, file, question_end_s; optional answer_start_s (seconds relative to question_end_s, negative when the
answer starts early; blank or absent where it is not known), context_end_s, system, conversation_id, split, subset,
question_text, answer_text. Channel 0 asks and channel 1 answers unless `data.asking_channel` says otherwise.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any, ClassVar

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue
from spear_ray.errors import (
    AudioChannels,
    DataLayoutError,
    FieldMissing,
    PathOutsideData,
    RowError,
    TimeOutOfRange,
)
from spear_ray.sources.base import (
    Item,
    Shard,
    Source,
    duplicate,
    in_advance,
    leads_out,
    limited,
    number,
    optional_number,
    roles_of,
    two_channels,
    unique_ids,
)
from spear_ray.sources.tables import Row, read_csv
from spear_ray.store import Stat

REQUIRED = ("id", "file", "question_end_s")
UNNAMED = "recordings"
"""System, split and subset of rows that do not say."""


class RecordingsSource(Source):
    """See the module."""

    required: ClassVar[tuple[str, ...]] = REQUIRED
    file_columns: ClassVar[tuple[str, ...]] = ("file",)

    def __init__(self, *args: Any, table: str) -> None:
        super().__init__(*args)
        self.table = table

    def shards(self) -> list[Shard]:
        """One shard for each `data.rows_per_shard` rows."""
        rows, notes = read_csv(self.store, self.table, self.required)
        self.notes += notes
        files = self.store.files()
        entries = [entry for entry in self._entries(rows, files) if self.wants(*entry["item"][2:])]
        if not entries:
            raise DataLayoutError(f"{self.store.url(self.table)} has no rows that are to be kept")
        step = self.data.rows_per_shard
        shards = [self._shard(begin, entries[begin : begin + step]) for begin in range(0, len(entries), step)]
        return limited(shards, self.data.limit, self._shortened)

    def _entries(self, rows: list[Row], files: Mapping[str, Stat]) -> Iterator[dict[str, Any]]:
        for index, (row, (name, repeated)) in enumerate(
            zip(rows, unique_ids([id_of(row, index) for index, row in enumerate(rows)]), strict=True)
        ):
            system, split, subset = (text_of(row, key) or UNNAMED for key in ("system", "split", "subset"))
            item = Item(name, text_of(row, "conversation_id") or name, system, split, subset)
            stats = [files.get(str(PurePosixPath(text_of(row, key))), Stat(0, "")) for key in self.file_columns]
            yield {
                "item": list(item),
                "row": row,
                "bytes": sum(stat.size for stat in stats),
                "tag": " ".join(stat.tag for stat in stats),
                "repeated": repeated,
                "where": f"{self.table} row {index + 2}",
            }

    def _shard(self, begin: int, entries: list[dict[str, Any]]) -> Shard:
        label = f"{PurePosixPath(self.table).stem}-{begin:06d}"
        slim = [{key: value for key, value in entry.items() if key != "tag"} for entry in entries]
        return self.shard(label, len(entries), {"begin": begin, "entries": entries}, slim)

    def _shortened(self, shard: Shard, rows: int) -> Shard:
        payload = shard.payload
        return self._shard(payload["begin"], payload["entries"][:rows])

    def items(self, shard: Shard) -> list[Item]:
        """Who each row is about."""
        return [Item(*entry["item"]) for entry in shard.payload["entries"]]

    def read(self, shard: Shard, wanted: Container[int]) -> Iterator[tuple[int, Dialogue]]:
        """Fetches and decodes the next files while earlier ones are scored."""
        entries = shard.payload["entries"]
        rows = [(index, entries[index]["bytes"]) for index in range(shard.rows) if index in wanted]
        yield from in_advance(rows, lambda index: self._dialogue(entries[index]))

    def _dialogue(self, entry: Mapping[str, Any]) -> Dialogue:
        item = Item(*entry["item"])
        if entry["repeated"]:
            return duplicate(item, entry["where"])
        try:
            return self.recording(item, entry["row"])
        except RowError as error:
            return item.unreadable(type(error)(f"{entry['where']}: {error}"))

    def recording(self, item: Item, row: Row) -> Dialogue:
        """The dialogue of one row of the table.

        Raises:
            RowError: the file or a field cannot be used.
        """
        question_end_s = number(row, "question_end_s")
        answer_start_s = optional_number(row, "answer_start_s")
        context_end_s = optional_number(row, "context_end_s") or 0.0
        name = self.named_file(row, "file")
        decoded = self.decode(name, "recording")
        if decoded.samples.shape[0] != 2:
            raise AudioChannels(f"{name} has one channel; a recording needs one channel for each side")
        check_recording_times(decoded.samples.shape[1] / SAMPLE_RATE_HZ, question_end_s, answer_start_s, context_end_s)
        asking = 0 if self.data.asking_channel == "auto" else int(self.data.asking_channel)
        return Dialogue(
            **item._asdict(),
            clip=two_channels(decoded.samples, asking),
            question_end_s=question_end_s,
            context_end_s=context_end_s,
            answer_start_s=answer_start_s,
            answer_channels="own",
            question_text=text_of(row, "question_text") or None,
            answer_text=text_of(row, "answer_text") or None,
            roles=roles_of(row),
            facts={"recording": asdict(decoded.facts)},
        )

    def named_file(self, row: Row, key: str) -> str:
        """The path below the data set that a column names.

        Raises:
            RowError: blank, or it leads out of the data set.
        """
        name = text_of(row, key)
        if not name:
            raise FieldMissing(f"{key} is blank")
        if leads_out(name):
            raise PathOutsideData(f"{key}='{name}' leads out of the data set")
        return str(PurePosixPath(name))


def check_recording_times(
    seconds: float, question_end_s: float, answer_start_s: float | None, context_end_s: float
) -> None:
    """Times must lie on the recording.

    Raises:
        TimeOutOfRange: one does not.
    """
    if not 0 < question_end_s <= seconds:
        raise TimeOutOfRange(f"question_end_s={question_end_s} lies outside the recording of {seconds:.3f} s")
    if not 0 <= context_end_s <= question_end_s:
        raise TimeOutOfRange(f"context_end_s={context_end_s} lies outside 0 to question_end_s")
    if answer_start_s is not None and not 0 <= question_end_s + answer_start_s <= seconds:
        raise TimeOutOfRange(
            f"answer_start_s={answer_start_s} (relative to question_end_s={question_end_s}) lies outside the"
            f" recording of {seconds:.3f} s"
        )


def id_of(row: Row, index: int) -> str:
    """A row's id; of its place where it has none."""
    return text_of(row, "id") or f"row-{index}"


def text_of(row: Row, key: str) -> str:
    """A cell without outer blanks; nothing where it is absent."""
    return (row.get(key) or "").strip()
