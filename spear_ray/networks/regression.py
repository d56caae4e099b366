"""Arousal, valence and dominance from two other published models: audeering's wav2vec2 and 3loi's WavLM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import Wav2Vec2Config, Wav2Vec2Model, WavLMConfig, WavLMModel

from spear_ray.dialogue import Samples
from spear_ray.errors import PrerequisiteError
from spear_ray.networks.geometry import NO_MASKING, count, shape, wave_config, without_prefix
from spear_ray.networks.memo import Outputs
from spear_ray.networks.profile_heads import true_mean
from spear_ray.networks.speech_model import SpeechModel, unbatched
from spear_ray.networks.tensors import CONFIG, Tensors, load_strictly
from spear_ray.networks.waves import frames_of, normalised, raw

ORDER = ("arousal", "dominance", "valence")
"""Of both models' outputs (model cards)."""

STD_FLOOR = 1e-6
"""Added to 3loi's standard deviation (model card)."""
VARIANCE_FLOOR = 1e-5
"""Of 3loi's pooled variance."""


class Audeering(SpeechModel):
    """wav2vec2, mean over time, dense, tanh, projection.

    Source: Wagner et al. 2022 (arXiv 2203.07378), audeering/wav2vec2-large-robust-12-ft-emotion-msp-dim.
    """

    def __init__(self, config: Wav2Vec2Config, outputs: int = len(ORDER)) -> None:
        super().__init__()
        self.wav2vec2 = Wav2Vec2Model(config)
        self.classifier = nn.ModuleDict(
            {
                "dense": nn.Linear(config.hidden_size, config.hidden_size),
                "out_proj": nn.Linear(config.hidden_size, outputs),
            }
        )

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch, about 0 to 1."""
        waves = normalised(clips, self.longest_s, self.device)
        hidden = self.wav2vec2(waves.values, attention_mask=waves.mask).last_hidden_state.float()
        pooled = true_mean(hidden, frames_of(self.wav2vec2, waves.lengths))
        return unbatched({"features": pooled, **named(self.classify(pooled))})

    def classify(self, pooled: torch.Tensor) -> torch.Tensor:
        """The head: [clips, hidden] to [clips, outputs]."""
        found: torch.Tensor = self.classifier["out_proj"](torch.tanh(self.classifier["dense"](pooled)))
        return found.float()


class Odyssey(SpeechModel):
    """WavLM, attentive statistics pooling, a small regression net.

    Source: 3loi/SER-Odyssey-Baseline-WavLM-Multi-Attributes (Goncalves et al. 2024, Odyssey challenge baseline);
    pooling: Okabe et al. 2018 with one attention head.

    Args:
        config: of WavLM.
        layers: of the regression net.
        outputs: its outputs.
        mean: of the training waveforms, which the input is normalised with.
        std: likewise.
    """

    def __init__(self, config: WavLMConfig, layers: int, outputs: int, mean: float, std: float) -> None:
        super().__init__()
        self.mean, self.std = mean, std
        width = config.hidden_size
        self.ssl_model = WavLMModel(config)
        self.pool_model = AttentivePooling(width)
        self.ser_model = Regression(width, layers, outputs)

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch, about 0 to 1."""
        waves = raw(clips, self.longest_s, self.device)
        values = (waves.values - self.mean) / (self.std + STD_FLOOR) * waves.mask
        hidden = self.ssl_model(values, attention_mask=waves.mask).last_hidden_state.float()
        pooled = self.pool_model(hidden, frames_of(self.ssl_model, waves.lengths))
        return unbatched({"features": pooled, **named(self.ser_model(pooled).float())})


class AttentivePooling(nn.Module):
    """Weighted mean and standard deviation over time; weights from a one-headed attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.sap_linear = nn.Linear(width, width)
        self.attention = nn.Parameter(torch.zeros(width, 1))

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """[clips, frames, width] and int [clips] to [clips, 2 width]."""
        own = torch.arange(frames.shape[1], device=frames.device)[None] < lengths[:, None]
        scores = (torch.tanh(self.sap_linear(frames)) @ self.attention)[..., 0].float()
        weights = scores.masked_fill(~own, -torch.inf).softmax(1)[..., None]
        mean = (frames * weights).sum(1)
        variance = (frames.square() * weights).sum(1) - mean.square()
        return torch.cat([mean, variance.clamp(min=VARIANCE_FLOOR).sqrt()], dim=1)


class Regression(nn.Module):
    """From pooled statistics to the dimensions."""

    def __init__(self, width: int, layers: int, outputs: int) -> None:
        super().__init__()
        self.fc = nn.Sequential(*(_block(2 * width if layer == 0 else width, width) for layer in range(layers)))
        self.out = nn.Sequential(nn.Linear(width, outputs))

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """[clips, 2 width] to [clips, outputs]."""
        found: torch.Tensor = self.out(self.fc(pooled))
        return found


def audeering_of(tensors: Tensors, config: Mapping[str, Any], source: str) -> Audeering:
    """The model from its tensors and its config.json.

    Raises:
        PrerequisiteError: a tensor is missing, unknown or misshapen.
    """
    outputs = shape(tensors, "classifier.out_proj.weight", 2, source)[0]
    model = Audeering(Wav2Vec2Config(**{**config, **NO_MASKING}), outputs)
    backbone = {f"wav2vec2.{key}": value for key, value in without_prefix(tensors, "wav2vec2.").items()}
    rest = {key: value for key, value in tensors.items() if not key.startswith("wav2vec2.")}
    load_strictly(model, backbone | rest, source)
    _check_outputs(outputs, source)
    return model.eval().requires_grad_(False)


def odyssey_of(tensors: Tensors, config: Mapping[str, Any], source: str, **backbone: Any) -> Odyssey:
    """The model from its tensors and its config.json (mean, std; sizes are read off the tensors).

    Raises:
        PrerequisiteError: config.json lacks mean or std; a tensor is missing, unknown or misshapen.
    """
    lacking = [key for key in ("mean", "std") if not isinstance(config.get(key), int | float)]
    if lacking:
        raise PrerequisiteError(f"{Path(source).with_name(CONFIG)} must have a number {' and '.join(lacking)}")
    ssl = without_prefix(tensors, "ssl_model.")
    layers = count(tensors, r"^ser_model\.fc\.(\d+)\.")
    outputs = shape(tensors, "ser_model.out.0.weight", 2, source)[0]
    kind = wave_config(ssl, source, **backbone)
    if not isinstance(kind, WavLMConfig):
        raise PrerequisiteError(f"{source}: its encoder is no WavLM")
    model = Odyssey(kind, layers, outputs, float(config["mean"]), float(config["std"]))
    rest = {key: value for key, value in tensors.items() if not key.startswith("ssl_model.")}
    load_strictly(model, {f"ssl_model.{key}": value for key, value in ssl.items()} | rest, source)
    _check_outputs(outputs, source)
    return model.eval().requires_grad_(False)


def named(outputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """[clips, 3] as one [clips, 1] for each dimension."""
    return {name: outputs[:, place : place + 1] for place, name in enumerate(ORDER)}


def _block(inputs: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout())


def _check_outputs(outputs: int, source: str) -> None:
    if outputs != len(ORDER):
        raise PrerequisiteError(f"{source} has {outputs} outputs, must have {len(ORDER)}: {', '.join(ORDER)}")
