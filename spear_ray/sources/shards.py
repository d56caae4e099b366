"""Tar shards in WebDataset naming, as `spear-ray pack` writes them: reading streams and never unpacks.

A shard holds, dialogue after dialogue, ``<key>.json`` (SPEARBench's columns, who, checksums), ``<key>.question.<ext>``
and ``<key>.answer.<ext>``. ``index.json`` lists shards (rows, bytes, SHA-256) and in each the parts: byte offsets at
which readers can begin, with the dialogues that follow and the checksums of their metadata, so that nothing is lost
or changed unseen when a tar is damaged.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Container, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue
from spear_ray.errors import (
    AudioMissing,
    AudioTooLarge,
    DataLayoutError,
    FieldMissing,
    PathOutsideData,
    RowError,
    ShardDamaged,
)
from spear_ray.sources.base import Item, Shard, Source, duplicate, leads_out, limited, number
from spear_ray.sources.spearbench import check_times, dialogue_of

INDEX = "index.json"
FORMAT = "spear_ray-shards-1"
PACKED_PROBLEMS = {kind.code: kind for kind in (AudioMissing, AudioTooLarge, FieldMissing, PathOutsideData)}
"""Why a member can be absent."""


class Group(NamedTuple):
    """The members of one dialogue: bytes by extension; a member over the size limit is None."""

    key: str
    members: Mapping[str, bytes | None]


class ShardsSource(Source):
    """See the module."""

    def shards(self) -> list[Shard]:
        """One unit of work for each part of each tar."""
        try:
            index = json.loads(self.store.read(INDEX))
        except FileNotFoundError:
            raise DataLayoutError(f"{self.store.url(INDEX)} does not exist") from None
        except ValueError as error:
            raise DataLayoutError(f"{self.store.url(INDEX)} is not JSON: {error}") from error
        if not isinstance(index, dict) or index.get("format") != FORMAT:
            raise DataLayoutError(f"{self.store.url(INDEX)} is not of the format {FORMAT}")
        sizes = {name: stat.size for name, stat in self.store.files().items()}
        try:
            shards = [shard for entry in index["shards"] for shard in self._parts(entry, sizes.get(entry["name"], 0))]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataLayoutError(
                f"{self.store.url(INDEX)} is damaged ({type(error).__name__}: {error}); pack the data set again"
            ) from error
        if not shards:
            raise DataLayoutError(f"{self.store.url(INDEX)} lists no dialogues that are to be kept")
        return limited(shards, self.data.limit, self._shortened)

    def _parts(self, entry: Mapping[str, Any], size: int) -> Iterator[Shard]:
        if leads_out(entry["name"]):
            raise DataLayoutError(f"{self.store.url(INDEX)}: the shard '{entry['name']}' leads out of the data set")
        if size != entry["bytes"]:
            self.notes.append(f"{entry['name']} has {size} bytes; index.json says {entry['bytes']}")
        for number_, part in enumerate(entry["parts"]):
            items = [Item(*item) for item in part["dialogues"]]
            if not any(self.wants(item.system, item.split, item.subset) for item in items):
                continue
            payload = {
                "name": entry["name"],
                "sha256": entry["sha256"],
                "size": size,
                "offset": part["offset"],
                "number": number_,
                "dialogues": [list(item) for item in items],
                "checksums": list(part["checksums"]),
            }
            yield self._shard(payload)

    def _shard(self, payload: Mapping[str, Any]) -> Shard:
        items = [Item(*item) for item in payload["dialogues"]]
        kept = [index for index, item in enumerate(items) if self.wants(item.system, item.split, item.subset)]
        label = f"{PurePosixPath(payload['name']).stem}-{payload['number']:04d}"
        contents = [[payload["dialogues"][place], payload["checksums"][place]] for place in kept]
        return self.shard(label, len(kept), {**payload, "kept": kept}, contents)

    def _shortened(self, shard: Shard, rows: int) -> Shard:
        payload = shard.payload
        end = payload["kept"][rows - 1] + 1
        cut = {name: payload[name][:end] for name in ("dialogues", "checksums")}
        return self._shard({**payload, **cut})

    def items(self, shard: Shard) -> list[Item]:
        """Who each row is about."""
        payload = shard.payload
        return [Item(*payload["dialogues"][place]) for place in payload["kept"]]

    def read(self, shard: Shard, wanted: Container[int]) -> Iterator[tuple[int, Dialogue]]:
        """One pass over the part; members of rows that are not wanted are passed over without decoding."""
        payload = shard.payload
        row_of = {place: row for row, place in enumerate(payload["kept"])}
        items = [Item(*item) for item in payload["dialogues"]]
        last = max((place for place, row in row_of.items() if row in wanted), default=-1)
        names = {key_of(item): place for place, item in enumerate(items)}
        place = 0
        for group in self._groups(payload["name"], payload["offset"], names):
            found = names[group.key]
            if found < place:
                continue
            for missed in range(place, found):
                if row_of.get(missed, -1) in wanted:
                    yield row_of[missed], self._lost(items[missed], payload)
            place = found + 1
            if row_of.get(found, -1) in wanted:
                where = f"{payload['name']} {group.key}"
                yield row_of[found], self._dialogue(items[found], group, where, payload["checksums"][found])
            if place > last:
                return
        for missed in range(place, last + 1):
            if row_of.get(missed, -1) in wanted:
                yield row_of[missed], self._lost(items[missed], payload)

    def _lost(self, item: Item, payload: Mapping[str, Any]) -> Dialogue:
        return item.unreadable(
            ShardDamaged(f"{payload['name']}: index.json lists {item.dialogue_id}, the tar does not hold all of it")
        )

    def _groups(self, name: str, offset: int, names: Container[str]) -> Iterator[Group]:
        """Complete dialogues of a tar from an offset on; stray members are passed over, a cut ends the stream."""
        try:
            with self.store.open(name, offset) as stream:
                yield from _grouped(_members(stream, self.audio.max_bytes, names))
        except FileNotFoundError:
            return

    def _dialogue(self, item: Item, group: Group, where: str, checksum: str) -> Dialogue:
        try:
            return self._readable(item, group, where, checksum)
        except RowError as error:
            return item.unreadable(type(error)(f"{where}: {error}"))

    def _readable(self, item: Item, group: Group, where: str, checksum: str) -> Dialogue:
        meta = _meta(group, checksum)
        row = meta["row"]
        if meta.get("repeated"):
            return duplicate(item, where)
        question_end_s = number(row, "question_end_time")
        answer_start_s = number(row, "answer_start_time")
        context_end_s = number(row, "context_end_time")
        question, answer = (
            self.decode_bytes(_audio(group, role, meta), role, where) for role in ("question", "answer")
        )
        clip_s = question.samples.shape[1] / SAMPLE_RATE_HZ
        check_times(clip_s, question_end_s, answer_start_s, context_end_s, self.audio.max_seconds)
        times = (question_end_s, answer_start_s, context_end_s)
        return dialogue_of(item, question, answer, row, times=times, data=self.data)


def key_of(item: Item) -> str:
    """The WebDataset key of a dialogue: its id, with the dots of the last part escaped."""
    folder, _, name = item.dialogue_id.rpartition("/")
    escaped = name.replace("%", "%25").replace(".", "%2E")
    return f"{folder}/{escaped}" if folder else escaped


def _members(stream: BinaryIO, most: int, names: Container[str]) -> Iterator[tuple[str, str, bytes | None]]:
    """(key, extension, bytes) of each member of a known key; bytes are None where there are more than `most`."""
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                key, extension = _split(member.name)
                if not member.isfile() or key not in names:
                    continue
                if member.size > most:
                    yield key, extension, None
                    continue
                file = tar.extractfile(member)
                data = file.read() if file else b""
                if len(data) < member.size:
                    return
                yield key, extension, data
    except tarfile.TarError:
        # The tar is cut or damaged here; the reader reports what the index still expects.
        return


def _split(name: str) -> tuple[str, str]:
    folder, _, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    return (f"{folder}/{stem}" if folder else stem), extension


def _grouped(members: Iterator[tuple[str, str, bytes | None]]) -> Iterator[Group]:
    """Dialogues whose members are all there: metadata first, then what it announces."""
    key, parts = "", dict[str, bytes | None]()
    for name, extension, data in members:
        if name != key:
            key, parts = name, {}
        parts[extension] = data
        if _complete(parts):
            yield Group(key, parts)
            key, parts = "", {}


def _complete(parts: Mapping[str, bytes | None]) -> bool:
    meta = parts.get("json")
    if meta is None:
        return False
    try:
        return all(member in parts for member in json.loads(meta)["members"])
    except (ValueError, KeyError, TypeError):
        return True


def checksum_of(meta: bytes) -> str:
    """What the index keeps of a dialogue's .json member."""
    return hashlib.sha256(meta).hexdigest()[:32]


def _meta(group: Group, checksum: str) -> dict[str, Any]:
    text = group.members["json"] or b""
    if checksum_of(text) != checksum:
        raise ShardDamaged("its .json member does not match the checksum in the index")
    return dict(json.loads(text))


def _audio(group: Group, role: str, meta: Mapping[str, Any]) -> bytes:
    name = next((member for member in meta["members"] if member.split(".")[0] == role), None)
    if name is None:
        code, message = meta["problems"][role]
        raise PACKED_PROBLEMS[code](f"{role} {message}")
    data = group.members[name]
    if data is None:
        raise AudioTooLarge(f"{role}: more bytes than audio.max_bytes")
    if hashlib.sha256(data).hexdigest() != meta["members"][name]:
        raise ShardDamaged(f"{role}: the bytes do not match their checksum")
    return data
