"""Mimi's continuous features: 24 kHz audio to 12.5 vectors a second, before the quantiser.

Source: Défossez et al. 2024, Moshi, section 3.3 (the codec); weights and sizes of `kyutai/mimi`. Only the encoder
half is built. DualTurn calls its parts one after the other, without masks, and so do we.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence
from transformers import AttentionInterface, MimiConfig
from transformers.models.mimi.modeling_mimi import MimiConv1d, MimiEncoder, MimiTransformerModel

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.tensors import CONFIG, WEIGHTS, load_strictly, read_config, read_safetensors

MIMI_RATE_HZ = 24_000  # kyutai/mimi, config.json

# What the published file holds besides the encoder half.
_NOT_ENCODER = ("decoder.", "decoder_transformer.", "upsample.", "quantizer.")
_FETCH = "hf download kyutai/mimi --local-dir FOLDER"
_ATTENTION = "spear_ray_causal_window"
_NO_WINDOW = 2**31 - 1  # frames; longer than any audio
_BLOCK_FRAMES = 500  # of the convolutions, 20 s: two channels then need about 1 GB at full size


class Mimi(nn.Module):
    """The encoder half of Mimi.

    Memory: the convolutions run on blocks of 20 s, so theirs does not grow. The transformer's grows linearly with the
    audio: attention within the window runs block by block, without the window in a fused kernel, and neither ever
    holds a [frames, frames] matrix. At full size 30 min of two channels (2 x 45,000 frames at 25 Hz) take about 3 GB.

    Args:
        config: sizes, as published.
        sliding_window: True attends to the last `config.sliding_window` frames at 25 Hz only, as transformers 5.x
            does. False ignores the window, as transformers 4.x did (with sdpa), so that frames differ from the
            window's length on (10 s as published). It is not recorded which of both made TurnNat's published numbers.
    """

    def __init__(self, config: MimiConfig, sliding_window: bool = True) -> None:
        super().__init__()
        if not sliding_window:
            config.sliding_window = _NO_WINDOW
        config._attn_implementation = _ATTENTION
        self.encoder = MimiEncoder(config)
        self.encoder_transformer = MimiTransformerModel(config)
        stride = config.encodec_frame_rate / config.frame_rate
        self.downsample = MimiConv1d(
            config,
            config.hidden_size,
            config.hidden_size,
            kernel_size=2 * int(stride),
            stride=int(stride),
            bias=False,
            pad_mode="replicate",
        )
        self._hop, reach = _hop_and_reach(self.encoder)
        self._context = math.ceil(reach / self._hop) - 1

    @property
    def width(self) -> int:
        """Size of a feature vector."""
        return self.downsample.conv.out_channels

    @torch.inference_mode()
    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """Features of audio of one length.

        Args:
            audio: float32 [rows, samples] at 24 kHz, mono, at least one sample.

        Returns:
            float32 [rows, ceil(samples / 1920), D].
        """
        return self.features([audio])[0]

    @torch.inference_mode()
    def features(self, audio: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Features of audio of several lengths, each as it would be alone.

        The last frame of audio that does not fill it depends on how each layer is padded. So the convolutions take
        one length at a time and only the transformer, which is causal, sees zeros after the shorter ones.

        Args:
            audio: each float32 [rows, samples] at 24 kHz, mono rows, at least one sample.

        Returns:
            For each, float32 [rows, ceil(samples / 1920), D].
        """
        frames = [self._convolved(rows) for rows in audio]
        padded = pad_sequence([row for rows in frames for row in rows], batch_first=True)
        hidden = self.encoder_transformer(padded, use_cache=False).last_hidden_state
        groups = hidden.split([len(rows) for rows in frames])
        return [self._downsampled(group[:, : rows.shape[1]]) for group, rows in zip(groups, frames, strict=True)]

    def _convolved(self, audio: torch.Tensor) -> torch.Tensor:
        """[rows, samples] to [rows, frames at 25 Hz, D], by blocks that see all the audio that reaches into them.

        Blocks are whole frames, so only the last one is padded on the right. They also keep lengths small enough for
        transformers, which counts the padding in float32: that is off from 2**24 samples (11.7 min) on.
        """
        out = []
        for start in range(0, audio.shape[-1], _BLOCK_FRAMES * self._hop):
            lead = min(start // self._hop, self._context)
            block = audio[:, None, start - lead * self._hop : start + _BLOCK_FRAMES * self._hop]
            out.append(self.encoder(block)[..., lead:])
        return torch.cat(out, dim=-1).transpose(1, 2)

    def _downsampled(self, frames: torch.Tensor) -> torch.Tensor:
        halved: torch.Tensor = self.downsample(frames.transpose(1, 2))
        return halved.transpose(1, 2)


def load_mimi(folder: str | Path, sliding_window: bool = True) -> Mimi:
    """Mimi's encoder half from a Hugging Face folder.

    Args:
        folder: config.json and model.safetensors, as published; the decoder's, quantiser's and upsampling's tensors
            may be there and are left out.
        sliding_window: see `Mimi`.

    Returns:
        In evaluation mode, float32, on the CPU.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: a file is damaged, describes another model, or a tensor is missing, unknown or misshapen.
    """
    path = Path(folder) / WEIGHTS
    config = _config(Path(folder))
    tensors = read_safetensors(path, _FETCH)
    mimi = Mimi(config, sliding_window)
    load_strictly(mimi, {key: value for key, value in tensors.items() if not key.startswith(_NOT_ENCODER)}, str(path))
    return mimi.eval()


def _config(folder: Path) -> MimiConfig:
    values = read_config(folder, "mimi", _FETCH)
    try:
        config = MimiConfig.from_dict(values)
    except StrictDataclassError as error:
        raise PrerequisiteError(f"{folder / CONFIG} does not describe a Mimi: {error}: {_FETCH}") from error
    for field, wanted in (("use_causal_conv", True), ("audio_channels", 1), ("sampling_rate", MIMI_RATE_HZ)):
        if getattr(config, field) != wanted:
            found = getattr(config, field)
            raise PrerequisiteError(f"{folder / CONFIG}: {field} is {found}, must be {wanted}: {_FETCH}")
    return config


def _hop_and_reach(encoder: nn.Module) -> tuple[int, int]:
    """Samples from one frame to the next, and samples that one frame depends on (its own hop and some before it)."""
    hop, reach = 1, 1
    for conv in reversed([module for module in encoder.modules() if isinstance(module, nn.Conv1d)]):
        hop *= conv.stride[0]
        reach = (reach - 1) * conv.stride[0] + (conv.kernel_size[0] - 1) * conv.dilation[0] + 1
    return hop, reach


def _causal_window(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    sliding_window: int,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention to oneself and the `sliding_window` - 1 frames before; [rows, heads, T, d] to [rows, T, heads, d]."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    head = [part[:, :, :sliding_window] for part in (query, key, value)]
    out = scaled_dot_product_attention(head[0], head[1], head[2], is_causal=True, scale=scaling)
    if query.shape[2] > sliding_window:
        tail = _later_blocks(query, key, value, sliding_window, scaling)
        out = torch.cat([out, tail], dim=2)
    return out.transpose(1, 2), None


def _later_blocks(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, window: int, scale: float
) -> torch.Tensor:
    """Outputs from frame `window` on: each block of `window` queries sees its own and the previous block of keys."""
    queries = _blocks(query[:, :, window:], window, window)
    keys, values = _blocks(key, 2 * window, window), _blocks(value, 2 * window, window)
    # Query i of a block stands at key i + window of its pair of blocks.
    age = torch.arange(window, device=query.device)[:, None] + window - torch.arange(2 * window, device=query.device)
    seen = (age >= 0) & (age < window)
    out = scaled_dot_product_attention(queries, keys, values, attn_mask=seen, scale=scale)
    joined = out.reshape(len(query), -1, *out.shape[1:]).transpose(1, 2).flatten(2, 3)
    return joined[:, :, : query.shape[2] - window]


def _blocks(frames: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """[rows, heads, T, d] to [rows x blocks, heads, size, d], with zeros after the end."""
    whole = pad(frames, (0, 0, 0, -frames.shape[2] % step))
    return whole.unfold(2, size, step).permute(0, 2, 1, 4, 3).flatten(0, 1)


AttentionInterface.register(_ATTENTION, _causal_window)
