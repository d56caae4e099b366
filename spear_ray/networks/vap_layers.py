"""The layers of VAP's transformer: causal attention that fades with distance, within a channel and between two.

Source: Ekstedt and Skantze (arXiv 2205.09812); ALiBi: Press et al. (arXiv 2108.12409).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from spear_ray.networks.cpc import Recurrence

QUERY_BLOCK = 256
"""Frames whose attention is computed at a time: bounds memory, changes nothing."""

NEGLIGIBLE = 1e-9
"""Keys are left out only where their weights together are provably smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VapSizes:
    """Sizes of a model.

    Args:
        encoder_width: of CPC.
        recurrence: LSTM or GRU.
        levels: of the recurrent net.
        kernel: of the convolution from 100 Hz to the model's rate.
        stride: of it.
        width: of the transformer.
        feed_forward: width of its feed-forward nets.
        heads: of its attention.
        self_layers: per channel.
        cross_layers: between the channels.
        vad_before_cross: activity is read off the per-channel stack (MaAI) and not off the stereo one.
    """

    encoder_width: int = 256
    recurrence: Recurrence = "LSTM"
    levels: int = 1
    kernel: int = 5
    stride: int = 2
    width: int = 256
    feed_forward: int = 768
    heads: int = 4
    self_layers: int = 1
    cross_layers: int = 3
    vad_before_cross: bool = False


class Attention(nn.Module):
    """Causal multi-head attention whose weights fall with distance (ALiBi), each head at its own rate `m`."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.key, self.query, self.value, self.proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.m = nn.Parameter(torch.tensor(slopes(heads)))

    def forward(self, query: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        """Float [B, T, width] twice, the same out. Scores are scaled by the whole width, not by a head's."""
        width = query.shape[-1]
        q, k, v = (
            self._split(layer(x)) for layer, x in ((self.query, query), (self.key, source), (self.value, source))
        )
        heads = [
            _attend(q[:, head], k[:, head], v[:, head], float(rate), 1 / math.sqrt(width))
            for head, rate in enumerate(self.m.tolist())
        ]
        mixed: torch.Tensor = self.proj(torch.cat(heads, dim=-1))
        return mixed

    def _split(self, x: torch.Tensor) -> torch.Tensor:
        """[B, T, width] to [B, heads, T, width of a head]."""
        return x.reshape(*x.shape[:2], self.m.numel(), -1).transpose(1, 2)


def slopes(heads: int) -> list[float]:
    """ALiBi's rates: a geometric sequence that starts and falls with 2^(-8 / heads)."""
    return [2 ** (-8 * (head + 1) / heads) for head in range(heads)]


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rate: float, scale: float) -> torch.Tensor:
    """One head's attention, float [B, T, width of a head], block of queries by block."""
    frames = q.shape[1]
    reach = _reach(q, k, rate, scale)
    out = []
    for start in range(0, frames, QUERY_BLOCK):
        end = min(start + QUERY_BLOCK, frames)
        first = max(0, start - reach)
        places = torch.arange(first, end, device=q.device)
        distance = places[None, :] - torch.arange(start, end, device=q.device)[:, None]
        bias = (rate * distance).to(q.dtype).masked_fill(distance > 0, float("-inf"))
        part = nn.functional.scaled_dot_product_attention(
            q[:, start:end], k[:, first:end], v[:, first:end], attn_mask=bias, scale=scale
        )
        out.append(part)
    return torch.cat(out, dim=1)


def _reach(q: torch.Tensor, k: torch.Tensor, rate: float, scale: float) -> int:
    """Distance in frames beyond which all keys together weigh less than `NEGLIGIBLE`.

    No score is larger than |q| |k| scale = s in magnitude, and a frame's own key has no penalty: the weight of all keys
    further away than d is at most exp(2 s - rate d) / (1 - exp(-rate)).
    """
    if rate <= 0 or q.shape[1] <= QUERY_BLOCK:
        return int(q.shape[1])
    largest = float(q.norm(dim=-1).max() * k.norm(dim=-1).max()) * scale
    return math.ceil((2 * largest - math.log(NEGLIGIBLE) - math.log1p(-math.exp(-rate))) / rate)


class Layer(nn.Module):
    """Self-attention, cross-attention where there is another channel, feed-forward; norms come first."""

    def __init__(self, width: int, feed_forward: int, heads: int, cross: bool) -> None:
        super().__init__()
        self.ln_self_attn = nn.LayerNorm(width)
        self.mha = Attention(width, heads)
        self.ln_ffnetwork = nn.LayerNorm(width)
        self.ffnetwork = nn.Sequential(
            nn.Linear(width, feed_forward, bias=False),
            nn.GELU(),
            nn.Identity(),
            nn.Linear(feed_forward, width, bias=False),
        )
        if cross:
            self.ln_src_attn = nn.LayerNorm(width)
            self.mha_cross = Attention(width, heads)

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """Float [B, T, width]; `other` is the other channel, taken as it is."""
        normed = self.ln_self_attn(x)
        x = x + self.mha(normed, normed)
        if other is not None:
            x = x + self.mha_cross(self.ln_src_attn(x), other)
        out: torch.Tensor = x + self.ffnetwork(self.ln_ffnetwork(x))
        return out


class Combinator(nn.Module):
    """Both channels as one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.h0_a = nn.Linear(width, width, bias=False)
        self.h0_b = nn.Linear(width, width, bias=False)
        self.ln = nn.LayerNorm(width)

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        """Float [B, T, width] twice, the same out."""
        gelu = nn.functional.gelu
        return gelu(self.ln(self.h0_a(x1))) + gelu(self.ln(self.h0_b(x2)))


class FeatureProjection(nn.Module):
    """From the encoder's width to the transformer's, where they differ."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.layer_norm = nn.LayerNorm(inputs)
        self.projection = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float [B, T, inputs] to [B, T, outputs]."""
        projected: torch.Tensor = self.projection(self.layer_norm(x))
        return projected


class Stack(nn.Module):
    """Layers of one channel."""

    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float [B, T, width], the same out."""
        for layer in self.layers:
            x = layer(x)
        return x


class Stereo(nn.Module):
    """Layers between the channels, and their combinator."""

    def __init__(self, layers: list[Layer], width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.combinator = Combinator(width)

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Float [B, T, width] twice to both channels together, the first and the second."""
        for layer in self.layers:
            x1, x2 = layer(x1, x2), layer(x2, x1)
        return self.combinator(x1, x2), x1, x2


class Transformer(nn.Module):
    """Per-channel layers, which both channels share, then the stereo ones."""

    def __init__(self, sizes: VapSizes) -> None:
        super().__init__()
        size = (sizes.width, sizes.feed_forward, sizes.heads)
        self.ar_channel = Stack([Layer(*size, cross=False) for _ in range(sizes.self_layers)])
        self.ar = Stereo([Layer(*size, cross=True) for _ in range(sizes.cross_layers)], sizes.width)
