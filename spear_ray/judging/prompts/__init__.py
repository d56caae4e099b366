"""The prompts: files with a version in their name, whose content is part of every row's fingerprint."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

WAVREWARD = ("wavreward-1.txt", "wavreward-answer-1.txt", "wavreward-reasoning-1.txt")
STANCE = "stance-1.yaml"


@cache
def text(name: str) -> str:
    """A prompt's text."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8").rstrip("\n")


@cache
def stance_texts() -> dict[str, Any]:
    """The parts of the prompt on stances."""
    import yaml  # type: ignore[import-untyped]

    parts: dict[str, Any] = yaml.safe_load(text(STANCE))
    return parts


def digest(*names: str) -> str:
    """16 hex digits of the SHA-256 of prompts."""
    return hashlib.sha256("\n\n".join(text(name) for name in names).encode()).hexdigest()[:16]
