"""Loads published VAP checkpoints: sizes are read from the tensors, and every tensor is accounted for.

Known: ErikEkstedt/VAP (state dict), its older naming without `transformer.`, Lightning checkpoints, TurnNat's training
checkpoints, MaAI's state dicts (20, 10 and 5 Hz).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.cpc import CPC_HZ, Recurrence
from spear_ray.networks.tensors import load_strictly, read_pickle, read_safetensors
from spear_ray.networks.vap import Vap, codebook
from spear_ray.networks.vap_layers import VapSizes

FETCH = "get VAP_state_dict.pt from https://github.com/ErikEkstedt/VAP (example/checkpoints)"
NESTED = ("state_dict", "model_state", "model_state_dict")
GATES: dict[int, Recurrence] = {4: "LSTM", 3: "GRU"}
DEFAULT_HZ = 50.0
DEFAULT_KERNEL = 5
"""Of the last convolution, in CPC frames. MaAI's kernels are as wide as their stride; 5 is also that of its 20 Hz."""

CODEBOOK = "objective.codebook.emb.weight"
EXTRA = re.compile(
    r"^(VAP\.codebook.*|(encoder\d?\.)?encoder\.gAR\.hidden|(bc_head|nod_head|bc_detect|lid_classifier|lang_condition)\..*"
    r"|fvad_head\..*)$"
)
"""Tensors that the model does not use: heads for other tasks, buffers of training."""

MAAI = re.compile(r"^(encoder1|bc_head|nod_head|bc_detect|lid_classifier|lang_condition)\.")
"""Tensors that only MaAI's files have."""

# MaAI's real-time models hold the encoder twice, once for each channel; both must be the same.
RENAMED = (
    (re.compile(r"^((net|model|backbone)\.)+"), ""),
    (re.compile(r"^encoder[12]\."), "encoder."),
    (re.compile(r"^(ar_channel|ar)\."), r"transformer.\1."),
    (re.compile(r"^vap_head\.projection_head\."), "vap_head."),
)
CPC = "encoder.encoder."
HEADS = "transformer.ar_channel.layers.0.mha.m"
SIZED = {
    "encoder.downsample.1.weight": 3,
    "encoder.encoder.gAR.baseNet.weight_ih_l0": 2,
    "vap_head.weight": 2,
    "transformer.ar_channel.layers.0.ffnetwork.0.weight": 2,
    HEADS: 1,
}
"""Tensors that tell the sizes, and how many dimensions each has."""

TURNNAT_HEAD = re.compile(r"^vap_head_256\.(net\.)?")

Tensors = dict[str, torch.Tensor]


def load_vap(path: str | Path, frame_hz: float = 0.0) -> Vap:
    """A VAP model from its file.

    Args:
        path: .safetensors, or a file of torch.save (only tensors and plain data are read).
        frame_hz: of the model; 0 reads it off the kernel of its last convolution. A kernel of 5 stands for 50 Hz, or
            for 20 Hz where the file is MaAI's: its name has `_20hz_`, or it holds MaAI's heads or two encoders.

    Returns:
        In evaluation mode, float32, on the CPU.

    Raises:
        CheckpointMissing: there is no such file.
        PrerequisiteError: it is damaged or something else, or a tensor is missing, unknown or misshapen.
    """
    file = Path(path)
    found = _read(file)
    tensors = _named_as_ours(found, file)
    is_maai = "_20hz_" in file.name or any(MAAI.match(key) for key in found)
    model = Vap(_sizes(tensors, file, frame_hz, is_maai))
    load_strictly(model, tensors, str(file))
    return model.eval()


def _read(path: Path) -> Mapping[str, Any]:
    content = read_safetensors(path, FETCH) if path.suffix == ".safetensors" else read_pickle(path, FETCH)
    for key in NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise PrerequisiteError(f"{path} holds no dictionary of tensors: {FETCH}")
    return content


def _named_as_ours(found: Mapping[str, torch.Tensor], path: Path) -> Tensors:
    """Under `Vap`'s names, without what it does not use; the codebook is checked and made anew."""
    has_turnnat_head = any(TURNNAT_HEAD.match(_our_name(key)) for key in found)
    ours: Tensors = {}
    for key, tensor in found.items():
        name = _our_name(key)
        if TURNNAT_HEAD.match(name):
            name = TURNNAT_HEAD.sub("vap_head.", name)
        elif EXTRA.match(name) or (has_turnnat_head and name.startswith("vap_head.")):
            continue
        if name in ours and not torch.equal(ours[name], tensor):
            raise PrerequisiteError(f"{path} has two different tensors for {name}, one is called {key}: {FETCH}")
        ours[name] = tensor
    if CODEBOOK in ours and not torch.equal(ours[CODEBOOK].float(), codebook()):
        raise PrerequisiteError(f"{path}: {CODEBOOK} is not VAP's code of 256 classes; other codes are not known here")
    ours[CODEBOOK] = codebook()
    return ours


def _our_name(key: str) -> str:
    for pattern, replacement in RENAMED:
        key = pattern.sub(replacement, key)
    return key


def _sizes(tensors: Tensors, path: Path, frame_hz: float, is_maai: bool) -> VapSizes:
    encoder, recurrent, head, feed_forward, slopes = _shapes(tensors, path)
    gates = recurrent[0] // recurrent[1]
    if gates not in GATES:
        raise PrerequisiteError(f"{path}: a recurrent net with {gates} gates is neither LSTM nor GRU: {FETCH}")
    if head[1] % slopes[0]:
        raise PrerequisiteError(
            f"{path}: {HEADS} has {slopes[0]} heads, which do not divide the width {head[1]}: {FETCH}"
        )
    rate = frame_hz or _rate(encoder[2], is_maai)
    return VapSizes(
        encoder_width=encoder[0],
        recurrence=GATES[gates],
        levels=_count(tensors, r"^encoder\.encoder\.gAR\.baseNet\.weight_ih_l(\d+)$"),
        kernel=encoder[2],
        stride=_stride(rate, encoder[2], path),
        width=head[1],
        feed_forward=feed_forward[0],
        heads=slopes[0],
        self_layers=_count(tensors, r"^transformer\.ar_channel\.layers\.(\d+)\."),
        cross_layers=_count(tensors, r"^transformer\.ar\.layers\.(\d+)\."),
        vad_before_cross=rate != DEFAULT_HZ,
    )


def _rate(kernel: int, is_maai: bool) -> float:
    return DEFAULT_HZ if kernel == DEFAULT_KERNEL and not is_maai else CPC_HZ / kernel


def _stride(rate: float, kernel: int, path: Path) -> int:
    """CPC frames per model frame: published models have a kernel of 5 at 50 Hz, or one as wide as the stride."""
    stride = CPC_HZ / rate
    if stride != round(stride):
        raise PrerequisiteError(f"{path}: vap.frame_hz={rate} must divide {CPC_HZ}")
    if kernel != stride and (rate, kernel) != (DEFAULT_HZ, DEFAULT_KERNEL):
        raise PrerequisiteError(
            f"{path}: a model of {rate:g} Hz does not have a last convolution of {kernel} frames: correct vap.frame_hz"
        )
    return round(stride)


def _shapes(tensors: Tensors, path: Path) -> list[torch.Size]:
    """Of the tensors that tell the sizes."""
    missing = [key for key in SIZED if key not in tensors]
    if not any(key.startswith(CPC) for key in tensors):
        missing.append(f"all of its audio encoder ({CPC}gEncoder.* and {CPC}gAR.*)")
    if missing:
        raise PrerequisiteError(f"{path} lacks {', '.join(missing)}: it is no whole VAP model. {FETCH}")
    for key, dimensions in SIZED.items():
        shape = tuple(tensors[key].shape)
        if len(shape) != dimensions or 0 in shape:
            raise PrerequisiteError(f"{path}: {key} has shape {shape}, not {dimensions} dimensions: {FETCH}")
    return [tensors[key].shape for key in SIZED]


def _count(tensors: Tensors, pattern: str) -> int:
    return len({match[1] for key in tensors if (match := re.match(pattern, key))})
