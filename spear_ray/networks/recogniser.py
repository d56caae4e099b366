"""What speech recognisers have in common: clips in, texts out; and the files of their checkpoints."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from spear_ray.dialogue import Problem, Samples
from spear_ray.errors import OutOfGpuMemory, PrerequisiteError
from spear_ray.networks.memo import Outputs
from spear_ray.networks.speech_model import SpeechModel
from spear_ray.networks.tensors import WEIGHTS, existing
from spear_ray.transcripts.words import Heard

TOKENIZER = "tokenizer.json"
SPELLINGS = "normalizer.json"
LONGEST_S = 30.0
"""Of a clip: what Whisper hears at once, and within what Qwen3-ASR is trained for."""

TOKENS, CUT = "tokens", "cut"
"""Outputs of every recogniser: token ids of the text, and whether it was ended because it grew too long."""


class Recogniser(SpeechModel):
    """Outputs token ids; always the likeliest next token, so that the same clip gives the same text.

    Args:
        tokenizer: of the checkpoint.

    Attributes:
        min_confidence: where languages have probabilities, what is less sure than this is written as English.
    """

    longest_s: float = LONGEST_S

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        self.min_confidence = 0.5

    def transcribe(self, clips: Sequence[Samples]) -> list[Heard | Problem]:
        """What is said in each clip, or why that cannot be told.

        Args:
            clips: float32 [samples] at 16 kHz each, none longer than `longest_s`.
        """
        return [
            Problem.of(outputs) if isinstance(outputs, OutOfGpuMemory) else self.heard(outputs)
            for outputs in self.read(clips)
        ]

    @abstractmethod
    def heard(self, outputs: Outputs) -> Heard:
        """What the outputs of one clip say."""


def ended(row: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Tokens before the first that ends a text."""
    place = next((place for place, token in enumerate(row) if token in ends), len(row))
    return list(row[:place])


def loaded(kind: Any, folder: Path, fetch: str) -> Any:
    """What transformers makes of a folder, with an account of every tensor.

    Raises:
        PrerequisiteError: damaged, or a tensor is missing, unknown or misshapen.
    """
    try:
        model, account = kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError, TypeError, KeyError) as error:
        raise PrerequisiteError(f"{folder} cannot be loaded ({_first_line(error)}): {fetch}") from error
    faults = {
        "lacks": account["missing_keys"],
        "has unknown": account["unexpected_keys"],
        "has a wrong shape for": [str(key) for key in account["mismatched_keys"]],
    }
    told = [f"{what} {', '.join(sorted(keys)[:8])}" for what, keys in faults.items() if keys]
    if told:
        raise PrerequisiteError(f"{folder / WEIGHTS} {'; '.join(told)}: these are the tensors of another model")
    return model.float()


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def read_tokenizer(folder: Path, fetch: str) -> Tokenizer:
    """A checkpoint's tokenizer.json.

    Raises:
        CheckpointMissing: there is none.
        PrerequisiteError: it is damaged.
    """
    path = existing(folder / TOKENIZER, fetch)
    try:
        return Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # tokenizers raises plain Exception
        raise PrerequisiteError(f"{path} is not a whole tokenizer ({_first_line(error)}): {fetch}") from error


def read_json(path: Path, fetch: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        PrerequisiteError: it is not JSON, or no object.
    """
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError) as error:
        raise PrerequisiteError(f"{path} is not a JSON object ({error}): {fetch}") from error


def read_spellings(folder: Path, fetch: str) -> dict[str, str]:
    """British to American spellings of Whisper's normaliser, where the checkpoint has them; else empty."""
    path = folder / SPELLINGS
    return {str(key): str(value) for key, value in read_json(path, fetch).items()} if path.exists() else {}
