"""SPEARBench folders to tar shards of bounded size, losslessly."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final

from spear_ray.audio import as_flac
from spear_ray.config import BenchConfig
from spear_ray.errors import AudioMissing, ConfigError, DataLayoutError, RowError
from spear_ray.sources import Item, open_source
from spear_ray.sources.base import in_advance
from spear_ray.sources.shards import FORMAT, INDEX, checksum_of, key_of
from spear_ray.sources.spearbench import SpearBenchSource
from spear_ray.store import Store

PART_ROWS = 32
"""Dialogues between two offsets at which readers can begin."""
TAR_FORMAT: Final = tarfile.PAX_FORMAT
TAR_END_BYTES = 2 * tarfile.BLOCKSIZE + tarfile.RECORDSIZE
"""A tar ends with two empty blocks and is filled up to whole records: at most so many bytes."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What was written."""

    rows: int
    shards: int
    bytes: int
    index: str
    notes: tuple[str, ...]


@dataclass
class Sample:
    """One dialogue on its way into a tar: member bytes by extension."""

    item: Item
    members: dict[str, bytes]

    @property
    def infos(self) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
        """The members as they stand in a tar."""
        for extension, data in self.members.items():
            info = tarfile.TarInfo(f"{key_of(self.item)}.{extension}")
            info.size = len(data)
            yield info, data

    @property
    def bytes(self) -> int:
        """Size in a tar: headers (which grow with long and foreign names) and padding included."""
        blocks = tarfile.BLOCKSIZE
        return sum(len(info.tobuf(TAR_FORMAT)) + -(-len(data) // blocks) * blocks for info, data in self.infos)


@dataclass
class _Open:
    """A tar being written."""

    file: BinaryIO
    tar: tarfile.TarFile
    rows: int = 0
    parts: list[dict[str, Any]] = field(default_factory=list)


def pack(config: BenchConfig) -> Packed:
    """Write `shard-000000.tar`, ... and, last, `index.json` to `pack.uri`.

    PCM audio is stored as FLAC at its own rate and depth, other audio as it is. What cannot be read is packed as
    it is, so that scoring the shards gives the rows that scoring the folder gives.

    Raises:
        ConfigError: `pack.uri` is not set.
        DataLayoutError: the data set is not in SPEARBench's layout, or an item is larger than a shard.
        StorageError: the store failed.
    """
    if not config.pack.uri:
        raise ConfigError("pack.uri is not set: where should the shards go?")
    source = open_source(config)
    if not isinstance(source, SpearBenchSource):
        raise DataLayoutError(f"{config.data.uri} is not in SPEARBench's layout; only that is packed")
    store = Store(config.pack.uri)
    store.check()
    entries: list[dict[str, Any]] = []
    for samples in _shards(_samples(source), config.pack.shard_bytes):
        entries.append(_write(store, f"shard-{len(entries):06d}.tar", samples))
    total = sum(entry["bytes"] for entry in entries)
    rows = sum(entry["rows"] for entry in entries)
    index = {"format": FORMAT, "rows": rows, "bytes": total, "shards": entries}
    store.write(INDEX, (json.dumps(index, indent=1) + "\n").encode())
    return Packed(rows, len(entries), total, store.url(INDEX), tuple(source.notes))


def _samples(source: SpearBenchSource) -> Iterator[Sample]:
    for shard in source.shards():
        entries = shard.payload["entries"]
        rows = [(index, sum(entry["bytes"])) for index, entry in enumerate(entries)]

        def load(index: int, entries: list[dict[str, Any]] = entries) -> Sample:
            return _sample(source, entries[index])

        yield from (sample for _, sample in in_advance(rows, load))


def _sample(source: SpearBenchSource, entry: Mapping[str, Any]) -> Sample:
    members: dict[str, bytes] = {}
    problems: dict[str, list[str]] = {}
    for role, name in (("question", entry["question"]), ("answer", entry["answer"])):
        try:
            data = source.store.read(source.named(entry, role), source.audio.max_bytes)
        except FileNotFoundError:
            problems[role] = [AudioMissing.code, f"{name}: there was no such file when packed"]
            continue
        except RowError as error:
            problems[role] = [error.code, str(error)]
            continue
        flac = as_flac(data, source.audio)
        extension = "flac" if flac else PurePosixPath(name).suffix.lstrip(".") or "bin"
        members[f"{role}.{extension}"] = flac or data
    meta = {
        "id": entry["item"][0],
        "row": entry["row"],
        "repeated": entry["repeated"],
        "problems": problems,
        "members": {name: hashlib.sha256(data).hexdigest() for name, data in members.items()},
    }
    text = json.dumps(meta, ensure_ascii=False, sort_keys=True).encode()
    return Sample(Item(*entry["item"]), {"json": text, **members})


def _shards(samples: Iterator[Sample], most: int) -> Iterator[Iterator[Sample]]:
    """Groups of samples that each fit into a shard; each group must be used up before the next is taken."""
    ahead = next(samples, None)
    while ahead is not None:
        first = ahead

        def group(first: Sample = first) -> Iterator[Sample]:
            nonlocal ahead
            size = TAR_END_BYTES + first.bytes
            if size > most:
                raise DataLayoutError(f"{first.item.dialogue_id} alone needs {size} bytes; pack.shard_bytes is {most}")
            yield first
            for sample in samples:
                size += sample.bytes
                if size > most:
                    ahead = sample
                    return
                yield sample
            ahead = None

        yield group()


def _write(store: Store, name: str, samples: Iterator[Sample]) -> dict[str, Any]:
    """One tar, built on disk and stored whole; returns its entry in the index."""
    with (
        tempfile.TemporaryFile() as file,
        tarfile.open(fileobj=file, mode="w", format=TAR_FORMAT) as tar,
    ):
        state = _Open(file, tar)
        for sample in samples:
            _add(state, sample)
        tar.close()
        size = file.tell()
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        store.write_stream(name, file)
    return {"name": name, "rows": state.rows, "bytes": size, "sha256": digest, "parts": state.parts}


def _add(state: _Open, sample: Sample) -> None:
    if state.rows % PART_ROWS == 0:
        state.parts.append({"offset": state.tar.offset, "dialogues": [], "checksums": []})
    for info, data in sample.infos:
        state.tar.addfile(info, io.BytesIO(data))
    state.parts[-1]["dialogues"].append(list(sample.item))
    state.parts[-1]["checksums"].append(checksum_of(sample.members["json"]))
    state.rows += 1
