"""SPEARBench's folder layout, as published.

``inputs/<split>/<subset>/{metadata.csv,audios/}`` and ``outputs/<system>/<split>/<subset>/{metadata.csv,audio/}``
(``audios/answer_<id>.wav`` for the human system, on disk `original`). One row of an output's metadata.csv is one
dialogue. Paths in a CSV begin with ``data/<protocol>/``; they are resolved by their tail from ``inputs/`` or
``outputs/`` on.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from spear_ray.audio import Decoded
from spear_ray.dialogue import HUMAN, SAMPLE_RATE_HZ, Dialogue, Samples
from spear_ray.errors import (
    AudioMissing,
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
    roles_of,
    two_channels,
    unique_ids,
)
from spear_ray.sources.tables import Row, read_csv
from spear_ray.store import Stat

REQUIRED = (
    "audio_path",
    "answer_audio_path",
    "context_end_time",
    "question_end_time",
    "conversation_id",
    "answer_start_time",
)
SPEAKER_TAG = re.compile(r"(?:^|\s)(P\d+A?):")
PUBLISHED_ID = re.compile(r"_(P\d+A?)_(P\d+A?)_\d+$")
"""Participants 1 and 2, whose channels are 0 and 1 (SPEARBench, bin/prepare_data_from_seamless.py)."""
ABSENT = Stat(0, "")
TIME_TOLERANCE_S = 0.05
"""How far a time may lie behind the end of its clip: metadata is rounded, and some clips lose their last frame."""


class SpearBenchSource(Source):
    """See the module."""

    def shards(self) -> list[Shard]:
        """One shard for each `data.rows_per_shard` rows of each output's metadata.csv."""
        tables = list(self._tables())
        if not tables:
            raise DataLayoutError(
                f"{self.store.url('outputs')} holds no <system>/<split>/<subset>/metadata.csv that"
                " data.systems, data.splits and data.subsets would keep"
            )
        files = {**self.store.files("inputs"), **self.store.files("outputs")}
        shards = [shard for table in tables for shard in self._slices(*table, files)]
        if not shards:
            raise DataLayoutError(f"{self.store.url('outputs')}: none of {len(tables)} metadata.csv has a row")
        return limited(shards, self.data.limit, self._shortened)

    def _tables(self) -> Iterator[tuple[str, str, str, str]]:
        for folder in self.store.folders("outputs"):
            system = HUMAN if folder == "original" else folder
            for split in self.store.folders(f"outputs/{folder}"):
                for subset in self.store.folders(f"outputs/{folder}/{split}"):
                    if self.wants(system, split, subset):
                        yield folder, system, split, subset

    def _slices(self, folder: str, system: str, split: str, subset: str, files: Mapping[str, Stat]) -> Iterator[Shard]:
        name = f"outputs/{folder}/{split}/{subset}/metadata.csv"
        rows, notes = read_csv(self.store, name, REQUIRED)
        self.notes += notes
        names = [f"{system}/{split}/{subset}/{_stem(row, index)}" for index, row in enumerate(rows)]
        entries = []
        for index, (row, (name_, repeated)) in enumerate(zip(rows, unique_ids(names), strict=True)):
            item = Item(name_, (row["conversation_id"] or "").strip() or name_, system, split, subset)
            question = _resolve(row["audio_path"], files, ())
            answer = _resolve(row["answer_audio_path"], files, _guesses(folder, split, subset, row))
            stats = [files.get(side or "", ABSENT) for side in (question, answer)]
            entries.append(
                {
                    "item": list(item),
                    "row": row,
                    "question": question,
                    "answer": answer,
                    "bytes": [stat.size for stat in stats],
                    "tags": [stat.tag for stat in stats],
                    "repeated": repeated,
                    "where": f"{name} row {index + 2}",
                }
            )
        step = self.data.rows_per_shard
        for begin in range(0, len(entries), step):
            yield self._shard(f"{system}-{split}-{subset}-{begin:06d}", entries[begin : begin + step])

    def _shard(self, label: str, entries: list[dict[str, Any]]) -> Shard:
        slim = [{key: value for key, value in entry.items() if key != "tags"} for entry in entries]
        return self.shard(label, len(entries), {"label": label, "entries": entries}, slim)

    def _shortened(self, shard: Shard, rows: int) -> Shard:
        payload = shard.payload
        return self._shard(payload["label"], payload["entries"][:rows])

    def items(self, shard: Shard) -> list[Item]:
        """Who each row is about."""
        return [Item(*entry["item"]) for entry in shard.payload["entries"]]

    def read(self, shard: Shard, wanted: Container[int]) -> Iterator[tuple[int, Dialogue]]:
        """Fetches and decodes the next files while earlier ones are scored."""
        entries = shard.payload["entries"]
        rows = [(index, sum(entries[index]["bytes"])) for index in range(shard.rows) if index in wanted]
        yield from in_advance(rows, lambda index: self._dialogue(entries[index]))

    def _dialogue(self, entry: Mapping[str, Any]) -> Dialogue:
        item = Item(*entry["item"])
        if entry["repeated"]:
            return duplicate(item, entry["where"])
        try:
            return self._readable(item, entry["row"], entry["question"], entry["answer"])
        except RowError as error:
            return item.unreadable(type(error)(f"{entry['where']}: {error}"))

    def named(self, entry: Mapping[str, Any], role: str) -> str:
        """The file of a role, `question` or `answer`.

        Raises:
            AudioMissing, FieldMissing, PathOutsideData: there is none to be read.
        """
        return _named(entry["row"], {"question": "audio_path", "answer": "answer_audio_path"}[role], entry[role])

    def _readable(self, item: Item, row: Row, question_name: str | None, answer_name: str | None) -> Dialogue:
        question_end_s = number(row, "question_end_time")
        answer_start_s = number(row, "answer_start_time")
        context_end_s = number(row, "context_end_time")
        question = self.decode(_named(row, "audio_path", question_name), "question")
        answer = self.decode(_named(row, "answer_audio_path", answer_name), "answer")
        clip_s = question.samples.shape[1] / SAMPLE_RATE_HZ
        check_times(clip_s, question_end_s, answer_start_s, context_end_s, self.audio.max_seconds)
        return dialogue_of(
            item,
            question,
            answer,
            row,
            times=(question_end_s, answer_start_s, context_end_s),
            data=self.data,
        )


def check_times(
    clip_s: float, question_end_s: float, answer_start_s: float, context_end_s: float, most_s: float
) -> None:
    """Times must lie on the clip, the answer's start after its beginning and before `most_s`.

    Raises:
        TimeOutOfRange: the question ends before the clip's beginning or after its end, the context ends after the
            question or before the clip, or the answer starts before the clip or beyond `most_s`.
    """
    if not 0 < question_end_s <= clip_s + TIME_TOLERANCE_S:
        raise TimeOutOfRange(f"question_end_time={question_end_s} s lies outside the clip of {clip_s:.3f} s")
    if not 0 <= context_end_s <= question_end_s:
        raise TimeOutOfRange(f"context_end_time={context_end_s} s lies outside 0 to question_end_time")
    if question_end_s + answer_start_s < 0:
        raise TimeOutOfRange(
            f"answer_start_time={answer_start_s} s puts the answer {-question_end_s - answer_start_s:.3f} s"
            " before the clip begins"
        )
    if question_end_s + answer_start_s > most_s:
        raise TimeOutOfRange(
            f"answer_start_time={answer_start_s} puts the answer beyond {most_s} s (audio.max_seconds);"
            " it is meant in seconds"
        )


def dialogue_of(
    item: Item,
    question: Decoded,
    answer: Decoded,
    row: Mapping[str, str | None],
    times: tuple[float, float, float],
    data: Any,
) -> Dialogue:
    """A dialogue from a decoded question clip, a decoded answer and the row's texts.

    Args:
        item: who.
        question: one or two channels.
        answer: one or two channels; the channel mean is the answer.
        row: SPEARBench's columns.
        times: question_end_s, answer_start_s, context_end_s.
        data: `DataConfig`.
    """
    question_end_s, answer_start_s, context_end_s = times
    clip, notes = question_channels(question.samples, row, (context_end_s, question_end_s), data.asking_channel)
    return Dialogue(
        **item._asdict(),
        clip=clip,
        answer=answer.samples.mean(axis=0, dtype=np.float32),
        question_end_s=question_end_s,
        context_end_s=context_end_s,
        answer_start_s=answer_start_s,
        answer_channels=data.answer_channels,
        question_text=row.get("transcript_question") or None,
        answer_text=row.get("transcript_answer") or None,
        roles=roles_of(row),
        facts={"question": asdict(question.facts), "answer": asdict(answer.facts)},
        notes=notes,
    )


def question_channels(
    samples: Samples, row: Mapping[str, str | None], turn_s: tuple[float, float], wish: str
) -> tuple[Samples, tuple[str, ...]]:
    """The clip with the asking side on channel 0, and notes on how the side was found.

    In order: `data.asking_channel`; the place of transcript_question's last speaker tag among the participants, who
    stand in channel order in the published ids (``…_P0001_P0002_3``), else in `speakers`; the louder channel in the
    question's own turn. Where the side that was found is the quieter one there, a note says so. A mono clip is the
    asking side's, the other side is silent.

    Args:
        samples: float32 [channels, samples] at 16 kHz.
        row: with `audio_path`, `speakers` and `transcript_question` where known.
        turn_s: beginning and end of the question's turn.
        wish: `auto`, `0` or `1`.
    """
    if samples.shape[0] == 1:
        return np.concatenate([samples, np.zeros_like(samples)]), ("question_mono",)
    if wish != "auto":
        return two_channels(samples, int(wish)), ()
    begin, end = (round(second * SAMPLE_RATE_HZ) for second in turn_s)
    energy = np.square(samples[:, begin:end], dtype=np.float64).sum(axis=1)
    louder = int(energy[1] > energy[0])
    tags = SPEAKER_TAG.findall(row.get("transcript_question") or "")
    participants = _participants(row)
    if not tags or tags[-1] not in participants:
        return two_channels(samples, louder), ("asking_channel_by_loudness",)
    asking = participants.index(tags[-1])
    quieter = energy[asking] < energy[1 - asking]
    return two_channels(samples, asking), ("asking_channel_quieter",) if quieter else ()


def _participants(row: Mapping[str, str | None]) -> list[str]:
    """Who is on channel 0 and who on channel 1; empty where it is not known."""
    in_id = PUBLISHED_ID.search(_file_stem(row.get("audio_path")))
    if in_id:
        return list(in_id.groups())
    speakers = [name.strip() for name in (row.get("speakers") or "").split("|")]
    return speakers if len(speakers) == 2 else []


def _file_stem(path: str | None) -> str:
    return PurePosixPath((path or "").strip().replace("\\", "/")).stem


def _stem(row: Row, index: int) -> str:
    return _file_stem(row["audio_path"] or row["answer_audio_path"]).removeprefix("answer_") or f"row-{index}"


def _resolve(path: str | None, files: Mapping[str, Stat], guesses: tuple[str, ...]) -> str | None:
    """The file that a path means, by its tail; the path itself where it does not exist, None where it is blank."""
    text = (path or "").strip().replace("\\", "/")
    if not text:
        return None
    parts = PurePosixPath(text).parts
    begins = [index for index, part in enumerate(parts) if part in ("inputs", "outputs")]
    tail = text if "://" in text and not begins else "/".join(parts[begins[0] :] if begins else parts)
    return next((name for name in (tail, *guesses) if name in files), tail)


def _guesses(folder: str, split: str, subset: str, row: Row) -> tuple[str, ...]:
    """Where the answer lies when the CSV's path is not in the data set."""
    name = PurePosixPath((row["answer_audio_path"] or "").replace("\\", "/")).name
    base = f"outputs/{folder}/{split}/{subset}"
    return (f"{base}/audio/{name}", f"{base}/audios/{name}")


def _named(row: Row, column: str, name: str | None) -> str:
    if name is None:
        if column == "answer_audio_path":
            raise AudioMissing("answer_audio_path is blank: there is no answer file")
        raise FieldMissing(f"{column} is blank")
    if leads_out(name):
        raise PathOutsideData(f"{column}='{row[column]}' leads out of the data set")
    return name
