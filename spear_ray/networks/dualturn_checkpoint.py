"""Loaders of DualTurn's published checkpoints: TurnNat's and DualTurn's own.

Sizes are read from the tensors and from the backbone's config.json; every tensor is accounted for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import Qwen2Config

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.dualturn import DualTurn
from spear_ray.networks.dualturn_network import CHANNEL_TASKS, DualTurnNetwork, DualTurnParts
from spear_ray.networks.files import sha256_of
from spear_ray.networks.mimi import Mimi, load_mimi
from spear_ray.networks.tensors import (
    CONFIG,
    WEIGHTS,
    Tensors,
    existing,
    load_strictly,
    read_config,
    read_pickle,
    read_safetensors,
)

RELEASED_NAME = "turnnat-dualturn-fvad256.pt"
RELEASED_SHA256 = "96472553406762c662adae1197941d42347b6ada93bb8bccb80479a72b66ba97"  # step 57,000 (TurnNat)
INFERENCE_FORMAT = "turn-taking-naturalness-inference-v1"

_FETCH = (
    f"give TurnNat's {RELEASED_NAME}, or the folder of: "
    "hf download anyreach-ai/dualturn-qwen2.5-mimi-0.5B --local-dir FOLDER"
)
_FETCH_BACKBONE = "hf download Qwen/Qwen2.5-0.5B config.json --local-dir FOLDER"

# Qwen2's vocabulary, which embeddings and heads of our own replace, and a copy of Mimi.
_UNUSED = ("backbone.embed_tokens.", "backbone.lm_head.", "_mimi_encoder.")
# The first that fits: the wrapper's name for Qwen2 with its vocabulary, with and without DualTurn's own around it.
_RENAMED = (
    (re.compile(r"^backbone\.model\.model\."), "backbone."),
    (re.compile(r"^backbone\.model\.lm_head\."), "backbone.lm_head."),
    (re.compile(r"^backbone\.model\."), "backbone."),
    (re.compile(r"^vap_head_256\.net\."), "fvad_head_256."),
)


def load_dualturn(
    checkpoint: str | Path,
    backbone: str | Path,
    mimi: str | Path,
    sliding_window: bool = True,
    check_hash: bool = True,
) -> DualTurn:
    """DualTurn from its published files; nothing is fetched and no code of theirs is run.

    Args:
        checkpoint: TurnNat's inference checkpoint (torch.save), a .safetensors file of the same tensors, or DualTurn's
            own model.safetensors or its folder (8 bits only, no head of 256 classes).
        backbone: a folder with Qwen2's config.json; its weights are not read, the checkpoint has them.
        mimi: a folder with Mimi's config.json and model.safetensors.
        sliding_window: see `spear_ray.networks.mimi.Mimi`.
        check_hash: a file named turnnat-dualturn-fvad256.pt must be the released one, by SHA-256.

    Returns:
        In evaluation mode, float32, on the CPU.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: a file is damaged, refused or another one, or a tensor is missing, unknown or misshapen.
    """
    path = _weights_file(Path(checkpoint))
    if check_hash and path.name == RELEASED_NAME:
        _check_released(path)
    config = _backbone_config(Path(backbone))
    tensors = _named_as_ours(_read(path), path)
    parts = _parts(tensors, path)
    _check_width(config, tensors, f"{Path(backbone) / CONFIG}", path)
    network = DualTurnNetwork(config, parts)
    load_strictly(network, tensors, f"{path} (with the backbone {backbone})")
    return DualTurn(_fitting_mimi(mimi, sliding_window, parts), network).eval()


def _weights_file(checkpoint: Path) -> Path:
    return existing(checkpoint / WEIGHTS if checkpoint.is_dir() else checkpoint, _FETCH)


def _check_released(path: Path) -> None:
    found = sha256_of(path)
    if found != RELEASED_SHA256:
        raise PrerequisiteError(
            f"{path} has SHA-256 {found}, the released {RELEASED_NAME} has {RELEASED_SHA256}: fetch it again, or give "
            "a checkpoint of your own another name"
        )


def _backbone_config(folder: Path) -> Qwen2Config:
    values = read_config(folder, "qwen2", _FETCH_BACKBONE)
    try:
        return Qwen2Config.from_dict(values)
    except StrictDataclassError as error:
        raise PrerequisiteError(f"{folder / CONFIG} does not describe a Qwen2: {error}: {_FETCH_BACKBONE}") from error


def _check_width(config: Qwen2Config, tensors: Tensors, described: str, path: Path) -> None:
    """Before anything is built: a larger Qwen2's config would fill the memory first."""
    width = len(_matrix(tensors, "mimi_projection.proj.2.weight", path))
    if config.hidden_size != width:
        raise PrerequisiteError(
            f"{described}: hidden_size is {config.hidden_size}, {path} was trained with {width}: {_FETCH_BACKBONE}"
        )


def _read(path: Path) -> Tensors:
    if path.suffix == ".safetensors":
        return read_safetensors(path, _FETCH)
    saved = read_pickle(path, _FETCH)
    found = saved.get("format") if isinstance(saved, dict) else None
    if found != INFERENCE_FORMAT:
        raise PrerequisiteError(f"{path}: format is {found!r}, must be '{INFERENCE_FORMAT}': {_FETCH}")
    state = saved.get("model_state")
    if not isinstance(state, dict) or not all(map(_is_named_tensor, state.items())):
        raise PrerequisiteError(f"{path}: model_state is not a dictionary of tensors: {_FETCH}")
    return state


def _is_named_tensor(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], torch.Tensor)


def _named_as_ours(tensors: Mapping[str, torch.Tensor], path: Path) -> Tensors:
    """Under `DualTurnNetwork`'s names, without what it does not use."""
    ours: Tensors = {}
    for key, value in tensors.items():
        name = _our_name(key)
        if name in ours:
            raise PrerequisiteError(f"{path} has {name} twice, once as {key}: {_FETCH}")
        if not name.startswith(_UNUSED):
            ours[name] = value
    return ours


def _our_name(key: str) -> str:
    name = key.removeprefix("model.")
    for pattern, replacement in _RENAMED:
        if pattern.match(name):
            return pattern.sub(replacement, name)
    return name


def _parts(tensors: Tensors, path: Path) -> DualTurnParts:
    projection = _matrix(tensors, "mimi_projection.proj.0.weight", path)
    hidden = {task: f"{task}_head_ch0.0.weight" for task in CHANNEL_TASKS}
    return DualTurnParts(
        feature_width=projection.shape[1] // 2,
        head_widths={task: len(_matrix(tensors, key, path)) for task, key in hidden.items() if key in tensors},
        layer_weights=any(key.startswith("task_layer_weights.") for key in tensors),
        classes=any(key.startswith("fvad_head_256.") for key in tensors),
        source=str(path),
    )


def _matrix(tensors: Tensors, key: str, path: Path) -> torch.Tensor:
    tensor = tensors.get(key)
    if tensor is None or tensor.ndim != 2:
        found = "lacks it" if tensor is None else f"has shape {list(tensor.shape)}"
        raise PrerequisiteError(f"{path} must have a matrix {key} but {found}: {_FETCH}")
    return tensor


def _fitting_mimi(folder: str | Path, sliding_window: bool, parts: DualTurnParts) -> Mimi:
    mimi = load_mimi(folder, sliding_window)
    if mimi.width != parts.feature_width:
        raise PrerequisiteError(
            f"{folder} gives {mimi.width} features, {parts.source} was trained on {parts.feature_width}: give its Mimi"
        )
    return mimi
