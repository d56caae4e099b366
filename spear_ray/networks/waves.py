"""The waveform front end of wav2vec2 and its kin: each clip to zero mean and unit variance, padding masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.networks.batching import padded

VARIANCE_FLOOR = 1e-7
"""Of transformers' Wav2Vec2FeatureExtractor."""

SHORTEST = 400
"""Samples of the convolutions' receptive field: what is shorter gives no frame, so it is continued with zeros."""


class Waves(NamedTuple):
    """A batch: values float32 [clips, samples], mask int64 [clips, samples], lengths int64 [clips]."""

    values: torch.Tensor
    mask: torch.Tensor
    lengths: torch.Tensor


def raw(clips: Sequence[Samples], longest_s: float | None, device: torch.device) -> Waves:
    """Clips as one padded batch.

    Args:
        clips: float32 [samples] each.
        longest_s: what is heard of a clip.
        device: where to.
    """
    limit = round(longest_s * SAMPLE_RATE_HZ) if longest_s else max(clip.size for clip in clips)
    lengths = torch.tensor([max(SHORTEST, min(clip.size, limit)) for clip in clips], device=device)
    values = padded([clip[:limit] for clip in clips], int(lengths.max()), device)
    mask = (torch.arange(values.shape[1], device=device)[None] < lengths[:, None]).long()
    return Waves(values, mask, lengths)


def normalised(clips: Sequence[Samples], longest_s: float | None, device: torch.device) -> Waves:
    """Each clip over its own length to zero mean and unit variance; padding stays zero."""
    batch = raw(clips, longest_s, device)
    mean = batch.values.sum(1, keepdim=True) / batch.lengths[:, None]
    centred = (batch.values - mean) * batch.mask
    variance = centred.square().sum(1, keepdim=True) / batch.lengths[:, None]
    return batch._replace(values=centred / torch.sqrt(variance + VARIANCE_FLOOR))


def frames_of(backbone: Any, lengths: torch.Tensor) -> torch.Tensor:
    """How many frames each clip's samples give, int64 [clips]."""
    for kernel, stride in zip(backbone.config.conv_kernel, backbone.config.conv_stride, strict=True):
        lengths = (lengths - kernel) // stride + 1
    return lengths
