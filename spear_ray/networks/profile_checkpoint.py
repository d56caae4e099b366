"""Loads Vox-Profile and VoxLect checkpoints: sizes from the tensors, LoRA merged, every tensor accounted for.

Format: a folder with `model.safetensors` and `config.json` (the constructor's arguments), as PyTorchModelHubMixin
writes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.geometry import count, shape, wave_config, whisper_config, without_prefix
from spear_ray.networks.profile_heads import HEADS
from spear_ray.networks.tensors import CONFIG, WEIGHTS, load_strictly, read_config, read_safetensors
from spear_ray.networks.wave_profile import WaveProfile
from spear_ray.networks.whisper_profile import POSITIONS, WhisperProfile

Tensors = dict[str, torch.Tensor]
Profile = WhisperProfile | WaveProfile

BACKBONE = "backbone_model."
LORA = re.compile(r"^(.*)\.lora_([AB])$")
UNUSED = re.compile(r"^(backbone_model\.decoder\.|dataset_layer\.)")
"""Whisper's decoder, and the head that told the training corpora apart (gradient reversal)."""
HEAD = re.compile(rf"^(model_seq|{'|'.join(HEADS)})\.")


def is_profile(tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether these are the tensors of a Vox-Profile or VoxLect model."""
    return any(key.startswith(BACKBONE) for key in tensors) and "model_seq.0.weight" in tensors


def load_profile(folder: Path, fetch: str, **backbone: Any) -> Profile:
    """A model from its folder.

    Args:
        folder: holds model.safetensors and config.json.
        fetch: what to do to have it, for the message.
        backbone: what is known of the encoder besides its tensors, in transformers' names.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: damaged, or a tensor is missing, unknown or misshapen.
    """
    return profile_in(folder, read_safetensors(folder / WEIGHTS, fetch), fetch, **backbone)


def profile_in(folder: Path, tensors: Mapping[str, torch.Tensor], fetch: str, **backbone: Any) -> Profile:
    """A model from its folder whose tensors are read already; see `load_profile`."""
    model = profile_of(tensors, str(folder / WEIGHTS), **backbone)
    _check_rank(read_config(folder, "", fetch), tensors, folder / CONFIG)
    return model


def profile_of(tensors: Mapping[str, torch.Tensor], source: str, **backbone: Any) -> Profile:
    """A model from its tensors, in evaluation mode, float32, on the CPU.

    Args:
        tensors: under the published names.
        source: where they come from, for the message.
        backbone: as for `load_profile`.
    """
    if not is_profile(tensors):
        raise PrerequisiteError(f"{source} holds no Vox-Profile or VoxLect model: no {BACKBONE}* and model_seq.*")
    used = merged({key: value for key, value in tensors.items() if not UNUSED.match(key)}, source)
    model = (
        _whisper(used, source, backbone) if f"{BACKBONE}encoder.conv1.weight" in used else _wave(used, source, backbone)
    )
    return model.eval().requires_grad_(False)


def merged(tensors: Mapping[str, torch.Tensor], source: str) -> Tensors:
    """Tensors with each LoRA added to its weight: W + B A / rank (loralib with its default alpha of 1).

    Source: LoRA (Hu et al. 2021, section 4.1).

    Raises:
        PrerequisiteError: half of a pair is missing, or shapes do not fit.
    """
    pairs: dict[str, dict[str, torch.Tensor]] = {}
    plain: Tensors = {}
    for key, value in tensors.items():
        if match := LORA.match(key):
            pairs.setdefault(match.group(1), {})[match.group(2)] = value
        else:
            plain[key] = value
    for name, pair in pairs.items():
        weight = plain.get(f"{name}.weight")
        if weight is None or pair.keys() != {"A", "B"}:
            raise PrerequisiteError(f"{source}: {name} must have weight, lora_A and lora_B")
        down, up = pair["A"].float(), pair["B"].float()
        if up.shape[1:] != down.shape[:1] or (up.shape[0], down.shape[1]) != tuple(weight.shape):
            raise PrerequisiteError(f"{source}: lora_A and lora_B of {name} do not fit its weight")
        plain[f"{name}.weight"] = weight.float() + up @ down / down.shape[0]
    return plain


def _whisper(tensors: Tensors, source: str, known: Mapping[str, Any]) -> WhisperProfile:
    encoder = without_prefix(tensors, f"{BACKBONE}encoder.")
    positions = tensors.get("embed_positions", encoder.get("embed_positions.weight"))
    if positions is None or positions.ndim != 2 or len(positions) < POSITIONS:
        raise PrerequisiteError(f"{source} must have embed_positions with at least {POSITIONS} rows")
    # The published forward pass puts this copy in the place of the encoder's own.
    encoder["embed_positions.weight"] = positions[:POSITIONS]
    width, sizes = _head_sizes(tensors, source)
    model = WhisperProfile(whisper_config(encoder, POSITIONS, source, **known), width, sizes)
    # `weights` is there and not read: Whisper's models take the last layer.
    ours = _head(tensors) | {f"encoder.{key}": value for key, value in encoder.items()}
    _check_rest(tensors, {"weights", "embed_positions"}, source)
    load_strictly(model, ours, source)
    return model


def _wave(tensors: Tensors, source: str, known: Mapping[str, Any]) -> WaveProfile:
    backbone = without_prefix(tensors, BACKBONE)
    config = wave_config(backbone, source, **known)
    (layers,) = shape(tensors, "weights", 1, source)
    width, sizes = _head_sizes(tensors, source)
    model = WaveProfile(config, width, sizes, with_input=layers == config.num_hidden_layers + 1)
    if config.feat_extract_norm == "group":
        model.batch_clips = 1  # a group norm's statistics would take in the padding
    ours = _head(tensors) | {f"backbone.{key}": value for key, value in backbone.items()}
    _check_rest(tensors, {"weights"}, source)
    load_strictly(model, ours | {"weights": tensors["weights"]}, source)
    return model


def _head(tensors: Tensors) -> Tensors:
    return {f"head.{key}": value for key, value in tensors.items() if HEAD.match(key)}


def _head_sizes(tensors: Tensors, source: str) -> tuple[int, dict[str, int]]:
    width = shape(tensors, "model_seq.0.weight", 3, source)[0]
    names = [name for name in HEADS if f"{name}.2.weight" in tensors]
    return width, {name: shape(tensors, f"{name}.2.weight", 2, source)[0] for name in names}


def _check_rest(tensors: Tensors, used: set[str], source: str) -> None:
    rest = sorted(key for key in tensors if key not in used and not key.startswith(BACKBONE) and not HEAD.match(key))
    if rest:
        raise PrerequisiteError(f"{source} has unknown {', '.join(rest[:8])}: these are the tensors of another model")


def _check_rank(config: Mapping[str, Any], tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """The rank that config.json states must be that of the tensors: the scale of LoRA depends on it."""
    ranks = {len(value) for key, value in tensors.items() if key.endswith(".lora_A")}
    stated = config.get("lora_rank")
    if ranks and stated is not None and ranks != {stated}:
        raise PrerequisiteError(f"{path} says lora_rank={stated}, the tensors have {sorted(ranks)}")
    if ranks and count(tensors, r"^(.*)\.lora_A$") != count(tensors, r"^(.*)\.lora_B$"):
        raise PrerequisiteError(f"{path.with_name(WEIGHTS)} has lora_A and lora_B in different numbers")
