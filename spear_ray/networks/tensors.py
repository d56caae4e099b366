"""Reading published checkpoint files, with an account of every tensor.

Tensors come from safetensors, or from `torch.load(weights_only=True)`: no code of a checkpoint is ever run.
"""

from __future__ import annotations

import json
import pickle
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from spear_ray.errors import CheckpointMissing, PrerequisiteError

Tensors = dict[str, torch.Tensor]

PLAIN: list[Any] = [Namespace, PosixPath]
"""What training scripts put beside tensors (their arguments) and what is harmless to make."""

CONFIG = "config.json"
WEIGHTS = "model.safetensors"

_KEYS_NAMED = 8  # in a message, so that a wrong file does not print thousands


def existing(path: Path, fetch: str) -> Path:
    """The path, when it is there.

    Args:
        path: a file or a folder.
        fetch: what to do to have it, for the message.

    Raises:
        CheckpointMissing: nothing lies there.
    """
    if not path.exists():
        raise CheckpointMissing(f"{path} does not exist: {fetch}")
    return path


def read_config(folder: Path, model_type: str, fetch: str) -> dict[str, Any]:
    """A Hugging Face folder's config.json, as data: no class that it names is looked up.

    Args:
        folder: holds config.json.
        model_type: what the file's own `model_type` must be, where it has one.
        fetch: what to do to have the folder, for the message.

    Raises:
        CheckpointMissing: there is no such file.
        PrerequisiteError: it is not JSON, or describes another model.
    """
    path = existing(folder / CONFIG, fetch)
    try:
        config = json.loads(path.read_text())
    except ValueError as error:
        raise PrerequisiteError(f"{path} is not JSON ({error}): {fetch}") from error
    found = config.get("model_type", model_type) if isinstance(config, dict) else type(config).__name__
    if found != model_type:
        raise PrerequisiteError(f"{path}: model_type is '{found}', must be '{model_type}': {fetch}")
    return dict(config)


def read_safetensors(path: Path, fetch: str) -> Tensors:
    """All tensors of a safetensors file, on the CPU.

    Raises:
        CheckpointMissing: there is no such file.
        PrerequisiteError: it is damaged or of another format.
    """
    try:
        return load_file(existing(path, fetch))
    except SafetensorError as error:
        raise PrerequisiteError(f"{path} is not a whole safetensors file ({error}): {fetch}") from error


def read_pickle(path: Path, fetch: str) -> Any:
    """What `torch.save` wrote, where that is tensors and plain values only.

    Raises:
        CheckpointMissing: there is no such file.
        PrerequisiteError: it holds code or objects of other classes, or is damaged.
    """
    existing(path, fetch)
    try:
        with torch.serialization.safe_globals(PLAIN):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise PrerequisiteError(
            f"{path} was refused: it holds more than tensors and plain values, and loading those could run code "
            f"({str(error).splitlines()[0]}): {fetch}, or save its tensors as .safetensors where you trust it"
        ) from error
    except (RuntimeError, EOFError, ValueError) as error:
        raise PrerequisiteError(f"{path} is not a whole torch.save file ({error}): {fetch}") from error


def load_strictly(module: nn.Module, tensors: Mapping[str, torch.Tensor], source: str) -> None:
    """Fills every parameter of a module from tensors of the same names and shapes, and leaves no tensor over.

    Args:
        module: what to fill.
        tensors: names in the module to values.
        source: where they come from, for the message.

    Raises:
        PrerequisiteError: naming the tensors that are missing, unknown or of another shape.
    """
    wanted = module.state_dict()
    faults = [
        _listed("lacks", wanted.keys() - tensors.keys()),
        _listed("has unknown", tensors.keys() - wanted.keys()),
        _listed("has a wrong shape for", _misshapen(wanted, tensors)),
    ]
    if any(faults):
        raise PrerequisiteError(f"{source} {'; '.join(filter(None, faults))}: these are the tensors of another model")
    module.load_state_dict(dict(tensors))


def _misshapen(wanted: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor]) -> list[str]:
    shapes = [(key, tuple(tensors[key].shape), tuple(wanted[key].shape)) for key in wanted.keys() & tensors.keys()]
    return [f"{key} {found} instead of {shape}" for key, found, shape in shapes if found != shape]


def _listed(what: str, keys: set[str] | list[str]) -> str:
    names = sorted(keys)
    more = f" and {len(names) - _KEYS_NAMED} more" if len(names) > _KEYS_NAMED else ""
    return f"{what} {', '.join(names[:_KEYS_NAMED])}{more}" if names else ""
