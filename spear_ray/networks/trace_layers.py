"""The layers of TRACE: two encoders of a sequence of emotion vectors, what is said of the speakers, cross-attention.

Source: TRACE's published inference code (github.com/SathvikNapa/NaturalnessPrediction); RoPE: Su et al.
(arXiv 2104.09864), with the halves of the result one after the other; RMSNorm: Zhang and Sennrich (arXiv 1910.07467);
SwiGLU: Shazeer (arXiv 2002.05202).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn

Kind = Literal["llama", "crossattn", "base_transformer"]

NORM_EPSILON = 1e-5
ANGLE_BASE = 10_000.0
"""Of RoPE and of the sinusoidal positions."""

CONV_KERNEL = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AuxSizes:
    """Sizes of what is said of the speakers.

    Args:
        cards: how many values each category has.
        category_width: of a category's embedding.
        context_width: of the context's text vector.
        relation_width: of the relationship's text vector.
        part_width: of each of the three projections.
        context_norm: the context's vector is normalised first.
        relation_norm: the relationship's vector is normalised first.
    """

    cards: tuple[int, ...]
    category_width: int
    context_width: int
    relation_width: int
    part_width: int
    context_norm: bool = True
    relation_norm: bool = True

    @property
    def width(self) -> int:
        """Of all three parts."""
        return 3 * self.part_width


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSizes:
    """Sizes of a model.

    Args:
        kind: LF is `llama`, CE is `crossattn`.
        inputs: width of an emotion vector.
        width: of the encoder.
        layers: of the encoder.
        feed_forward: width within an encoder's layer.
        heads: of all its attention.
        hidden: width of the classifier's hidden layer.
        max_vectors: longest sequence.
        aux: None hears speech only.
        cross_layers: of CE.
        cross_feed_forward: width within such a layer.
    """

    kind: Kind
    inputs: int = 1280
    width: int = 256
    layers: int = 6
    feed_forward: int = 384
    heads: int = 8
    hidden: int = 256
    max_vectors: int = 512
    aux: AuxSizes | None = None
    cross_layers: int = 0
    cross_feed_forward: int = 0


def rotation(frames: int, head_width: int, device: torch.device | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of RoPE's angles, float32 [frames, head_width / 2] each."""
    pairs = torch.arange(0, head_width, 2, dtype=torch.float32, device=device)
    angles = torch.outer(torch.arange(frames, dtype=torch.float32, device=device), ANGLE_BASE ** (-pairs / head_width))
    return angles.cos(), angles.sin()


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Float [..., T, head_width], turned by its place; first the pairs' first halves, then their second ones."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1).to(x.dtype)


def sinusoids(frames: int, width: int, device: torch.device | None = None) -> torch.Tensor:
    """Positions float32 [frames, width], sines at even places and cosines at odd ones (arXiv 1706.03762, 3.5)."""
    pairs = torch.arange(0, width, 2, dtype=torch.float32, device=device)
    rates = torch.exp(pairs * (-math.log(ANGLE_BASE) / width))
    angles = torch.arange(frames, dtype=torch.float32, device=device)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]


def masked_mean(x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Mean over the frames that are there: float [B, T, width] and bool [B, T] to float32 [B, width]."""
    kept = x.float().masked_fill(~present[..., None], 0)
    return kept.sum(1) / present.sum(1, keepdim=True)


class Norm(nn.RMSNorm):
    """RMSNorm, in float32 also where the network runs in bf16."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=NORM_EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float [..., width], the same out."""
        return super().forward(x.float()).to(x.dtype)


class Attention(nn.Module):
    """Self-attention with rotary positions."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))

    def forward(self, x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Float [B, T, width], the same out; bool [B, T] tells which frames may be heard."""
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in self._inputs())
        cos, sin = rotation(x.shape[1], q.shape[-1], x.device)
        heard = nn.functional.scaled_dot_product_attention(
            rotated(q, cos, sin), rotated(k, cos, sin), v, attn_mask=present[:, None, None, :]
        )
        out: torch.Tensor = self.o_proj(heard.transpose(1, 2).flatten(2))
        return out

    def _inputs(self) -> tuple[nn.Module, ...]:
        return self.q_proj, self.k_proj, self.v_proj


class SwiGlu(nn.Module):
    """Gated feed-forward net."""

    def __init__(self, width: int, feed_forward: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(width, feed_forward, bias=False)
        self.w2 = nn.Linear(width, feed_forward, bias=False)
        self.w3 = nn.Linear(feed_forward, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float [B, T, width], the same out."""
        out: torch.Tensor = self.w3(nn.functional.silu(self.w1(x)) * self.w2(x))
        return out


class Block(nn.Module):
    """Attention, then feed-forward; norms come first."""

    def __init__(self, sizes: TraceSizes) -> None:
        super().__init__()
        self.attn_norm, self.ffn_norm = Norm(sizes.width), Norm(sizes.width)
        self.attn = Attention(sizes.width, sizes.heads)
        self.mlp = SwiGlu(sizes.width, sizes.feed_forward)

    def forward(self, x: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Float [B, T, width], the same out."""
        x = x + self.attn(self.attn_norm(x), present)
        out: torch.Tensor = x + self.mlp(self.ffn_norm(x))
        return out


class RotaryEncoder(nn.Module):
    """The encoder of LF and CE: projection, a convolution over neighbours, blocks."""

    def __init__(self, sizes: TraceSizes) -> None:
        super().__init__()
        self.input_proj = nn.Linear(sizes.inputs, sizes.width)
        self.conv = nn.Sequential(nn.Conv1d(sizes.width, sizes.width, CONV_KERNEL, padding="same"), nn.ReLU())
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.final_norm = Norm(sizes.width)

    def forward(self, x: torch.Tensor, present: torch.Tensor, published_padding: bool = False) -> torch.Tensor:
        """Float [B, T, inputs] to [B, T, width]; what stands at absent frames has no meaning."""
        x = self.input_proj(x)
        if not published_padding:
            # Else the convolution hears the projection's bias behind a sequence that is not the batch's longest.
            x = x.masked_fill(~present[..., None], 0)
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x, present)
        out: torch.Tensor = self.final_norm(x)
        return out


class PlainEncoder(nn.Module):
    """The encoder of `base_transformer`: sinusoidal positions and PyTorch's own layers."""

    def __init__(self, sizes: TraceSizes) -> None:
        super().__init__()
        self.in_proj = nn.Linear(sizes.inputs, sizes.width)
        layer = nn.TransformerEncoderLayer(
            sizes.width, sizes.heads, sizes.feed_forward, activation="gelu", batch_first=True, norm_first=True
        )
        self.enc = nn.TransformerEncoder(layer, sizes.layers, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor, present: torch.Tensor, published_padding: bool = False) -> torch.Tensor:
        """Float [B, T, inputs] to [B, T, width]; frames do not hear absent ones, however those are padded."""
        x = self.in_proj(x)
        x = x + sinusoids(x.shape[1], x.shape[2], x.device).to(x.dtype)
        out: torch.Tensor = self.enc(x, src_key_padding_mask=~present)
        return out


class Aux(nn.Module):
    """Categories, context and relationship as one vector."""

    def __init__(self, sizes: AuxSizes) -> None:
        super().__init__()
        self.cat_embs = nn.ModuleList(nn.Embedding(card, sizes.category_width) for card in sizes.cards)
        joined = len(sizes.cards) * sizes.category_width
        self.cat_proj = _projection(joined, sizes.part_width, normed=False)
        self.ctx_proj = _projection(sizes.context_width, sizes.part_width, sizes.context_norm)
        self.rel_proj = _projection(sizes.relation_width, sizes.part_width, sizes.relation_norm)

    def forward(self, categories: torch.Tensor, context: torch.Tensor, relation: torch.Tensor) -> torch.Tensor:
        """Integers [B, cards], float [B, context_width] and [B, relation_width] to [B, 3 part_width]."""
        embedded = [layer(column) for layer, column in zip(self.cat_embs, categories.T, strict=True)]
        parts = [self.cat_proj(torch.cat(embedded, dim=-1)), self.ctx_proj(context), self.rel_proj(relation)]
        return torch.cat(parts, dim=-1)


def _projection(inputs: int, outputs: int, normed: bool) -> nn.Sequential:
    norm = [nn.LayerNorm(inputs)] if normed else []
    return nn.Sequential(*norm, nn.Linear(inputs, outputs), nn.ReLU())


class CrossLayer(nn.Module):
    """The query hears the encoder's frames; then feed-forward."""

    def __init__(self, width: int, heads: int, feed_forward: int) -> None:
        super().__init__()
        self.norm_q, self.norm_kv = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.ffn = nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, feed_forward),
            nn.GELU(),
            nn.Identity(),
            nn.Linear(feed_forward, width),
        )

    def forward(self, query: torch.Tensor, tokens: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Float [B, 1, width] and [B, T, width] to [B, 1, width]."""
        source = self.norm_kv(tokens)
        heard, _ = self.attn(self.norm_q(query), source, source, key_padding_mask=~present, need_weights=False)
        query = query + heard
        out: torch.Tensor = query + self.ffn(query)
        return out


class CrossAttention(nn.Module):
    """Layers of one query token."""

    def __init__(self, sizes: TraceSizes) -> None:
        super().__init__()
        size = (sizes.width, sizes.heads, sizes.cross_feed_forward)
        self.layers = nn.ModuleList(CrossLayer(*size) for _ in range(sizes.cross_layers))

    def forward(self, query: torch.Tensor, tokens: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
        """Float [B, width] and [B, T, width] to [B, width]."""
        query = query[:, None]
        for layer in self.layers:
            query = layer(query, tokens, present)
        return query[:, 0]
