"""How encoders run: settings that scorers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spear_ray.errors import ConfigError

if TYPE_CHECKING:
    from spear_ray.networks.speech_model import SpeechModel

PRECISIONS = ("fp32", "bf16")


@dataclass(kw_only=True)
class EncoderSettings:
    """Settings of a scorer's encoders.

    Args:
        precision: `fp32`, or `bf16` for speed on a GPU: it moves a probability or a dimension by less than 0.05. It
            counts for the fingerprint.
        batch_seconds: padded audio in one batch on a GPU; changes no score.
        batch_clips: clips in one batch on a GPU; changes no score.
    """

    precision: str = "fp32"
    batch_seconds: float = 480.0
    batch_clips: int = 64


ModelT = TypeVar("ModelT", bound="SpeechModel")


def check_encoder(where: str, settings: EncoderSettings) -> None:
    """Raises ConfigError where a value cannot be used."""
    if settings.precision not in PRECISIONS:
        raise ConfigError(f"{where}.precision={settings.precision}: must be one of {', '.join(PRECISIONS)}")
    if settings.batch_seconds <= 0 or settings.batch_clips < 1:
        raise ConfigError(f"{where}: batch_seconds and batch_clips must be positive")


def placed(model: ModelT, settings: EncoderSettings) -> ModelT:
    """A model on the GPU where there is one, with these settings."""
    from spear_ray.networks.batching import best_device

    model.precision = "bf16" if settings.precision == "bf16" else "fp32"
    model.batch_seconds = settings.batch_seconds
    model.batch_clips = min(model.batch_clips, settings.batch_clips)
    return model.to(best_device())
