"""Sizes of published speech encoders, read off their tensors: their files do not state them.

What tensors cannot tell (number of attention heads, strides) is the same in all published encoders of a kind, and can
be overridden for others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from transformers import Wav2Vec2Config, WavLMConfig, WhisperConfig

from spear_ray.errors import PrerequisiteError

Tensors = dict[str, torch.Tensor]

WHISPER_HEAD = 64
"""Width of one attention head in every Whisper (Radford et al. 2022, table 1)."""
WAVE_HEADS = 16
"""Heads of every large wav2vec2: 1024 wide (300 M), 1280 (1 B), 1920 (2 B); base models have heads of 64."""
WAVE_LARGE = 1024
STRIDES = (5, 2, 2, 2, 2, 2, 2)
"""Of the seven convolutions of wav2vec2 and WavLM: 320 samples a frame (Baevski et al. 2020)."""
TRAINING_ONLY = "masked_spec_embed"
RELATIVE = "encoder.layers.0.attention.rel_attn_embed.weight"

WEIGHT_NORM = (
    (re.compile(r"\.weight_g$"), ".parametrizations.weight.original0"),
    (re.compile(r"\.weight_v$"), ".parametrizations.weight.original1"),
)
"""Older torch names of a weight-normed convolution."""


def whisper_config(tensors: Tensors, positions: int, source: str, **known: Any) -> WhisperConfig:
    """The encoder's configuration.

    Args:
        tensors: of the encoder, without prefix (`conv1.weight`, `layers.0.fc1.weight`, ...).
        positions: how many are used.
        source: file, for the message.
        known: what is known besides, in transformers' names; wins.
    """
    width, mels = shape(tensors, "conv1.weight", 3, source)[:2]
    layers = count(tensors, r"^layers\.(\d+)\.")
    found = {
        "d_model": width,
        "num_mel_bins": mels,
        "encoder_layers": layers,
        "encoder_attention_heads": max(1, width // WHISPER_HEAD),
        "encoder_ffn_dim": shape(tensors, "layers.0.fc1.weight", 2, source)[0],
        "max_source_positions": positions,
    }
    # The decoder is never made: its sizes do not matter.
    return WhisperConfig(**{**found, **known, "max_source_positions": positions, "use_cache": False})


def wave_config(tensors: Tensors, source: str, **known: Any) -> WavLMConfig | Wav2Vec2Config:
    """The configuration of a WavLM or wav2vec2 encoder.

    Args:
        tensors: of the whole model, without prefix (`encoder.layer_norm.weight`, ...).
        source: file, for the message.
        known: what is known besides, in transformers' names; wins.
    """
    convolutions = count(tensors, r"^feature_extractor\.conv_layers\.(\d+)\.")
    shapes = [shape(tensors, f"feature_extractor.conv_layers.{n}.conv.weight", 3, source) for n in range(convolutions)]
    if convolutions != len(STRIDES):
        raise PrerequisiteError(f"{source} has {convolutions} convolutions before its transformer, not {len(STRIDES)}")
    width = shape(tensors, "encoder.layer_norm.weight", 1, source)[0]
    kernel = shape(tensors, "encoder.pos_conv_embed.conv.parametrizations.weight.original1", 3, source)
    normed = "feature_extractor.conv_layers.1.layer_norm.weight" in tensors
    found: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": count(tensors, r"^encoder\.layers\.(\d+)\."),
        "num_attention_heads": WAVE_HEADS if width >= WAVE_LARGE else max(1, width // WHISPER_HEAD),
        "intermediate_size": shape(tensors, "encoder.layers.0.feed_forward.intermediate_dense.weight", 2, source)[0],
        "conv_dim": tuple(one[0] for one in shapes),
        "conv_kernel": tuple(one[2] for one in shapes),
        "conv_stride": STRIDES,
        "conv_bias": "feature_extractor.conv_layers.0.conv.bias" in tensors,
        "num_conv_pos_embeddings": kernel[2],
        "num_conv_pos_embedding_groups": width // kernel[1],
        "feat_extract_norm": "layer" if normed else "group",
        "do_stable_layer_norm": normed,
    }
    if RELATIVE in tensors:
        found["num_buckets"], found["num_attention_heads"] = shape(tensors, RELATIVE, 2, source)
    kind = WavLMConfig if RELATIVE in tensors else Wav2Vec2Config
    return kind(**{**found, **known, **NO_MASKING})


NO_MASKING = {"mask_time_prob": 0.0, "mask_feature_prob": 0.0, "apply_spec_augment": False, "layerdrop": 0.0}
"""Training only."""


def without_prefix(tensors: Mapping[str, torch.Tensor], prefix: str) -> Tensors:
    """The tensors below a prefix, under today's names and without those that only training uses."""
    found = {}
    for key, value in tensors.items():
        if key.startswith(prefix) and key != f"{prefix}{TRAINING_ONLY}":
            name = key.removeprefix(prefix)
            for pattern, replacement in WEIGHT_NORM:
                name = pattern.sub(replacement, name)
            found[name] = value
    return found


def shape(tensors: Mapping[str, torch.Tensor], key: str, dimensions: int, source: str) -> tuple[int, ...]:
    """Of a tensor that must be there.

    Raises:
        PrerequisiteError: it is not, or has another number of dimensions.
    """
    tensor = tensors.get(key)
    if tensor is None or tensor.ndim != dimensions or 0 in tensor.shape:
        found = "lacks it" if tensor is None else f"has shape {tuple(tensor.shape)}"
        raise PrerequisiteError(f"{source} must have a tensor {key} of {dimensions} dimensions but {found}")
    return tuple(tensor.shape)


def count(tensors: Mapping[str, torch.Tensor], pattern: str) -> int:
    """How many numbers there are where the pattern has a group."""
    return len({match.group(1) for key in tensors if (match := re.match(pattern, key))})
