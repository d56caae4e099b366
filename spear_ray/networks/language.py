"""Spoken language identification: MMS-LID and other classifiers in transformers' own format, or Whisper itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForAudioClassification, WhisperForConditionalGeneration

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import PrerequisiteError
from spear_ray.networks.batching import padded
from spear_ray.networks.geometry import TRAINING_ONLY
from spear_ray.networks.log_mel import HOP, LogMel
from spear_ray.networks.memo import Outputs
from spear_ray.networks.speech_model import SpeechModel, unbatched
from spear_ray.networks.tensors import CONFIG, WEIGHTS, existing
from spear_ray.networks.waves import normalised, raw

GENERATION = "generation_config.json"
PREPROCESSOR = "preprocessor_config.json"
LONGEST_S = 30.0
"""Of what a classifier hears at once: attention needs memory that grows with the square."""


class LanguageModel(SpeechModel):
    """Outputs `probabilities` over `labels`."""

    labels: tuple[str, ...]
    longest_s = LONGEST_S


class ClassifiedLanguage(LanguageModel):
    """wav2vec2 with a classifier over languages (MMS-LID: Pratap et al. 2023, section 5).

    Args:
        model: as AutoModelForAudioClassification gives it.
        normalises: whether clips are brought to zero mean and unit variance (preprocessor_config.json).
    """

    def __init__(self, model: Any, normalises: bool) -> None:
        super().__init__()
        self.model = model
        self.normalises = normalises
        names = model.config.id2label
        self.labels = tuple(str(names[place]) for place in range(len(names)))
        if getattr(model.config, "feat_extract_norm", "layer") == "group":
            self.batch_clips = 1  # a group norm's statistics would take in the padding

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch; padding is masked."""
        waves = (normalised if self.normalises else raw)(clips, LONGEST_S, self.device)
        logits = self.model(waves.values, attention_mask=waves.mask).logits
        return unbatched({"probabilities": logits.float().softmax(-1)})


class WhisperLanguage(LanguageModel):
    """Whisper's own language token: the decoder's first step, over the language tokens only.

    Source: Radford et al. 2022, section 2.3 and their reference code.

    Args:
        model: of any size.
        tokens: language code to token id, for instance `{"en": 50259}`.
    """

    def __init__(self, model: WhisperForConditionalGeneration, tokens: dict[str, int]) -> None:
        super().__init__()
        self.model = model
        self.labels = tuple(tokens)
        self.longest_s = 2 * model.config.max_source_positions * HOP / SAMPLE_RATE_HZ
        self.log_mel = LogMel(model.config.num_mel_bins)
        self.register_buffer("tokens", torch.tensor(list(tokens.values())), persistent=False)

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch; each clip is continued with silence to Whisper's 30 s."""
        mels = self.log_mel(padded(clips, round((self.longest_s or 0) * SAMPLE_RATE_HZ), self.device))
        start = torch.full((len(clips), 1), self.model.config.decoder_start_token_id, device=self.device)
        logits = self.model(input_features=mels, decoder_input_ids=start, use_cache=False).logits[:, -1]
        return unbatched({"probabilities": logits[:, self.tokens].float().softmax(-1)})


def load_language(folder: Path, fetch: str) -> LanguageModel:
    """A language identifier from its folder, in evaluation mode, on the CPU.

    Args:
        folder: config.json and model.safetensors (or shards with an index); of Whisper also generation_config.json.
        fetch: what to do to have it, for the message.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: damaged, or a tensor is missing, unknown or misshapen.
    """
    config = _json(existing(folder / CONFIG, fetch), fetch)
    architectures = config.get("architectures") or []
    model: LanguageModel
    if config.get("model_type") == "whisper" and "WhisperForAudioClassification" not in architectures:
        model = WhisperLanguage(_loaded(WhisperForConditionalGeneration, folder, fetch), _tokens(folder, fetch))
    else:
        model = _classifier(folder, config, fetch)
    return model.eval().requires_grad_(False)


def _classifier(folder: Path, config: dict[str, Any], fetch: str) -> ClassifiedLanguage:
    names = config.get("id2label")
    if not names or all(str(name).startswith("LABEL_") for name in names.values()):
        raise PrerequisiteError(f"{folder / CONFIG} names no languages (id2label): {fetch}")
    path = folder / PREPROCESSOR
    # MMS-LID's is there; its default is what wav2vec2's large models were trained with.
    normalises = bool(_json(path, fetch).get("do_normalize", True)) if path.exists() else True
    return ClassifiedLanguage(_loaded(AutoModelForAudioClassification, folder, fetch), normalises)


def _tokens(folder: Path, fetch: str) -> dict[str, int]:
    known = _json(existing(folder / GENERATION, fetch), fetch).get("lang_to_id") or {}
    if not known:
        raise PrerequisiteError(f"{folder / GENERATION} has no lang_to_id: an English-only Whisper tells no languages")
    return {str(name).strip("<|>"): int(token) for name, token in known.items()}


def _loaded(kind: Any, folder: Path, fetch: str) -> Any:
    """What transformers makes of a folder, with an account of every tensor."""
    try:
        model, account = kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True, output_loading_info=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise PrerequisiteError(f"{folder} cannot be loaded ({str(error).splitlines()[0]}): {fetch}") from error
    faults = {
        "lacks": [key for key in account["missing_keys"] if not key.endswith(TRAINING_ONLY)],
        "has unknown": [key for key in account["unexpected_keys"] if not key.endswith(TRAINING_ONLY)],
        "has a wrong shape for": [str(key) for key in account["mismatched_keys"]],
    }
    told = [f"{what} {', '.join(sorted(keys)[:8])}" for what, keys in faults.items() if keys]
    if told:
        raise PrerequisiteError(f"{folder / WEIGHTS} {'; '.join(told)}: these are the tensors of another model")
    return model.float()


def _json(path: Path, fetch: str) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except ValueError as error:
        raise PrerequisiteError(f"{path} is not JSON ({error}): {fetch}") from error
