"""The audio encoder of Voice Activity Projection: contrastive predictive coding, then down to the model's frame rate.

Source: Riviere et al., "Unsupervised Pretraining Transfers Well Across Languages" (arXiv 2002.02848), as VAP
(arXiv 2205.09812) uses it. Names of modules are those of published state dicts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import nn

CPC_HZ = 100
HOP = 160
"""Samples per CPC frame at 16 kHz."""

KERNELS = (10, 8, 4, 4, 4)
STRIDES = (5, 4, 2, 2, 2)
PADDINGS = (3, 2, 1, 1, 1)
REACH = 4
"""CPC frames beyond a window whose samples reach into it: the field of the convolutions is 465 samples wide."""

NORM_EPSILON = 1e-5

Recurrence = Literal["LSTM", "GRU"]
State = Any


class ChannelNorm(nn.Module):
    """Normalises over channels, with the unbiased variance."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, width, 1))
        self.bias = nn.Parameter(torch.zeros(1, width, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float [B, channels, frames], the same out."""
        variance, mean = torch.var_mean(x, dim=1, keepdim=True)
        return (x - mean) * torch.rsqrt(variance + NORM_EPSILON) * self.weight + self.bias


class Convolutions(nn.Module):
    """Five strided convolutions: 16 kHz to 100 Hz."""

    def __init__(self, width: int) -> None:
        super().__init__()
        for place, (kernel, stride, padding) in enumerate(zip(KERNELS, STRIDES, PADDINGS, strict=True)):
            inputs = 1 if place == 0 else width
            self.add_module(f"conv{place}", nn.Conv1d(inputs, width, kernel, stride, padding))
            self.add_module(f"batchNorm{place}", ChannelNorm(width))

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """Float [B, samples] to [B, width, frames]."""
        x = audio[:, None]
        for place in range(len(KERNELS)):
            x = torch.relu(getattr(self, f"batchNorm{place}")(getattr(self, f"conv{place}")(x)))
        return x


class Recurrent(nn.Module):
    """A recurrent net over CPC frames."""

    def __init__(self, width: int, recurrence: Recurrence, levels: int) -> None:
        super().__init__()
        self.baseNet = getattr(nn, recurrence)(width, width, num_layers=levels, batch_first=True)

    def forward(self, x: torch.Tensor, state: State = None) -> tuple[torch.Tensor, State]:
        """Float [B, frames, width], the same out; and the state after the last frame."""
        out: tuple[torch.Tensor, State] = self.baseNet(x, state)
        return out


class Cpc(nn.Module):
    """Convolutions and recurrent net."""

    def __init__(self, width: int, recurrence: Recurrence, levels: int) -> None:
        super().__init__()
        self.gEncoder = Convolutions(width)
        self.gAR = Recurrent(width, recurrence, levels)


class ChannelLast(nn.Module):
    """LayerNorm over the channels of [B, channels, frames]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float [B, channels, frames], the same out."""
        normalised: torch.Tensor = self.ln(x.transpose(1, 2)).transpose(1, 2)
        return normalised


class Encoder(nn.Module):
    """One channel's encoder: CPC at 100 Hz, then a causal strided convolution to the model's rate.

    Args:
        width: of all layers.
        recurrence: LSTM or GRU.
        levels: of the recurrent net.
        kernel: of the last convolution, in CPC frames.
        stride: of the last convolution.
    """

    def __init__(self, width: int, recurrence: Recurrence, levels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.encoder = Cpc(width, recurrence, levels)
        self.downsample = nn.ModuleDict({"1": nn.Conv1d(width, width, kernel, stride), "2": ChannelLast(width)})
        self.width, self.kernel, self.stride = width, kernel, stride

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """Float [B, samples] at 16 kHz to [B, frames, width]."""
        frames = self.encoder.gEncoder(audio).transpose(1, 2)
        context, _ = self.encoder.gAR(frames)
        return self._down(nn.functional.pad(context, (0, 0, self.kernel - 1, 0)))

    def windows(self, audio: torch.Tensor, window: int) -> Iterator[torch.Tensor]:
        """The same, piece by piece: what is computed at a time depends on the window and not on the audio's length.

        Args:
            audio: float [B, samples] at 16 kHz.
            window: samples in a piece; whole seconds are taken, at least one.

        Yields:
            float [B, frames, width]; together they are what `forward` gives.
        """
        state: State = None
        kept = torch.zeros(audio.shape[0], self.kernel - 1, self.width, device=audio.device)
        for frames in self._convolved(audio, max(1, window // (CPC_HZ * HOP)) * CPC_HZ):
            context, state = self.encoder.gAR(frames, state)
            context = torch.cat([kept, context], dim=1)
            if context.shape[1] >= self.kernel:
                yield self._down(context)
            kept = context[:, context.shape[1] - self.kernel + 1 :]

    def _convolved(self, audio: torch.Tensor, step: int) -> Iterator[torch.Tensor]:
        """CPC frames in steps, each from its own samples and a margin on either side."""
        samples = audio.shape[1]
        for start in range(0, samples // HOP + 1, step):
            first, last = max(0, start - REACH), start + step
            is_last = (last + REACH) * HOP >= samples
            part = audio[:, first * HOP : samples if is_last else (last + REACH) * HOP]
            frames = self.encoder.gEncoder(part).transpose(1, 2)[:, start - first :]
            yield frames if is_last else frames[:, :step]
            if is_last:
                return

    def _down(self, context: torch.Tensor) -> torch.Tensor:
        strided = self.downsample["2"](self.downsample["1"](context.transpose(1, 2)))
        return nn.functional.gelu(strided).transpose(1, 2)
