"""The Hugging Face hub: names there, its cache on this machine, and the one place where something is downloaded."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spear_ray.errors import ConfigError, PrerequisiteError, SpearError, StorageError

SCHEME = "hf://"
MAIN = "main"
"""The revision where a name says none."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
"""Says in which files the tensors are where there is more than one."""

_REFUSED = (401, 403)
"""HTTP statuses of a login that is not known, or may not read this."""

_NAME = re.compile(r"hf://([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w-][\w./-]*))?")


@dataclass(frozen=True)
class HubName:
    """A repository of models at a revision.

    Args:
        repository: `org/name`.
        revision: a branch, a tag or, what never changes, a commit's hash.
    """

    repository: str
    revision: str = MAIN

    @classmethod
    def of(cls, uri: str) -> HubName:
        """From `hf://org/name` or `hf://org/name@revision`.

        Raises:
            ConfigError: it is of another form.
        """
        found = _NAME.fullmatch(uri)
        if found is None or ".." in uri or "--" in found[1]:
            raise ConfigError(f"'{uri}' is not of the form hf://org/name or hf://org/name@revision")
        return cls(found[1], found[2] or MAIN)

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}" + ("" if self.revision == MAIN else f"@{self.revision}")


def cached(name: HubName, files: Sequence[str]) -> Path | None:
    """The folder in the hub's cache on this machine, without network; None where it, or a file of it, is not there.

    Args:
        name: of the repository.
        files: fnmatch patterns of what must be there, as far as the repository has it.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        found = snapshot_download(
            name.repository, revision=name.revision, allow_patterns=list(files), local_files_only=True
        )
    except HFValidationError as error:
        raise ConfigError(f"'{name}' is no name of a repository: {error}") from error
    except LocalEntryNotFoundError:
        return None
    return None if lacking(Path(found), files) else Path(found)


def lacking(folder: Path, files: Sequence[str]) -> list[str]:
    """Of files that every model has, and of those that its index names, the ones that are not there.

    Args:
        folder: of a model in the hub's layout.
        files: fnmatch patterns of what it should have.
    """
    absent = [CONFIG] if CONFIG in files and not (folder / CONFIG).is_file() else []
    if WEIGHTS not in files or (folder / WEIGHTS).is_file():
        return absent
    if not (folder / INDEX).is_file():
        return [*absent, WEIGHTS]
    return absent + [name for name in _shards(folder / INDEX) if not (folder / name).is_file()]


def _shards(index: Path) -> list[str]:
    """Names of the files with tensors; a damaged index names none and is a fault of its own."""
    try:
        return sorted({str(name) for name in json.loads(index.read_text())["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def fetched(name: HubName, files: Sequence[str]) -> Path:
    """Download what is not there yet, and say where all is; its folder's name is the commit's hash.

    Args:
        name: of the repository.
        files: fnmatch patterns of what is wanted; nothing else is fetched.

    Raises:
        ConfigError: the hub knows no such names.
        PrerequisiteError: unknown, gated, or without the files; or the hub's client is told to stay offline.
        StorageError: the hub cannot be reached or fails, or the disk does.
    """
    from huggingface_hub import HfApi, snapshot_download

    try:
        # Asked first because the download itself would, without network, be content with an older copy.
        HfApi().model_info(name.repository, revision=name.revision)
        found = snapshot_download(name.repository, revision=name.revision, allow_patterns=list(files))
    except Exception as error:
        reason = _explained(name, error)
        if reason is None:
            raise
        raise reason from error
    absent = lacking(Path(found), files)
    if absent:
        raise PrerequisiteError(f"{name} has no {', '.join(absent)}: it is not published as safetensors")
    return Path(found)


def _explained(name: HubName, error: Exception) -> SpearError | None:
    """In our words, as the client's may hold addresses with credentials; None where a program is at fault."""
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return PrerequisiteError(f"{name} cannot be fetched: HF_HUB_OFFLINE is set; unset it, then pull again")
    if isinstance(error, errors.HFValidationError):
        return ConfigError(f"'{name}' is no name of a repository")
    if isinstance(error, errors.GatedRepoError):
        return PrerequisiteError(
            f"{name} is gated: accept its terms on the model's page, then log in with 'hf auth login' and pull again"
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return PrerequisiteError(
            f"{name} is not on the hub, or is private: check the name; to a private one log in with 'hf auth login'"
        )
    if isinstance(error, errors.HfHubHTTPError) and error.response.status_code in _REFUSED:
        return PrerequisiteError(f"{name}: the hub refuses this login: log in again with 'hf auth login'")
    if isinstance(error, errors.RevisionNotFoundError):
        return PrerequisiteError(f"{name.repository} has no revision '{name.revision}' on the hub")
    return _failure(name, error)


def _failure(name: HubName, error: Exception) -> StorageError | None:
    """The hub, the network or the disk."""
    from huggingface_hub import errors

    # The base of all errors of the HTTP client, which is another package in other versions of the hub's client.
    transport: Any = errors.HfHubHTTPError.__mro__[1]
    if isinstance(error, errors.HfHubHTTPError):
        return StorageError(f"{name}: the hub answered with HTTP status {error.response.status_code}; pull again later")
    # RuntimeError: how the client's other way of transfer (Xet) says the same.
    if isinstance(error, (transport, errors.LocalEntryNotFoundError, ConnectionError, RuntimeError)):
        return StorageError(f"{name}: the hub cannot be reached ({type(error).__name__}); pull again with network")
    if isinstance(error, OSError):
        return StorageError(f"{name} cannot be stored: {error.strerror or type(error).__name__}")
    return None
