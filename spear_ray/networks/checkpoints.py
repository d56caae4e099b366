"""A scorer's checkpoints: which are wanted, where they are, what their identity is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spear_ray.checkpoints.catalogue import MODEL
from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.files import identity_of, local_copy

NONE = "none"
"""Said in place of a checkpoint: this model is not wanted, and what it would measure is left out."""


@dataclass(frozen=True)
class Wanted:
    """One checkpoint that a scorer's configuration names.

    Args:
        key: of the configuration, in full.
        uri: its value: a path, `s3://`, `hf://org/name@revision`, or `none`.
        fetch: what to do to have it.
        files: patterns of the files of a folder that a model is made of: its identity covers these.
    """

    key: str
    uri: str
    fetch: str
    files: tuple[str, ...] = MODEL

    @property
    def is_wanted(self) -> bool:
        """Whether the model is wanted at all."""
        return self.uri.strip().lower() != NONE

    @cached_property
    def found(self) -> Path | PrerequisiteError:
        """Where it is on this machine's disk, or why it is not."""
        if not self.uri.strip():
            return CheckpointMissing(f"{self.key} is not set: {self.fetch}, then {self.key}=PATH (or {self.key}=none)")
        try:
            return local_copy(self.uri, f"{self.fetch} (or {self.key}=none to do without)")
        except PrerequisiteError as error:
            return error

    @property
    def path(self) -> Path | None:
        """Where it is; None where it is missing or not wanted."""
        return self.found if self.is_wanted and isinstance(self.found, Path) else None

    @cached_property
    def identity(self) -> str | None:
        """Of its content, wherever it lies; None where it is missing or not wanted."""
        return None if self.path is None else identity_of(self.path, self.files if self.path.is_dir() else None)


def missing(wanted: Mapping[str, Wanted]) -> PrerequisiteError | None:
    """What is wanted and not there, in one error; None where all is there."""
    reasons = [one.found for one in wanted.values() if one.is_wanted and not isinstance(one.found, Path)]
    if len(reasons) < 2:
        return reasons[0] if reasons else None
    return CheckpointMissing("; ".join(str(reason) for reason in reasons))
