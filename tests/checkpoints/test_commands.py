"""`spear-ray checkpoints` against a real HTTP server, each command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import hub_server
import numpy as np
import pytest
from hub_server import Hub, Repository
from safetensors.numpy import save

from spear_ray.checkpoints.catalogue import CATALOGUE, find

MINI = "sentence-transformers/all-MiniLM-L6-v2"
OTHER = "org/other"
TOKEN = "hf_" + "made" * 6
WEIGHTS = save({"a": np.arange(400_000, dtype=np.float32)})
SECRET = save({"secret": np.ones(2, dtype=np.float32)})
SHARDS = {
    "model-00001-of-00002.safetensors": save({"a": np.ones(3, dtype=np.float32)}),
    "model-00002-of-00002.safetensors": save({"b": np.ones(4, dtype=np.float32)}),
}
INDEX = b'{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}'


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def hub() -> Iterator[Hub]:
    mini = {
        "config.json": b'{"model_type": "bert"}',
        "model.safetensors": WEIGHTS,
        "vocab.txt": b"[PAD]\n",
        "pytorch_model.bin": b"a pickle",
        "modeling.py": b"raise SystemExit",
        "1_Pooling/config.json": b"{}",
        "onnx/model.safetensors": b"another",
        "README.md": b"a card",
    }
    repositories = {
        MINI: Repository(mini),
        OTHER: Repository({"config.json": b"{}", "model.safetensors.index.json": INDEX, **SHARDS}, ("main", "v1/x")),
        "org/pickled": Repository({"config.json": b"{}", "pytorch_model.bin": b"a pickle"}),
        "org/gated": Repository({"config.json": b"{}", "model.safetensors": SECRET}, gated=True),
    }
    with hub_server.running(repositories) as server:
        yield server


@pytest.fixture
def spear(hub: Hub, tmp_path: Path) -> Command:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))}
    ours = {
        "HF_ENDPOINT": hub.endpoint,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_TOKEN": TOKEN,
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "SPEAR_CACHE_DIR": str(tmp_path / "spear"),
        "NO_PROXY": "127.0.0.1,localhost",
    }

    def command(*words: object, **environment: str) -> Ended:
        return python("-m", "spear_ray.cli", "checkpoints", *words, **environment)

    def python(*words: object, **environment: str) -> Ended:
        line = [sys.executable, *(str(word) for word in words)]
        done = subprocess.run(line, capture_output=True, text=True, env={**kept, **ours, **environment}, timeout=120)
        ended = Ended(done.returncode, done.stdout, done.stderr)
        assert TOKEN not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return ended

    command.python = python  # type: ignore[attr-defined]
    return command


def local_copy(spear: Command, uri: str, **environment: str) -> Ended:
    """What a scorer would be told, in a process without network."""
    code = (
        "import sys\nfrom spear_ray.errors import SpearError\nfrom spear_ray.networks.files import local_copy\n"
        f"try: print(local_copy({uri!r}, 'spear-ray checkpoints pull all-MiniLM-L6-v2 (or none)'))\n"
        "except SpearError as error: sys.exit(f'{error.code}: {error}')\n"
    )
    return spear.python("-c", code, HF_ENDPOINT="http://127.0.0.1:1", **environment)  # type: ignore[attr-defined]


def folder(ended: Ended) -> Path:
    """Where a pull or a list said that a checkpoint is."""
    (line,) = [line for line in ended.out.splitlines() if line.startswith("  here: ")]
    return Path(line.removeprefix("  here: "))


def row(ended: Ended, name: str) -> list[str]:
    """A checkpoint's cells in the list."""
    (line,) = [line for line in ended.out.splitlines() if f"│ {name} " in line]
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_pull_fetches_the_listed_files_and_never_a_pickle_or_code(spear, hub):
    ended = spear("pull", "all-MiniLM-L6-v2")
    assert (ended.code, ended.err) == (0, "")
    wanted = {"config.json", "model.safetensors", "vocab.txt"}
    assert hub.fetched == wanted
    assert {str(file.relative_to(folder(ended))) for file in folder(ended).rglob("*") if file.is_file()} == wanted
    assert (folder(ended) / "model.safetensors").read_bytes() == WEIGHTS


def test_the_token_goes_to_the_hub_alone(spear, hub):
    assert spear("pull", "all-MiniLM-L6-v2").code == 0
    store = [with_token for _, path, with_token in hub.requests if path.startswith("/store/")]
    assert store == [False]
    assert any(with_token for _, _, with_token in hub.requests)


def test_pull_says_licence_and_size_first_and_the_commit_to_pin_last(spear, hub):
    lines = spear("pull", "all-MiniLM-L6-v2").out.splitlines()
    commit = hub.repositories[MINI].commit
    assert lines[0] == "all-MiniLM-L6-v2: Apache-2.0, about 91 MB"
    assert f"hf://{MINI}@{commit}" in lines[-1]
    assert f"commit {commit}" in lines[2]


def test_pull_says_what_it_fetches_also_where_it_then_fails(spear):
    ended = spear("pull", "mms-lid-126")
    assert ended.code == 2
    assert "mms-lid-126: CC-BY-NC-4.0, non-commercial, about 3.9 GB" in ended.out


def test_what_was_pulled_is_listed_found_and_whole_without_network(spear, hub):
    before = spear("list", HF_HUB_OFFLINE="1")
    assert row(before, "all-MiniLM-L6-v2")[-1] == "no"
    pulled = folder(spear("pull", "all-MiniLM-L6-v2"))
    asked = len(hub.requests)
    listed = spear("list")
    assert row(listed, "all-MiniLM-L6-v2")[-1] == "yes"
    assert folder(listed) == pulled
    for uri in (f"hf://{MINI}", f"hf://{MINI}@main", f"hf://{MINI}@{hub.repositories[MINI].commit}"):
        assert local_copy(spear, uri) == Ended(0, f"{pulled}\n", "")
    for words in ((), ("all-MiniLM-L6-v2",), (f"hf://{MINI}",), (pulled,)):
        ended = spear("verify", *words)
        assert (ended.code, ended.err) == (0, "")
        assert f"{hub_server._sha256(WEIGHTS)}  model.safetensors" in ended.out
        assert ended.out.endswith(": whole\n")
    assert len(hub.requests) == asked


def test_a_repository_outside_the_catalogue_can_be_pulled_at_a_revision(spear, hub):
    ended = spear("pull", f"hf://{OTHER}@v1/x")
    assert (ended.code, ended.err) == (0, "")
    assert hub.fetched == set(hub.repositories[OTHER].files)
    assert local_copy(spear, f"hf://{OTHER}@v1/x").out == f"{folder(ended)}\n"
    assert spear("verify", f"hf://{OTHER}@v1/x").code == 0
    other = local_copy(spear, f"hf://{OTHER}")
    assert other.err == (
        f"checkpoint_missing: hf://{OTHER} is not on this machine: spear-ray checkpoints pull hf://{OTHER}\n"
    )


def test_what_is_not_here_is_missing_with_the_command_for_just_this_checkpoint(spear, hub):
    said = {
        f"hf://{MINI}": "spear-ray checkpoints pull all-MiniLM-L6-v2 (or none)",
        f"hf://{MINI}@v2": f"spear-ray checkpoints pull hf://{MINI}@v2",
        "hf://openai/whisper-small": "spear-ray checkpoints pull whisper-small",
    }
    for uri, command in said.items():
        ended = local_copy(spear, uri)
        assert (ended.code, ended.err) == (1, f"checkpoint_missing: {uri} is not on this machine: {command}\n")
    assert hub.requests == []


def test_a_truncated_file_is_named_and_can_be_fetched_again(spear):
    pulled = folder(spear("pull", "all-MiniLM-L6-v2"))
    assert spear("verify").code == 0
    blob = (pulled / "model.safetensors").resolve()
    blob.write_bytes(WEIGHTS[:-4])
    ended = spear("verify")
    assert ended.code == 2
    assert "model.safetensors is not a whole safetensors file" in ended.err
    assert f"delete {blob} and fetch it again" in ended.err
    assert len(ended.err.splitlines()) == 1
    blob.unlink()
    assert row(spear("list"), "all-MiniLM-L6-v2")[-1] == "no"
    assert spear("pull", "all-MiniLM-L6-v2").code == 0
    assert spear("verify").code == 0


def test_a_changed_byte_is_found_by_the_hash_that_the_hub_gave(spear):
    blob = (folder(spear("pull", "all-MiniLM-L6-v2")) / "model.safetensors").resolve()
    blob.write_bytes(WEIGHTS[:-1] + bytes([WEIGHTS[-1] ^ 1]))
    ended = spear("verify", "all-MiniLM-L6-v2")
    assert ended.code == 2
    assert f"must have {hub_server._sha256(WEIGHTS)}" in ended.err


def test_a_file_that_is_gone_makes_a_checkpoint_missing(spear):
    pulled = folder(spear("pull", f"hf://{OTHER}"))
    (pulled / "model-00002-of-00002.safetensors").unlink()
    assert local_copy(spear, f"hf://{OTHER}").code == 1
    ended = spear("verify", pulled)
    assert ended.code == 2
    assert f"{pulled} has no model-00002-of-00002.safetensors" in ended.err


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("hf://org/nothing", "prerequisite_missing: hf://org/nothing is not on the hub"),
        ("hf://org/gated", "prerequisite_missing: hf://org/gated is gated: accept its terms"),
        ("hf://org/pickled", "prerequisite_missing: hf://org/pickled has no model.safetensors"),
        (f"hf://{OTHER}@v9", f"prerequisite_missing: {OTHER} has no revision 'v9'"),
    ],
)
def test_what_cannot_be_pulled_is_one_line_that_says_why(spear, hub, uri, said):
    ended = spear("pull", uri)
    assert ended.code == 2
    assert ended.err.startswith(f"spear-ray: {said}")
    assert len(ended.err.splitlines()) == 1
    assert "model.safetensors" not in hub.fetched


def test_without_a_network_pull_says_so_also_where_an_older_copy_is_here(spear, hub):
    assert spear("pull", "all-MiniLM-L6-v2").code == 0
    lost = spear("pull", "all-MiniLM-L6-v2", HF_ENDPOINT="http://user:password@127.0.0.1:1")
    assert lost.code == 3
    assert lost.err == (
        f"spear-ray: storage_failed: hf://{MINI}: the hub cannot be reached (ConnectError); pull again with network\n"
    )
    offline = spear("pull", "all-MiniLM-L6-v2", HF_HUB_OFFLINE="1")
    assert offline.code == 2
    assert "HF_HUB_OFFLINE is set" in offline.err
    hub.broken = True
    broken = spear("pull", "all-MiniLM-L6-v2")
    assert broken.code == 3
    assert "HTTP status 503" in broken.err


def test_a_disk_that_cannot_be_written_is_a_failure_of_the_store(spear, tmp_path):
    (tmp_path / "file").write_text("")
    ended = spear("pull", "all-MiniLM-L6-v2", HF_HOME=str(tmp_path / "file"))
    assert ended.code == 3
    assert "storage_failed" in ended.err


def test_list_marks_what_may_not_be_used_commercially(spear):
    ended = spear("list")
    assert (ended.code, ended.err) == (0, "")
    for one in CATALOGUE:
        name, _, licence, used_by, _ = row(ended, one.name)
        assert (name, used_by) == (one.name, one.used_by)
        assert licence.endswith("non-commercial") != one.commercial


def test_the_released_turnnat_file_is_known_by_its_hash(spear, tmp_path):
    entry = find("turnnat-dualturn-fvad256")
    file = tmp_path / entry.files[0]
    file.write_bytes(b"another model")
    ended = spear("verify", file)
    assert ended.code == 2
    assert f"must have {entry.sha256}" in ended.err


def test_verify_takes_files_and_folders(spear, tmp_path):
    import torch

    torch.save({"a": torch.ones(100)}, tmp_path / "last_model.pt")
    assert spear("verify", tmp_path / "last_model.pt").code == 0
    (tmp_path / "cut.pt").write_bytes((tmp_path / "last_model.pt").read_bytes()[:-30])
    assert "cut.pt is not a whole torch.save file" in spear("verify", tmp_path / "cut.pt").err
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"model_type":')
    ended = spear("verify", model)
    assert ended.code == 2
    assert "config.json is not JSON" in ended.err
    assert f"{model} has no model.safetensors" in ended.err
