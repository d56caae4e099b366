"""What a source is: it lists shards (cheaply, on the driver) and reads their dialogues (on workers)."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spear_ray.audio import Decoded, decode
from spear_ray.config import AudioConfig, DataConfig
from spear_ray.dialogue import Dialogue, Problem, Samples
from spear_ray.errors import AudioError, AudioMissing, DuplicateId, FieldInvalid, FieldMissing, RowError
from spear_ray.store import Store

READER_VERSION = 1
"""Part of every shard's identity: raise it when a change in reading can change a score."""

ROLES = (
    "speakers",
    "finish_reason",
    "high_level_context",
    "participant_a_prompt_text",
    "participant_b_prompt_text",
    "prompt_a",
    "prompt_b",
    "speaker_a_role",
    "speaker_b_role",
    "relationship",
    "relationship_detail",
    "interaction_type",
    "target_role",
    "target_category",
)
"""Columns that are kept as they are where the metadata has them: who speaks, what they were told, who they are to each
other, what the answering speaker acts. SPEARBench's published metadata has the first two; the others are those of
Seamless and TRACE, and of SPEARBench's stances."""

READ_AHEAD_ROWS = 4
READ_AHEAD_BYTES = 32 << 20
"""Compressed bytes that one reader may have under way beyond the row in use."""

T = TypeVar("T")


class Item(NamedTuple):
    """Who a row is about; known without reading audio."""

    dialogue_id: str
    conversation_id: str
    system: str
    split: str
    subset: str

    def unreadable(self, error: RowError) -> Dialogue:
        """A dialogue without audio that says why."""
        return Dialogue(**self._asdict(), problem=Problem.of(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """A unit of work: rows that one reader streams.

    Args:
        shard_id: safe as a file name; holds a hash of all that its dialogues depend on, so that changed data is
            another shard.
        content: 16 hex digits for each row, of its metadata and sizes: the same wherever the data lies.
        rows: number of dialogues.
        packed: the payload, compressed: a driver holds many shards, and looks into few.
    """

    shard_id: str
    content: str
    rows: int
    packed: bytes

    @property
    def payload(self) -> dict[str, Any]:
        """What the source needs to read the shard; unpacked at each call."""
        payload: dict[str, Any] = json.loads(zlib.decompress(self.packed))
        return payload


class Source(ABC):
    """Dialogues of one data set. Picklable: readers on workers get a copy."""

    def __init__(self, data: DataConfig, audio: AudioConfig, store: Store) -> None:
        self.data = data
        self.audio = audio
        self.store = store
        self.notes: list[str] = []

    @abstractmethod
    def shards(self) -> list[Shard]:
        """All shards, in a stable order; reads metadata and listings, never audio.

        Raises:
            DataLayoutError: the data set is not what it should be.
            StorageError: the store failed.
        """

    @abstractmethod
    def items(self, shard: Shard) -> list[Item]:
        """Who each row of a shard is about, without reading audio."""

    @abstractmethod
    def read(self, shard: Shard, wanted: Container[int]) -> Iterator[tuple[int, Dialogue]]:
        """The wanted rows of a shard as (row number, dialogue), in order.

        A row that cannot be read becomes a dialogue with a `problem`; none is left out.
        """

    def wants(self, system: str, split: str, subset: str) -> bool:
        """Whether the configuration keeps these rows."""
        chosen = ((self.data.systems, system), (self.data.splits, split), (self.data.subsets, subset))
        return all(not allowed or value in allowed for allowed, value in chosen)

    def decode(self, name: str, what: str) -> Decoded:
        """Fetch and decode one file.

        Raises:
            AudioError: it is missing or cannot be used; the message names file and role.
        """
        try:
            return self.decode_bytes(self.store.read(name, self.audio.max_bytes), what, name)
        except FileNotFoundError:
            raise AudioMissing(f"{what} {name}: there is no such file in {self.store.url()}") from None

    def decode_bytes(self, data: bytes, what: str, name: str) -> Decoded:
        """Decode bytes at hand; errors name file and role."""
        try:
            return decode(data, self.audio)
        except AudioError as error:
            raise type(error)(f"{what} {name}: {error}") from error

    def shard(self, label: str, rows: int, payload: Mapping[str, Any], contents: Sequence[Any]) -> Shard:
        """A shard whose id holds a hash of its payload and of the reading options.

        Args:
            label: for people; the id begins with it.
            rows: number of dialogues.
            payload: metadata of the rows with sizes and tags of their files; JSON types only.
            contents: what of it says the same in every copy of the data, row by row.
        """
        options = {
            "reader": READER_VERSION,
            "audio": asdict(self.audio),
            "answer_channels": self.data.answer_channels,
            "asking_channel": self.data.asking_channel,
        }
        return Shard(
            shard_id=f"{slug(label)}-{digest_of([payload, options])[:12]}",
            content="".join(digest_of(content)[:16] for content in contents),
            rows=rows,
            packed=zlib.compress(json.dumps(payload).encode()),
        )


def digest_of(value: Any) -> str:
    """Hex SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def slug(text: str) -> str:
    """ASCII letters, digits, `-` and `_` only, at most 80 characters: safe as a file name on disk and S3."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text)[:80].strip("-") or "shard"


def unique_ids(ids: Sequence[str]) -> list[tuple[str, bool]]:
    """Ids made unique: a second `a` becomes `a#2`; with each, whether it repeats an earlier one."""
    used = set(ids)
    seen: set[str] = set()
    out = []
    for name in ids:
        if name not in seen:
            seen.add(name)
            out.append((name, False))
            continue
        fresh = next(f"{name}#{n}" for n in count(2) if f"{name}#{n}" not in used)
        used.add(fresh)
        out.append((fresh, True))
    return out


def duplicate(item: Item, where: str) -> Dialogue:
    """What a later use of an id becomes."""
    original = item.dialogue_id.rpartition("#")[0]
    return item.unreadable(DuplicateId(f"{where}: the id {original} was already used by an earlier row"))


def roles_of(row: Mapping[str, str | None]) -> dict[str, str]:
    """What the metadata says of the speakers, by the names of `ROLES`; blanks are left out."""
    return {key: value for key in ROLES if (value := (row.get(key) or "").strip())}


def number(row: Mapping[str, str | None], field: str) -> float:
    """A time field in seconds.

    Raises:
        FieldMissing: blank.
        FieldInvalid: not a finite number.
    """
    text = (row.get(field) or "").strip()
    if not text:
        raise FieldMissing(f"{field} is blank")
    try:
        value = float(text)
    except ValueError:
        raise FieldInvalid(f"{field}='{text}' is not a number") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise FieldInvalid(f"{field}='{text}' is not a finite number")
    return value


def optional_number(row: Mapping[str, str | None], field: str) -> float | None:
    """A time field that may be blank."""
    return number(row, field) if (row.get(field) or "").strip() else None


def leads_out(name: str) -> bool:
    """Whether a name of a file would leave the data set.

    >>> [leads_out(name) for name in ("audios/a b.wav", "../a.wav", "/etc/passwd", "s3://other/a.wav")]
    [False, True, True, True]
    """
    return name.startswith(("/", "~")) or ".." in PurePosixPath(name).parts or "://" in name


def two_channels(samples: Samples, asking: int) -> Samples:
    """A clip with the asking side first; float32 [2, samples]."""
    return samples if asking == 0 else np.ascontiguousarray(samples[::-1])


def limited(shards: Sequence[Shard], most: int, shorten: Any) -> list[Shard]:
    """The first shards with at most `most` rows in all; the last one shortened by `shorten(shard, rows)`."""
    if not most:
        return list(shards)
    kept: list[Shard] = []
    for shard in shards:
        if most <= 0:
            break
        kept.append(shard if shard.rows <= most else shorten(shard, most))
        most -= shard.rows
    return kept


def in_advance(rows: Sequence[tuple[int, int]], load: Callable[[int], T]) -> Iterator[tuple[int, T]]:
    """Load rows on threads ahead of their use, in order.

    Args:
        rows: (row number, bytes to fetch) in the order wanted.
        load: makes one row.
    """
    with ThreadPoolExecutor(max_workers=READ_AHEAD_ROWS) as pool:
        waiting: deque[tuple[int, int, Future[T]]] = deque()
        for index, size in rows:
            while waiting and (
                len(waiting) >= READ_AHEAD_ROWS or sum(row[1] for row in waiting) + size > READ_AHEAD_BYTES
            ):
                yield _first(waiting)
            waiting.append((index, size, pool.submit(load, index)))
        while waiting:
            yield _first(waiting)


def _first(waiting: deque[tuple[int, int, Future[T]]]) -> tuple[int, T]:
    index, _, future = waiting.popleft()
    return index, future.result()
