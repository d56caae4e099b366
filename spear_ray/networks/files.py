"""What checkpoint files are: where they lie, and their identity."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

from spear_ray.errors import CheckpointMissing
from spear_ray.store import Store, split_file

CACHE_VARIABLE = "SPEAR_CACHE_DIR"
"""Where copies of checkpoints from object stores are kept; by default ~/.cache/spear_ray."""


def sha256_of(path: str | Path) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_of(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, or of the names and contents of a folder's files."""
    if path.is_file():
        return sha256_of(path)
    parts = [f"{file.relative_to(path)}:{sha256_of(file)}" for file in sorted(path.rglob("*")) if file.is_file()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def identity_of(path: Path, names: Sequence[str] | None = None) -> str:
    """As `content_of`, of a folder only the files whose names match one of the patterns."""
    if names is None or path.is_file():
        return content_of(path)
    files = sorted(file for file in path.rglob("*") if any(fnmatch(file.name, name) for name in names))
    return hashlib.sha256("\n".join(f"{file.relative_to(path)}:{sha256_of(file)}" for file in files).encode()).hexdigest()


def local_copy(uri: str, fetch: str) -> Path:
    """A checkpoint's file or folder on this machine's disk; one from an object store is copied once.

    Args:
        uri: local path or `s3://`.
        fetch: what to do where it is not there.

    Raises:
        CheckpointMissing: there is none.
        StorageError: the store failed.
    """
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
    folder = _cache() / hashlib.sha256(f"{uri}\n{state}".encode()).hexdigest()[:16]
    for file in files:
        _fetch(store, file, folder)
    return folder / name


def _fetch(store: Store, name: str, folder: Path) -> None:
    """Copy one file unless it is there; whole or not at all, whoever else does the same."""
    target = folder / PurePosixPath(name)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{os.getpid()}")
    part.write_bytes(store.read(name))
    part.replace(target)


def _cache() -> Path:
    return Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "spear_ray") / "checkpoints"
