"""Loads TRACE's published checkpoints: sizes are read from the tensors, and every tensor is accounted for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.tensors import Tensors, load_strictly, read_pickle, read_safetensors
from spear_ray.networks.trace import Trace
from spear_ray.networks.trace_layers import AuxSizes, Kind, TraceSizes

FETCH = "get last_model.pt from the Google Drive folder named in github.com/SathvikNapa/NaturalnessPrediction"
NESTED = ("model_state_dict", "state_dict")
PARALLEL = "module."
"""What torch.nn.DataParallel puts before every name."""

BASELINES = ("mlp", "logreg")
"""Published kinds that average over time and have no encoder."""

DEFAULT_HEADS = 8
DEFAULT_MAX_VECTORS = 512
"""Of the published training code, for a file without hyperparameters."""

# A kind's encoder, and in it: the projection, the feed-forward net of the first layer, the layers.
_ENCODERS: dict[str, tuple[Kind, str, str, str]] = {
    "audio_encoder.input_proj.weight": ("crossattn", "audio_encoder.", "mlp.w1.weight", "layers."),
    "audio.input_proj.weight": ("llama", "audio.", "mlp.w1.weight", "layers."),
    "audio.in_proj.weight": ("base_transformer", "audio.", "linear1.weight", "enc.layers."),
}
_CROSS = "xattn.layers."


def load_trace(path: str | Path, heads: int = 0, max_vectors: int = 0) -> Trace:
    """A TRACE model from its file.

    Args:
        path: .safetensors, or a file of torch.save (only tensors and plain data are read).
        heads: of attention; 0 takes the file's hyperparameter `n_heads`, else 8. Tensors do not tell it.
        max_vectors: longest sequence; 0 takes the file's hyperparameter `max_seq_len`, else 512.

    Returns:
        In evaluation mode, float32, on the CPU.

    Raises:
        CheckpointMissing: there is no such file.
        PrerequisiteError: it is damaged or something else, or a tensor is missing, unknown or misshapen.
    """
    file = Path(path)
    content = read_safetensors(file, FETCH) if file.suffix == ".safetensors" else read_pickle(file, FETCH)
    settings = _settings(content)
    tensors = _tensors(content, settings, file)
    heads = heads or _whole(settings, "n_heads", DEFAULT_HEADS, file)
    max_vectors = max_vectors or _whole(settings, "max_seq_len", DEFAULT_MAX_VECTORS, file)
    model = Trace(_sizes(tensors, heads, max_vectors, file))
    load_strictly(model, tensors, str(file))
    return model.eval()


def _settings(content: Any) -> dict[str, Any]:
    """Hyperparameters and what stands beside them, in one."""
    if not isinstance(content, dict):
        return {}
    nested = content.get("hyperparams")
    return {**content, **(nested if isinstance(nested, dict) else {})}


def _tensors(content: Any, settings: Mapping[str, Any], path: Path) -> Tensors:
    if settings.get("model_type") in BASELINES:
        raise PrerequisiteError(
            f"{path} is the baseline '{settings['model_type']}', which has no sequence encoder: TRACE-LF, TRACE-CE and "
            f"base_transformer are known here; {FETCH}"
        )
    for key in NESTED:
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(value, torch.Tensor) for value in content.values()):
        raise PrerequisiteError(f"{path} holds no dictionary of tensors: {FETCH}")
    parallel = all(key.startswith(PARALLEL) for key in content)
    return {key.removeprefix(PARALLEL) if parallel else key: value for key, value in content.items()}


def _whole(settings: Mapping[str, Any], key: str, default: int, path: Path) -> int:
    value = settings.get(key, default)
    if not isinstance(value, int) or value < 1:
        raise PrerequisiteError(f"{path}: the hyperparameter {key}={value!r} must be a whole number from 1: {FETCH}")
    return value


def _sizes(tensors: Tensors, heads: int, max_vectors: int, path: Path) -> TraceSizes:
    first = next((key for key in _ENCODERS if key in tensors), None)
    if first is None:
        raise PrerequisiteError(f"{path} has none of TRACE's encoders ({', '.join(_ENCODERS)}): {FETCH}")
    kind, prefix, gate, layers = _ENCODERS[first]
    width, inputs = _shape(tensors, first, 2, path)
    _check_heads(width, heads, kind, path)
    feed_forward, _ = _shape(tensors, f"{prefix}{layers}0.{gate}", 2, path)
    hidden, _ = _shape(tensors, "head.1.weight" if kind == "crossattn" else "head.0.weight", 2, path)
    cross = _count(tensors, _CROSS)
    return TraceSizes(
        kind=kind,
        inputs=inputs,
        width=width,
        layers=_count(tensors, prefix + layers),
        feed_forward=feed_forward,
        heads=heads,
        hidden=hidden,
        max_vectors=max_vectors,
        aux=_aux_sizes(tensors, path) if any(key.startswith("aux.") for key in tensors) else None,
        cross_layers=cross,
        cross_feed_forward=_shape(tensors, f"{_CROSS}0.ffn.1.weight", 2, path)[0] if cross else 0,
    )


def _check_heads(width: int, heads: int, kind: Kind, path: Path) -> None:
    """Rotary positions turn pairs of places in a head."""
    step = heads if kind == "base_transformer" else 2 * heads
    if width % step:
        raise PrerequisiteError(f"{path}: {heads} heads do not fit the width {width}: {FETCH}")


def _aux_sizes(tensors: Tensors, path: Path) -> AuxSizes:
    embeddings = [_shape(tensors, f"aux.cat_embs.{i}.weight", 2, path) for i in range(_count(tensors, "aux.cat_embs."))]
    part, joined = _shape(tensors, "aux.cat_proj.0.weight", 2, path)
    context_norm, relation_norm = (f"aux.{name}_proj.1.weight" in tensors for name in ("ctx", "rel"))
    return AuxSizes(
        cards=tuple(card for card, _ in embeddings),
        category_width=joined // max(1, len(embeddings)),
        context_width=_shape(tensors, f"aux.ctx_proj.{int(context_norm)}.weight", 2, path)[1],
        relation_width=_shape(tensors, f"aux.rel_proj.{int(relation_norm)}.weight", 2, path)[1],
        part_width=part,
        context_norm=context_norm,
        relation_norm=relation_norm,
    )


def _shape(tensors: Tensors, key: str, dimensions: int, path: Path) -> tuple[int, ...]:
    """Of a tensor that tells sizes."""
    if key not in tensors:
        raise PrerequisiteError(f"{path} lacks {key}: it is no whole TRACE model. {FETCH}")
    shape = tuple(tensors[key].shape)
    if len(shape) != dimensions or 0 in shape:
        raise PrerequisiteError(f"{path}: {key} has shape {shape}, not {dimensions} dimensions: {FETCH}")
    return shape


def _count(tensors: Tensors, prefix: str) -> int:
    return len({match[1] for key in tensors if (match := re.match(rf"{re.escape(prefix)}(\d+)\.", key))})
