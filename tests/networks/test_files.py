"""Where checkpoints lie, and their identity."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spear_ray.checkpoints.catalogue import find
from spear_ray.errors import CheckpointMissing, ConfigError
from spear_ray.networks import files
from spear_ray.networks.files import REMEMBERED_BYTES, content_of, identity_of, local_copy, sha256_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PULL = "spear-ray checkpoints pull"


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("SPEAR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sha256"


@pytest.fixture
def large(tmp_path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(REMEMBERED_BYTES))
    return path


@pytest.fixture
def read(monkeypatch) -> list[str]:
    """Names of the files that are read to be hashed."""
    names: list[str] = []

    def counted(path):
        names.append(Path(path).name)
        return sha256_of(path)

    monkeypatch.setattr(files, "sha256_of", counted)
    return names


@pytest.fixture
def hub(tmp_path, monkeypatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def snapshot(hub: Path, name: str, *names: str) -> Path:
    """A repository as the hub's client leaves it."""
    place = hub / f"models--{name.replace('/', '--')}"
    folder = place / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(COMMIT)
    for file in names:
        (folder / file).write_text("{}")
    return folder


# Identity


def test_identity_is_that_of_names_and_contents(cache, tmp_path, large):
    assert identity_of(large) == content_of(large) == sha256_of(large)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.json").write_text("1")
    before = identity_of(tmp_path)
    assert before == content_of(tmp_path)
    (tmp_path / "a" / "x.json").rename(tmp_path / "a" / "y.json")
    assert identity_of(tmp_path) != before


def test_identity_of_named_files_does_not_change_with_others(cache, tmp_path):
    model = tmp_path / "model"
    (model / "onnx").mkdir(parents=True)
    names = ("config.json", "model-*.safetensors")
    (model / "config.json").write_text("{}")
    (model / "model-1.safetensors").write_text("1")
    before = identity_of(model, names)
    (model / "README.md").write_text("a card")
    (model / "onnx" / "config.json").write_text("another")
    assert identity_of(model, names) == before != identity_of(model)
    (model / "model-2.safetensors").write_text("2")
    assert identity_of(model, names) != before


def test_identity_is_the_same_behind_the_links_of_the_hub_cache(cache, tmp_path, large):
    for name in ("plain", "linked"):
        (tmp_path / name).mkdir()
    (tmp_path / "plain" / "model.safetensors").write_bytes(large.read_bytes())
    (tmp_path / "linked" / "model.safetensors").symlink_to(large)
    assert identity_of(tmp_path / "plain") == identity_of(tmp_path / "linked")


def test_a_large_file_is_read_once(cache, large, read):
    assert identity_of(large) == identity_of(large) == sha256_of(large)
    assert read == ["model.safetensors"]


def test_a_large_file_is_read_again_when_it_changed(cache, large, read):
    first = identity_of(large)
    stat = large.stat()
    large.write_bytes(b"1" + bytes(REMEMBERED_BYTES - 1))
    os.utime(large, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    assert identity_of(large) == sha256_of(large) != first
    assert len(read) == 2


def test_a_file_with_size_and_time_of_another_is_not_taken_for_it(cache, large, read):
    first, stat = identity_of(large), large.stat()
    other = large.with_name("other")
    other.write_bytes(b"1" + bytes(REMEMBERED_BYTES - 1))
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(large)
    assert identity_of(large) == sha256_of(large) != first


def test_a_small_file_is_always_read(cache, tmp_path, read):
    path = tmp_path / "config.json"
    path.write_text("{}")
    assert identity_of(path) == identity_of(path)
    assert (read, cache.exists()) == (["config.json"] * 2, False)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"0" * 63, b"x" * 64, b"0" * 65])
def test_a_damaged_note_is_replaced(cache, large, read, content):
    right = identity_of(large)
    (note,) = cache.iterdir()
    note.write_bytes(content)
    assert identity_of(large) == right
    assert (len(read), note.read_text()) == (2, right)


def test_a_note_that_is_no_file_is_ignored(cache, large, read):
    right = identity_of(large)
    (note,) = cache.iterdir()
    note.unlink()
    note.mkdir()
    assert identity_of(large) == right
    assert list(cache.iterdir()) == [note]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path, large, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPEAR_CACHE_DIR", str(tmp_path / "file"))
    assert identity_of(large) == sha256_of(large)


def test_a_user_without_a_home_has_no_cache(large, monkeypatch):
    monkeypatch.delenv("SPEAR_CACHE_DIR", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    assert identity_of(large) == sha256_of(large)


def test_processes_that_hash_at_once_agree_and_leave_one_note(cache, large):
    code = "import sys, pathlib, spear_ray.networks.files as f; print(f.identity_of(pathlib.Path(sys.argv[1])))"
    running = [
        subprocess.Popen([sys.executable, "-c", code, str(large)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert {process.communicate(timeout=60)[0].strip() for process in running} == {sha256_of(large)}
    (note,) = cache.iterdir()
    assert note.read_text() == sha256_of(large)


# Places


def test_a_local_path_is_itself(tmp_path):
    assert local_copy(str(tmp_path), "fetch it") == tmp_path
    with pytest.raises(CheckpointMissing, match="fetch it"):
        local_copy(str(tmp_path / "nothing"), "fetch it")


def test_a_model_in_the_hub_cache_is_found_by_revision_and_by_commit(hub):
    folder = snapshot(hub, "org/name", "config.json", "model.safetensors")
    for uri in ("hf://org/name", "hf://org/name@main", f"hf://org/name@{COMMIT}"):
        assert local_copy(uri, "") == folder
    with pytest.raises(CheckpointMissing, match=f"{PULL} hf://org/name@v2$"):
        local_copy("hf://org/name@v2", "")


@pytest.mark.parametrize("names", [(), ("config.json",), ("model.safetensors",), ("config.json", "pytorch_model.bin")])
def test_a_model_without_its_files_is_missing(hub, names):
    snapshot(hub, "org/name", *names)
    with pytest.raises(CheckpointMissing):
        local_copy("hf://org/name", "")


def test_of_qwen_only_the_sizes_are_needed(hub):
    folder = snapshot(hub, "Qwen/Qwen2.5-0.5B", "config.json")
    assert local_copy(find("Qwen2.5-0.5B").uri, "") == folder


@pytest.mark.parametrize(
    ("uri", "fetch", "said"),
    [
        ("hf://facebook/mms-lid-126", "", f"{PULL} mms-lid-126"),
        ("hf://facebook/mms-lid-126@v1", "", f"{PULL} hf://facebook/mms-lid-126@v1"),
        ("hf://facebook/mms-lid-126", f"{PULL} mms-lid-126 (or none)", f"{PULL} mms-lid-126 (or none)"),
        (
            "hf://openai/whisper-large-v3",
            f"{PULL} whisper-large-v3-msp-podcast-emotion-dim",
            f"{PULL} whisper-large-v3",
        ),
    ],
)
def test_what_is_missing_names_the_command_that_fetches_it(hub, uri, fetch, said):
    with pytest.raises(CheckpointMissing) as caught:
        local_copy(uri, fetch)
    assert str(caught.value) == f"{uri} is not on this machine: {said}"


def test_a_malformed_name_is_a_wrong_configuration(hub):
    with pytest.raises(ConfigError, match="hf://org/name"):
        local_copy("hf://org/name/file.pt", "")
    with pytest.raises(ConfigError):
        local_copy(f"hf://org/{'a' * 97}", "")


def test_importing_the_files_imports_no_client_of_the_hub():
    code = "import sys, spear_ray.checkpoints.commands; assert 'huggingface_hub' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
