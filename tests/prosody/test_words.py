"""Transcripts of a finished run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spear_ray.dialogue import Score, Status
from spear_ray.errors import PrerequisiteError, StorageError
from spear_ray.ledger import Ledger
from spear_ray.prosody.temporal import Word
from spear_ray.prosody.words import RECENT_FILES, Transcript, Transcripts, parse_transcript
from spear_ray.store import Store
from tests.s3_server import BUCKET

PRINT = "0123456789abcdef"
KEY = "scorer.prosody.words"


def row(name: str, details: dict[str, Any] | None, fingerprint: str = PRINT) -> Score:
    return Score(
        dialogue_id=name, conversation_id="c", system="robot", split="test", subset="improvised", scorer="transcript",
        version="1", fingerprint=fingerprint, status=Status.OK if details else Status.SKIPPED, details=details,
    )  # fmt: skip


def heard(text: str, words: Any = None) -> dict[str, Any]:
    return {"text": text, "words": words, "language": "en", "notes": []}


def finished_run(folder: Path | str, rows: dict[str, list[Score]], state: str = "finished", **entry: str) -> str:
    """A run with those rows by shard."""
    store = Store(str(folder))
    for shard, scores in rows.items():
        Ledger(store).commit(shard, 0, scores)
    record = {"state": state, "scorers": {"transcript": {"fingerprint": PRINT, "status": "ok", **entry}}}
    store.write("run.json", json.dumps(record).encode())
    return str(folder)


@pytest.fixture
def run(tmp_path: Path) -> str:
    timed = [["Hello", 0.1, 0.4], ["there.", 0.5, 0.9]]
    first = [row("a", heard("Hello there.", timed)), row("b", None), row("c", heard("No times."))]
    old = [row("a", heard("Old."), "f" * 16)]
    return finished_run(tmp_path, {"one": first, "two": [row("d", heard("Last."))], "three": old})


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that are read from disk."""
    names: list[str] = []
    read = Store.read
    monkeypatch.setattr(Store, "read", lambda self, name, most=None: names.append(name) or read(self, name, most))
    return names


def test_transcripts_are_found_by_dialogue(run: str) -> None:
    said = Transcripts(run, KEY)
    assert said.missing is None
    assert said.fingerprint == PRINT
    words = (Word("Hello", 0.1, 0.4), Word("there.", 0.5, 0.9))
    assert said.of(["d", "x", "a", "b", "c"]) == {
        "d": Transcript("Last.", None), "a": Transcript("Hello there.", words), "c": Transcript("No times.", None),
    }  # fmt: skip
    assert said.of([]) == {}


def test_a_batch_reads_each_file_once(run: str, reads: list[str]) -> None:
    said = Transcripts(run, KEY)
    said.of(["a", "c", "d"])
    said.of(["a", "c"])
    assert len(reads) == len(set(reads))


def test_only_a_few_files_stay_in_memory(tmp_path: Path) -> None:
    shards = {f"s{number}": [row(f"d{number}", heard(f"{number}"))] for number in range(3 * RECENT_FILES)}
    said = Transcripts(finished_run(tmp_path, shards), KEY)
    assert {name: one.text for name, one in said.of([f"d{n}" for n in range(12)]).items()} == {
        f"d{n}": f"{n}" for n in range(12)
    }
    assert len(said._ledger.store._recent) == RECENT_FILES


def test_nothing_is_read_before_it_is_asked_for(reads: list[str], run: str) -> None:
    said = Transcripts(run, KEY)
    assert reads == []
    assert said.fingerprint == PRINT
    assert reads == ["run.json"]


def test_a_run_that_is_not_there_says_which_and_what_to_do(tmp_path: Path) -> None:
    said = Transcripts(str(tmp_path / "none"), KEY)
    assert said.fingerprint is None
    assert isinstance(said.missing, PrerequisiteError)
    assert f"{KEY}={tmp_path / 'none'}" in str(said.missing)
    assert "scorers=[transcript]" in str(said.missing)
    with pytest.raises(PrerequisiteError):
        said.of(["a"])


def test_an_unfinished_run_or_one_without_transcripts_is_refused(tmp_path: Path) -> None:
    rows = {"one": [row("a", heard("Hello."))]}
    assert "state 'running'" in str(Transcripts(finished_run(tmp_path / "1", rows, "running"), KEY).missing)
    assert "no transcripts" in str(Transcripts(finished_run(tmp_path / "2", rows, status="skipped"), KEY).missing)
    other = Store(str(tmp_path / "3"))
    other.write("run.json", b'{"state": "finished", "scorers": {}}')
    assert "no transcripts" in str(Transcripts(other.uri, KEY).missing)
    other.write("run.json", b"[]")
    assert "no record" in str(Transcripts(other.uri, KEY).missing)


@pytest.mark.cluster
@pytest.mark.usefixtures("s3")
def test_transcripts_are_found_on_s3() -> None:
    run = finished_run(f"s3://{BUCKET}/words", {"one": [row("a", heard("Far away."))]})
    said = Transcripts(run, KEY)
    assert said.fingerprint == PRINT
    assert said.of(["a", "b"]) == {"a": Transcript("Far away.", None)}
    assert Transcripts(f"s3://{BUCKET}/none", KEY).missing is not None


def test_rows_that_vanish_are_an_error_and_not_other_rows(run: str) -> None:
    said = Transcripts(run, KEY)
    said.of([])
    for path in Path(run).glob("scores/transcript/two.*"):
        path.unlink()
    said._ledger.store._recent.clear()
    with pytest.raises(StorageError):
        said.of(["d"])


@pytest.mark.parametrize(
    "words",
    [None, "a", [["a", 0.0]], [["a", None, 1.0]], [["a", 1.0, 0.5]], [["a", -0.1, 0.5]], [[1, 0.0, 0.5]],
     [["a", 0.0, 0.5], ["b", 0.5, None]]],
    ids=str,
)  # fmt: skip
def test_words_without_their_times_are_no_words(words: Any) -> None:
    assert parse_transcript(json.dumps(heard("Text.", words))) == Transcript("Text.", None)


@pytest.mark.parametrize("details", [None, "null", "[]", "{}", '{"text": null}'])
def test_details_without_a_text_are_no_transcript(details: str | None) -> None:
    assert parse_transcript(details) is None
