"""What checkpoint files are: where they lie, and their identity."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from spear_ray.checkpoints.catalogue import named, pull_command
from spear_ray.checkpoints.hub import SCHEME, HubName, cached
from spear_ray.errors import CheckpointMissing
from spear_ray.store import Store, split_file

CACHE_VARIABLE = "SPEAR_CACHE_DIR"
"""Where copies from object stores and hashes of large files are kept; by default ~/.cache/spear_ray."""

REMEMBERED_BYTES = 1 << 20
"""Hashes of files from this size on are remembered; smaller ones are hashed faster than looked up on some disks."""


def sha256_of(path: str | Path) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
    """As `sha256_of`; a large file is read once per machine, until its size, time of change or inode is another."""
    before = _state(path)
    if path.stat().st_size < REMEMBERED_BYTES:
        return sha256_of(path)
    name = hashlib.sha256(before.encode()).hexdigest()
    known = _recalled(name)
    if known is not None:
        return known
    found = sha256_of(path)
    if _state(path) == before:
        _remember(name, found)
    return found


def content_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, or of the names and contents of a folder's files."""
    return identity_of(path)


def identity_of(path: Path, names: Sequence[str] | None = None) -> str:
    """As `content_of`, of a folder only the named files, so that a licence or a picture beside them changes nothing.

    Args:
        path: of a file or a folder.
        names: fnmatch patterns of paths within the folder; None takes all.

    Returns:
        Hexadecimal SHA-256; large files are not read again while they stay the same (see `remembered_sha256`).
    """
    if path.is_file():
        return remembered_sha256(path)
    files = files_of(path, ("*",) if names is None else names)
    parts = (f"{file.relative_to(path)}:{remembered_sha256(file)}" for file in files)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def files_of(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """A folder's files, those in its folders too, whose path within it fits one of the fnmatch patterns; in order."""
    for file in sorted(folder.rglob("*")):
        place = file.relative_to(folder).as_posix()
        if file.is_file() and any(fnmatchcase(place, name) for name in names):
            yield file


def local_copy(uri: str, fetch: str) -> Path:
    """A checkpoint's file or folder on this machine's disk; one from an object store is copied once.

    Args:
        uri: local path, `s3://bucket/prefix`, or `hf://org/name[@revision]`, which is looked up in the hub's cache on
            this machine and never downloaded here.
        fetch: what to do where it is not there.

    Raises:
        CheckpointMissing: there is none.
        ConfigError: an `hf://` of another form.
        StorageError: the store failed.
    """
    if uri.startswith(SCHEME):
        return _from_hub(uri, fetch)
    if not uri.startswith("s3://"):
        path = Path(uri).expanduser()
        if not path.exists():
            raise CheckpointMissing(f"{path} does not exist: {fetch}")
        return path
    store, name = split_file(uri)
    files = {file: stat for file, stat in store.files().items() if file == name or file.startswith(f"{name}/")}
    if not files:
        raise CheckpointMissing(f"{uri} does not exist: {fetch}")
    state = "\n".join(f"{file}:{stat.size}:{stat.tag}" for file, stat in files.items())
    folder = _cache("checkpoints") / hashlib.sha256(f"{uri}\n{state}".encode()).hexdigest()[:16]
    for file in files:
        _fetch(store, file, folder)
    return folder / name


def _from_hub(uri: str, fetch: str) -> Path:
    found = cached(HubName.of(uri), named(uri).files)
    if found is None:
        command = pull_command(uri)
        # What the caller says is about its default checkpoint, and this may be another one.
        same = re.search(rf"{re.escape(command)}(?![\w@./-])", fetch)
        raise CheckpointMissing(f"{uri} is not on this machine: {fetch if same else command}")
    return found


def _fetch(store: Store, name: str, folder: Path) -> None:
    """Copy one file unless it is there; whole or not at all, whoever else does the same."""
    target = folder / PurePosixPath(name)
    if not target.exists():
        _write(target, store.read(name))


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        part.write_bytes(content)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _state(path: Path) -> str:
    """What is another when a file's content is."""
    stat = path.stat()
    return f"{path.resolve()}\n{stat.st_size}\n{stat.st_mtime_ns}\n{stat.st_ino}"


def _recalled(name: str) -> str | None:
    """A remembered hash; None where there is none that can be read."""
    with suppress(OSError, RuntimeError, ValueError):
        text = (_cache("sha256") / name).read_text()
        return text if re.fullmatch("[0-9a-f]{64}", text) else None
    return None


def _remember(name: str, digest: str) -> None:
    """Only saves time: where it cannot be written, or where there is no home, nothing is lost."""
    with suppress(OSError, RuntimeError):
        _write(_cache("sha256") / name, digest.encode())


def _cache(kind: str) -> Path:
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "spear_ray") / kind
