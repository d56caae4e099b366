"""What was said and when, from the finished run that recognised it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from spear_ray.errors import PrerequisiteError
from spear_ray.prosody.temporal import Word
from spear_ray.store import Stat, Store

if TYPE_CHECKING:
    import pyarrow as pa

    from spear_ray.ledger import Ledger

SCORER = "transcript"
RECENT_FILES = 4
"""Score files kept in memory: dialogues of a batch lie near each other."""


class Transcript(NamedTuple):
    """What a recogniser heard.

    Args:
        text: all of it.
        words: with their times; None where the recogniser gives none.
    """

    text: str
    words: tuple[Word, ...] | None


class Transcripts:
    """The transcripts of a finished run, read when they are asked for: memory holds dialogue ids and few files."""

    def __init__(self, uri: str, key: str) -> None:
        """Name a run; nothing is read.

        Args:
            uri: `run.uri` of the run: a folder or `s3://`.
            key: of the configuration, for messages.
        """
        self.uri, self.key = uri, key

    @cached_property
    def found(self) -> str | PrerequisiteError:
        """The fingerprint of the transcripts, or why there are none."""
        store = Store(self.uri)
        where = f"{self.key}={self.uri}"
        how = "run the benchmark with scorers=[transcript] first"
        try:
            record = json.loads(store.read("run.json"))
            state, entry = str(record["state"]), record["scorers"].get(SCORER)
        except FileNotFoundError:
            return PrerequisiteError(f"{where}: {store.url('run.json')} does not exist: {how}")
        except (ValueError, KeyError, TypeError, AttributeError):
            return PrerequisiteError(f"{where}: {store.url('run.json')} is no record of a run: {how}")
        if state != "finished":
            return PrerequisiteError(f"{where}: the run has state '{state}': run it again to complete it")
        if not entry or entry.get("status") == "skipped":
            return PrerequisiteError(f"{where}: the run has no transcripts: {how}")
        return str(entry["fingerprint"])

    @property
    def missing(self) -> PrerequisiteError | None:
        """Why there are no transcripts, if there are none."""
        return None if isinstance(self.found, str) else self.found

    @property
    def fingerprint(self) -> str | None:
        """Of the transcripts; None where there are none."""
        return self.found if isinstance(self.found, str) else None

    def of(self, dialogue_ids: Sequence[str]) -> dict[str, Transcript]:
        """The transcripts of some dialogues, by id; those without one are left out.

        Raises:
            PrerequisiteError: there is no such run.
            StorageError: a score file cannot be read.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if isinstance(self.found, PrerequisiteError):
            raise self.found
        wanted = pa.array(dialogue_ids, pa.string())
        places = pc.index_in(wanted, value_set=self._ids).to_pylist()
        known = {name: place for name, place in zip(dialogue_ids, places, strict=True) if place is not None}
        texts = self._ledger.details(SCORER, self.found, list(known.values()))
        parsed = {name: parse_transcript(text) for name, text in zip(known, texts, strict=True)}
        return {name: transcript for name, transcript in parsed.items() if transcript is not None}

    @cached_property
    def _ledger(self) -> Ledger:
        from spear_ray.ledger import Ledger

        return Ledger(_FinishedRun(self.uri))

    @cached_property
    def _ids(self) -> pa.ChunkedArray:
        """Dialogue ids in the order of rows."""
        return self._ledger.read(SCORER, str(self.fingerprint))["dialogue_id"]


def parse_transcript(details: str | None) -> Transcript | None:
    """A transcript from the details of its row; None where the row has none.

    Words count only where each one has its text and its times.
    """
    content = json.loads(details) if details else None
    if not isinstance(content, Mapping) or not isinstance(content.get("text"), str):
        return None
    return Transcript(content["text"], _words(content.get("words")))


def _words(items: Any) -> tuple[Word, ...] | None:
    if not isinstance(items, list) or not all(map(_is_word, items)):
        return None
    return tuple(Word(item[0], float(item[1]), float(item[2])) for item in items)


def _is_word(item: Any) -> bool:
    if not (isinstance(item, list) and len(item) == 3 and isinstance(item[0], str)):
        return False
    start, end = item[1:]
    is_time = all(isinstance(time, int | float) and math.isfinite(time) for time in (start, end))
    return is_time and 0 <= start <= end


class _FinishedRun(Store):
    """The files of a run that no longer changes: listed once, the last few kept, so that a batch reads each once."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._listed: dict[str, dict[str, Stat]] = {}
        self._recent: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def files(self, under: str = "") -> dict[str, Stat]:
        if under not in self._listed:
            self._listed[under] = super().files(under)
        return self._listed[under]

    def read(self, name: str, most: int | None = None) -> bytes:
        with self._lock:
            known = self._recent.get(name)
        data = super().read(name, most) if known is None else known
        with self._lock:
            self._recent[name] = data
            while len(self._recent) > RECENT_FILES:
                self._recent.pop(next(iter(self._recent)))
        return data
