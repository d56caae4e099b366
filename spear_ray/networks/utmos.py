"""UTMOS22's strong learner: an estimate of how listeners rate the naturalness of synthetic speech.

SPEARBench's UTMOS is this network with the weights of SpeechMOS, which are on no package index. What it is not: a
measure of naturalness in conversation; recorded people score lower than clean synthetic voices.

Source: Saeki et al. 2022 (arXiv 2204.02152); github.com/tarepan/SpeechMOS (`utmos22_strong`), whose names the file has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from spear_ray.dialogue import Samples
from spear_ray.errors import OutOfGpuMemory, PrerequisiteError
from spear_ray.networks.batching import best_device, padded, run_halving
from spear_ray.networks.tensors import Tensors, load_strictly, read_pickle, read_safetensors
from spear_ray.sides import parts

LONGEST_S = 60.0
"""Of what the network hears at once. The published code hears clips whole; its attention grows with their square, so
that longer ones are cut into the fewest equal parts here, whose scores are averaged."""

STRIDES = (5, 2, 2, 2, 2, 2, 2)
HEAD = 64
"""Width of an attention head, as in every wav2vec 2.0."""

SPREAD, CENTRE = 2.0, 3.0
"""From the network's output to a mean opinion score."""

FETCH = "get utmos22_strong_step7459_v1.pt from the releases of github.com/tarepan/SpeechMOS"

RENAMED = (
    (r"^(feature_extractor\.conv_layers\.\d+)\.0\.", r"\1.conv."),
    (r"^(feature_extractor\.conv_layers\.0)\.2\.", r"\1.layer_norm."),
    (r"^layer_norm\.", "feature_projection.layer_norm."),
    (r"^post_extract_proj\.", "feature_projection.projection."),
    (r"^encoder\.pos_conv\.0\.weight_g$", "encoder.pos_conv_embed.conv.parametrizations.weight.original0"),
    (r"^encoder\.pos_conv\.0\.weight_v$", "encoder.pos_conv_embed.conv.parametrizations.weight.original1"),
    (r"^encoder\.pos_conv\.0\.", "encoder.pos_conv_embed.conv."),
    (r"\.self_attn\.", ".attention."),
    (r"\.self_attn_layer_norm\.", ".layer_norm."),
    (r"\.fc1\.", ".feed_forward.intermediate_dense."),
    (r"\.fc2\.", ".feed_forward.output_dense."),
    (r"^mask_emb$", "masked_spec_embed"),
)
"""From the file's names within `wav2vec2.` to those of transformers."""


class UtmosNetwork(nn.Module):
    """Encoder, two constant embeddings, a BLSTM, and a score for each frame.

    Args:
        tensors: of the checkpoint: all sizes are read off them.
    """

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        from transformers import Wav2Vec2Model

        domain, judge = (tensors[name].shape[-1] for name in ("domain_emb", "judge_emb"))
        hidden = tensors["blstm.weight_hh_l0"].shape[-1]
        width, inner = (tensors[f"wav2vec2.{name}"].shape[0] for name in ("mask_emb", "encoder.layers.0.fc1.weight"))
        self.wav2vec2: Any = Wav2Vec2Model(_encoder_config(tensors, width, inner))
        self.domain_emb = nn.Parameter(torch.zeros(1, domain))
        self.judge_emb = nn.Parameter(torch.zeros(1, judge))
        self.blstm = nn.LSTM(width + domain + judge, hidden, batch_first=True, bidirectional=True)
        between = tensors["projection.0.weight"].shape[0]
        self.projection = nn.Sequential(nn.Linear(2 * hidden, between), nn.ReLU(), nn.Linear(between, 1))

    def forward(self, audio: torch.Tensor) -> torch.Tensor:
        """[1, samples] to a mean opinion score [1]."""
        frames = self.wav2vec2(audio).last_hidden_state
        constant = torch.cat([self.domain_emb, self.judge_emb], dim=1)
        joined = torch.cat([frames, constant[:, None].expand(-1, frames.shape[1], -1)], dim=2)
        scores: torch.Tensor = self.projection(self.blstm(joined)[0]).mean(dim=1).squeeze(1)
        return scores * SPREAD + CENTRE


class Utmos:
    """The network with its weights; each clip is heard alone, so that its score depends on nothing else.

    Args:
        path: the published .pt file, or its tensors as safetensors.

    Raises:
        PrerequisiteError: the file is damaged or of another model.
    """

    def __init__(self, path: Path) -> None:
        self._device = best_device()
        self._network = read_utmos(path).eval().to(self._device)

    def scores(self, clips: Sequence[Samples]) -> list[float | OutOfGpuMemory]:
        """Mean opinion score of each clip; of a clip longer than `LONGEST_S` the mean over its parts.

        Args:
            clips: float32 [samples] at 16 kHz each, at least 400 samples.
        """
        return [self._score(clip) for clip in clips]

    def _score(self, clip: Samples) -> float | OutOfGpuMemory:
        found = [run_halving(self._run, [part])[0] for part in parts(clip, LONGEST_S, "parts")]
        failed = next((one for one in found if isinstance(one, OutOfGpuMemory)), None)
        return failed if failed is not None else float(np.mean([one for one in found if isinstance(one, float)]))

    def _run(self, batch: Sequence[Samples]) -> list[float]:
        with torch.inference_mode():
            return [float(self._network(padded([one], one.size, self._device))[0]) for one in batch]


def read_utmos(path: Path) -> UtmosNetwork:
    """The network of a checkpoint, every tensor of which is accounted for.

    Raises:
        PrerequisiteError: the file is damaged or of another model.
    """
    found = read_safetensors(path, FETCH) if path.suffix == ".safetensors" else read_pickle(path, FETCH)
    if not isinstance(found, dict) or not all(isinstance(one, torch.Tensor) for one in found.values()):
        raise PrerequisiteError(f"{path} holds no table of tensors: {FETCH}")
    tensors: Tensors = {str(key): value for key, value in found.items()}
    try:
        network = UtmosNetwork(tensors)
    except (KeyError, IndexError, ValueError, ZeroDivisionError) as error:
        raise PrerequisiteError(f"{path} has the tensors of another model ({error}): {FETCH}") from error
    load_strictly(network, {_renamed(key): value for key, value in tensors.items()}, str(path))
    return network


def _renamed(key: str) -> str:
    head, _, rest = key.partition(".")
    if head != "wav2vec2":
        return key
    for pattern, name in RENAMED:
        rest = re.sub(pattern, name, rest)
    return f"wav2vec2.{rest}"


def _encoder_config(tensors: Mapping[str, torch.Tensor], width: int, inner: int) -> Any:
    from transformers import Wav2Vec2Config

    convolutions = [
        tensors[f"wav2vec2.feature_extractor.conv_layers.{place}.0.weight"] for place in range(len(STRIDES))
    ]
    position = tensors["wav2vec2.encoder.pos_conv.0.weight_v"]
    layers = {key.split(".")[3] for key in tensors if key.startswith("wav2vec2.encoder.layers.")}
    return Wav2Vec2Config(
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=len(layers),
        num_attention_heads=width // HEAD,
        conv_dim=[weight.shape[0] for weight in convolutions],
        conv_kernel=[weight.shape[2] for weight in convolutions],
        conv_stride=list(STRIDES),
        conv_bias=False,
        feat_extract_norm="group",
        do_stable_layer_norm=False,
        num_conv_pos_embeddings=position.shape[2],
        num_conv_pos_embedding_groups=position.shape[0] // position.shape[1],
        vocab_size=32,
    )
