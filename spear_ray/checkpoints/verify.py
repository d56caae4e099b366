"""Whether checkpoint files are whole: their format, and their SHA-256 where it is known what it must be."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spear_ray.checkpoints.hub import lacking
from spear_ray.networks.files import files_of, remembered_sha256

_BLOBS = "blobs"
"""Folder of the hub's cache whose large files are named by their SHA-256."""
_SHA256 = re.compile("[0-9a-f]{64}")
_ZIP = b"PK"
"""First bytes of what torch.save writes since PyTorch 1.6."""


@dataclass(frozen=True)
class Checked:
    """One file.

    Args:
        path: of the file.
        sha256: of its content, hexadecimal.
        fault: what is wrong with it; empty where nothing is.
    """

    path: Path
    sha256: str
    fault: str = ""


def check(path: Path, files: Sequence[str], sha256: str = "") -> tuple[list[Checked], list[str]]:
    """All files of a checkpoint.

    Args:
        path: a file, or a folder in the hub's layout.
        files: fnmatch patterns of a folder's files.
        sha256: what a single file must have; empty where it is not known.

    Returns:
        Each file that is there, and the names of those that are not.
    """
    if path.is_file():
        return [check_file(path, sha256)], []
    return [check_file(file) for file in files_of(path, files)], lacking(path, files)


def check_file(path: Path, sha256: str = "") -> Checked:
    """One file; its hash comes from the cache of hashes where it has not changed since."""
    found = remembered_sha256(path)
    wanted = sha256 or _named_by_hub(path)
    fault = _format_fault(path)
    if not fault and wanted and found != wanted:
        fault = f"has SHA-256 {found}, must have {wanted}"
    return Checked(path, found, fault)


def _named_by_hub(path: Path) -> str:
    """The SHA-256 that the hub gave a large file in its cache; empty for others."""
    blob = path.resolve()
    return blob.name if blob.parent.name == _BLOBS and _SHA256.fullmatch(blob.name) else ""


def _format_fault(path: Path) -> str:
    if path.stat().st_size == 0:
        return "is empty"
    checks = {".safetensors": _safetensors_fault, ".json": _json_fault}
    return checks.get(path.suffix, _zip_fault)(path)


def _safetensors_fault(path: Path) -> str:
    """The header must be whole and must fit the file's length; no tensor is read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np"):
            return ""
    except (SafetensorError, OSError) as error:
        return f"is not a whole safetensors file ({error})"


def _json_fault(path: Path) -> str:
    try:
        json.loads(path.read_text())
    except ValueError as error:
        return f"is not JSON ({error})"
    return ""


def _zip_fault(path: Path) -> str:
    """A zip's directory stands at its end, so that it is gone where the file was cut; other formats are not judged."""
    with path.open("rb") as file:
        if file.read(len(_ZIP)) != _ZIP:
            return ""
    return "" if zipfile.is_zipfile(path) else "is not a whole torch.save file"
