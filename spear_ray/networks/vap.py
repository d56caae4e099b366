"""Voice Activity Projection: what will both speakers do in the next two seconds?

Source: Ekstedt and Skantze, "Voice Activity Projection" (arXiv 2205.09812); its stereo transformer: Inoue et al. (arXiv
2401.04868). Names of modules are those of published state dicts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import AudioChannels, AudioTooShort
from spear_ray.networks.cpc import CPC_HZ, HOP, Encoder
from spear_ray.networks.vap_layers import FeatureProjection, Transformer, VapSizes

CLASSES = 256
BINS = 4
WINDOW = 60 * SAMPLE_RATE_HZ
NOW, FUTURE = (0, 1), (2, 3)
DIVISION_EPSILON = 1e-5


class VapOutput(NamedTuple):
    """What the model says of a batch.

    Args:
        logits: float [B, T, 256].
        vad_logits: float [B, T, 2], current activity.
        x: float [B, T, width], both channels together.
        x1: float [B, T, width], first channel after the stereo layers.
        x2: float [B, T, width], second channel.
    """

    logits: torch.Tensor
    vad_logits: torch.Tensor
    x: torch.Tensor
    x1: torch.Tensor
    x2: torch.Tensor


class Objective(nn.Module):
    """Holds the codebook under its published name."""

    def __init__(self) -> None:
        super().__init__()
        table = nn.Embedding(CLASSES, 2 * BINS)
        table.weight.data.copy_(codebook())
        self.codebook = nn.ModuleDict({"emb": table})


class Vap(nn.Module):
    """The whole model.

    Args:
        sizes: its sizes.
    """

    def __init__(self, sizes: VapSizes) -> None:
        super().__init__()
        self.sizes = sizes
        s = sizes
        self.encoder = Encoder(s.encoder_width, s.recurrence, s.levels, s.kernel, s.stride)
        if s.encoder_width != s.width:
            self.feature_projection = FeatureProjection(s.encoder_width, s.width)
        self.transformer = Transformer(s)
        self.objective = Objective()
        self.va_classifier = nn.Linear(s.width, 1)
        self.vap_head = nn.Linear(s.width, CLASSES)

    @property
    def frame_hz(self) -> float:
        """Frames per second."""
        return CPC_HZ / self.sizes.stride

    @property
    def least_samples(self) -> int:
        """So much audio gives a frame."""
        return HOP

    @torch.inference_mode()
    def forward(self, audio: torch.Tensor) -> VapOutput:
        """The model on a batch, in one pass.

        Dialogues of different lengths are padded with zeros at their ends: the model is causal, so that changes nothing
        before a dialogue's last frame, whose convolutions reach up to 10 ms ahead.

        Args:
            audio: float32 [B, 2, samples] at 16 kHz.

        Raises:
            AudioTooShort: there is no frame.
        """
        self._check(audio.shape)
        return self._transformed(*(self.encoder(audio[:, side]) for side in (0, 1)))

    @torch.inference_mode()
    def stream(self, audio: Samples, window: int = WINDOW) -> torch.Tensor:
        """The logits of one dialogue of any length.

        Audio is encoded in windows and attention is computed in blocks: memory grows with the number of frames (a
        few layers' inputs and outputs, some 25 kB a frame at the published size), never with its square; the result
        is that of one pass.

        Args:
            audio: float32 [2, samples] at 16 kHz.
            window: samples encoded at a time.

        Returns:
            float32 [T, 256].

        Raises:
            AudioChannels: not two channels.
            AudioTooShort: there is no frame.
        """
        self._check((1, *audio.shape))
        sides = torch.from_numpy(np.ascontiguousarray(audio)).to(self.vap_head.weight.device)
        encoded = (torch.cat(list(self.encoder.windows(side[None], window)), dim=1) for side in sides)
        return self._transformed(*encoded).logits[0]

    def _transformed(self, e1: torch.Tensor, e2: torch.Tensor) -> VapOutput:
        own = [self._own_channel(x) for x in (e1, e2)]
        x, x1, x2 = self.transformer.ar(*own)
        sides = own if self.sizes.vad_before_cross else [x1, x2]
        vad = torch.cat([self.va_classifier(side) for side in sides], -1)
        return VapOutput(self.vap_head(x), vad, x, x1, x2)

    def _own_channel(self, x: torch.Tensor) -> torch.Tensor:
        if self.sizes.encoder_width != self.sizes.width:
            x = self.feature_projection(x)
        alone: torch.Tensor = self.transformer.ar_channel(x)
        return alone

    def _check(self, shape: Sequence[int]) -> None:
        if len(shape) != 3 or shape[1] != 2:
            raise AudioChannels(f"VAP needs audio of shape [2, samples], not {list(shape[1:])}")
        if shape[2] < self.least_samples:
            raise AudioTooShort(f"{shape[2]} samples; VAP needs at least {self.least_samples} at 16 kHz for a frame")


def codebook() -> torch.Tensor:
    """Float [256, 8]: the bits of each class, lowest first; four bins of the first side, then of the second."""
    return (torch.arange(CLASSES)[:, None] >> torch.arange(2 * BINS) & 1).float()


def first_side_share(
    probabilities: torch.Tensor, bins: Sequence[int], weights: Sequence[float] | None = None
) -> torch.Tensor:
    """How much of the expected activity in some bins is the first side's: p_now, p_future and the like.

    Args:
        probabilities: float [..., 256].
        bins: which of the four.
        weights: of these bins; all alike by default.

    Returns:
        float [...], 0 to 1.
    """
    expected = probabilities @ codebook().to(probabilities)
    chosen = expected.reshape(*expected.shape[:-1], 2, BINS)[..., list(bins)]
    weight = torch.tensor(weights or [1.0] * len(bins)).to(probabilities)
    sides = (chosen * weight).sum(-1)
    share: torch.Tensor = sides[..., 0] / (sides.sum(-1) + DIVISION_EPSILON)
    return share


def entropy_bits(logits: torch.Tensor) -> torch.Tensor:
    """Entropy of the predicted distribution in bits, float [...], from logits [..., 256]."""
    log_p = logits.log_softmax(-1)
    entropy: torch.Tensor = -(log_p.exp() * log_p).sum(-1) / math.log(2)
    return entropy
