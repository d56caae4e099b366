"""A store that cannot be used ends the run within seconds and in one line; odd names on S3 are only names."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import s3fs
from bad_rows import CASES, codes, packed, read_all, source_of
from datasets import Row, answer_bytes, recordings, spearbench, speech, two_channels, write_audio
from proxies import CountingProxy
from s3_server import BUCKET, S3Server, free_port

from spear_ray.errors import AudioTooLarge
from spear_ray.store import Store

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_SECONDS = 30
ODD_NAME = "Größe & Maß/質問 #1 [a] * %20+?.bin"
WRONG_KEY = "key0123456789wrong"
WRONG_SECRET = "secret0123456789wrong"
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Attempt:
    """A run that cannot reach its store.

    Args:
        word: the configuration word that names the store.
        reason: part of the message.
        environment: variables that differ from the right ones; None unsets one.
    """

    word: str
    reason: str
    environment: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        return self.word.partition("=")[2]


SILENT = "silent"
CLOSED = "closed"
KEY, SECRET, ENDPOINT = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"
ATTEMPTS = {
    f"{what} for {side}": Attempt(f"{side}.uri=s3://{bucket}/some/folder", reason, environment)
    for what, bucket, reason, environment in (
        ("silent endpoint", BUCKET, "no answer within", {ENDPOINT: SILENT}),
        ("nothing listening", BUCKET, "connect", {ENDPOINT: CLOSED}),
        ("wrong bucket", "nobodys-bucket", "there is no bucket 'nobodys-bucket'", {}),
        ("wrong key", BUCKET, "access key", {KEY: WRONG_KEY}),
        ("wrong secret", BUCKET, "signature", {SECRET: WRONG_SECRET}),
        ("no keys", BUCKET, f"set {KEY} and {SECRET}", {KEY: None, SECRET: None}),
    )
    for side in ("data", "run")
}


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended."""

    exit_code: int
    output: str
    errors: str
    seconds: float


@contextmanager
def silent_endpoint() -> Iterator[str]:
    """Accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def attempted(attempt: Attempt, endpoints: Mapping[str, str], home: Path) -> Outcome:
    environment = {**os.environ, "HOME": str(home)}
    for name, value in attempt.environment.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = endpoints.get(value, value)
    words = [f"run.uri={home}/run", attempt.word] if attempt.word.startswith("data") else [attempt.word]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "spear_ray.cli", "bench", *words],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE_SECONDS,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - begun)


@pytest.fixture(scope="module")
def outcomes(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All attempts, some at a time; those that wait for the silent endpoint come first."""
    home = tmp_path_factory.mktemp("home")
    with silent_endpoint() as silent, ThreadPoolExecutor(max_workers=4) as pool:
        endpoints = {SILENT: silent, CLOSED: f"http://127.0.0.1:{free_port()}"}
        ends = {name: pool.submit(attempted, attempt, endpoints, home) for name, attempt in ATTEMPTS.items()}
        return {name: end.result() for name, end in ends.items()}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_store_that_cannot_be_used_ends_with_exit_code_3_and_one_line(outcomes, s3, name):
    attempt, outcome = ATTEMPTS[name], outcomes[name]
    assert outcome.exit_code == 3, outcome.errors
    (line,) = outcome.errors.splitlines()
    assert line.startswith("spear-ray: storage_failed: ")
    assert attempt.uri in line
    assert attempt.reason in line
    assert not outcome.output


@pytest.mark.parametrize("name", ATTEMPTS)
def test_store_that_cannot_be_used_is_noticed_within_half_a_minute(outcomes, name):
    assert outcomes[name].seconds < PATIENCE_SECONDS


@pytest.mark.parametrize("name", ATTEMPTS)
def test_no_key_is_shown(outcomes, s3, name):
    shown = outcomes[name].output + outcomes[name].errors
    for secret in (s3.key, s3.secret, WRONG_KEY, WRONG_SECRET):
        assert secret not in shown


def store_of(s3: S3Server, name: str) -> Store:
    return Store(f"s3://{BUCKET}/{name}")


def uploaded(folder: Path, store: Store) -> str:
    for path in folder.rglob("*"):
        if path.is_file():
            store.write(path.relative_to(folder).as_posix(), path.read_bytes())
    return store.uri


def test_file_with_an_odd_name_is_written_listed_read_moved_and_removed(s3):
    store = store_of(s3, "Ablage für alles")
    store.write(ODD_NAME, b"hello")
    assert [(name, stat.size) for name, stat in store.files().items()] == [(ODD_NAME, 5)]
    assert store.folders() == ["Größe & Maß"]
    assert store.exists(ODD_NAME)
    assert store.read(ODD_NAME) == store.read(ODD_NAME, most=5) == b"hello"
    with store.open(ODD_NAME, offset=2) as file:
        assert file.read() == b"llo"
    store.move(ODD_NAME, f"neu/{ODD_NAME}")
    assert list(store.files()) == [f"neu/{ODD_NAME}"]
    store.remove(f"neu/{ODD_NAME}")
    assert store.files() == {}


def test_object_without_bytes_is_read_as_such(s3):
    store = store_of(s3, "empty")
    store.write("empty.wav", b"")
    assert store.read("empty.wav") == store.read("empty.wav", most=100) == b""


@pytest.mark.parametrize("name", ["nowhere.wav", "some", "", "n" * 2000, "a\0b"])
def test_name_that_no_object_has_is_not_found(s3, name):
    store = store_of(s3, "names")
    store.write("some/file", b"x")
    with pytest.raises(FileNotFoundError):
        store.read(name, most=100)


def test_bad_rows_get_the_same_codes_from_s3_from_a_folder_and_from_tars_on_s3(s3, tmp_path):
    folder = spearbench(tmp_path, *(case.row for case in CASES))
    expected = codes(read_all(source_of(folder)))
    uri = uploaded(folder, store_of(s3, "schlechte Daten"))
    assert codes(read_all(source_of(uri))) == expected
    tars = packed(uri, f"s3://{BUCKET}/gepackte Daten")
    assert codes(read_all(source_of(tars))) == expected


def test_odd_names_on_s3_give_the_dialogues_of_the_folder(s3, tmp_path):
    rows = [Row("Frage 1 & mehr", answer=answer_bytes(1)), Row("質問 #2 %20+", answer=answer_bytes(2))]
    folder = spearbench(tmp_path / "data", *rows, system="Süß & gut 1.0", subset="höflich")
    local = read_all(source_of(folder))
    remote = read_all(source_of(uploaded(folder, store_of(s3, "Daten für Jürgen"))))
    assert set(remote) == set(local) == {f"Süß & gut 1.0/test/höflich/{row.name}" for row in rows}
    for name, dialogue in local.items():
        assert dialogue.problem is None
        np.testing.assert_array_equal(remote[name].audio, dialogue.audio)


def test_recordings_with_odd_names_are_read_from_s3(s3, tmp_path):
    write_audio(tmp_path / "Ordner 1/Gespräch #1.wav", two_channels())
    end_s = speech().fields["question_end_time"]
    recordings(
        tmp_path,
        {"id": "a", "file": "Ordner 1/Gespräch #1.wav", "question_end_s": end_s},
        {"id": "b", "file": "./Ordner 1//Gespräch #1.wav", "question_end_s": end_s},
        {"id": "c", "file": "Ordner 1", "question_end_s": end_s},
    )
    uri = uploaded(tmp_path, store_of(s3, "recordings"))
    assert codes(read_all(source_of(uri))) == {"a": None, "b": None, "c": "audio_missing"}


def test_tar_that_is_cut_or_missing_on_s3_loses_no_row(s3, tmp_path):
    rows = [Row(f"row{number}", answer=answer_bytes(number)) for number in range(4)]
    uri = packed(spearbench(tmp_path, *rows), f"s3://{BUCKET}/cut")
    store = Store(str(uri))
    (name,) = [name for name in store.files() if name.endswith(".tar")]
    whole = store.read(name)
    store.write(name, whole[: len(whole) // 2])
    found = list(codes(read_all(source_of(uri))).values())
    assert found[0] is None
    assert found[-1] == "shard_damaged"
    store.remove(name)
    assert list(codes(read_all(source_of(uri))).values()) == ["shard_damaged"] * 4


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingProxy]:
    proxy = CountingProxy(s3.port)
    monkeypatch.setenv(ENDPOINT, proxy.endpoint)
    s3fs.S3FileSystem.clear_instance_cache()
    yield proxy
    s3fs.S3FileSystem.clear_instance_cache()
    proxy.close()


def test_object_beyond_max_bytes_is_not_fetched(s3, proxy):
    store = store_of(s3, "large")
    store.write("large.wav", bytes(8 * MEBIBYTE))
    before = proxy.received
    with pytest.raises(AudioTooLarge, match=r"audio\.max_bytes"):
        store.read("large.wav", most=1000)
    assert 1000 < proxy.received - before < 10_000
    assert len(store.read("large.wav", most=8 * MEBIBYTE)) == 8 * MEBIBYTE
    assert proxy.received - before > 8 * MEBIBYTE
