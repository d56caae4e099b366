"""Speech recognisers from local checkpoints: Whisper, and Qwen3-ASR in transformers' layout."""

from __future__ import annotations

from pathlib import Path

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.qwen_asr import load_qwen
from spear_ray.networks.recogniser import Recogniser, read_json
from spear_ray.networks.tensors import CONFIG, existing
from spear_ray.networks.whisper_asr import load_whisper

LOADERS = {"whisper": load_whisper, "qwen3_asr": load_qwen}
"""By `model_type` of config.json."""


def load_recogniser(folder: Path, fetch: str) -> Recogniser:
    """A speech recogniser from its folder, in evaluation mode, on the CPU.

    Args:
        folder: config.json, model.safetensors (or shards with an index), tokenizer.json; of Whisper also
            generation_config.json.
        fetch: what to do to have it, for the message.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: damaged, of another kind, or a tensor is missing, unknown or misshapen.
    """
    config = read_json(existing(folder / CONFIG, fetch), fetch)
    kind = str(config.get("model_type"))
    if kind not in LOADERS:
        raise PrerequisiteError(
            f"{folder / CONFIG}: model_type is '{kind}', must be one of {', '.join(LOADERS)}: {fetch}"
        )
    if "thinker_config" in config:
        raise PrerequisiteError(
            f"{folder} is in Qwen's own layout, which transformers does not read; what it reads is in a repository of"
            " the same name with -hf behind it: spear-ray checkpoints pull Qwen3-ASR-0.6B-hf"
        )
    return LOADERS[kind](folder, fetch).eval().requires_grad_(False)
