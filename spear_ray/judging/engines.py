"""Engines by their settings: one in each process, however many scorers ask it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from spear_ray.judging.asking import Engine
from spear_ray.judging.settings import JudgeSettings

OF_ENGINE = ("checkpoint", "dtype", "max_model_len", "max_num_seqs", "gpu_memory", "tensor_parallel", "restarts")
"""Settings of a local engine; the others are those of the questions, or of a server."""

_held: dict[str, Engine] = {}


def engine_name(judge: JudgeSettings) -> str:
    """The same for settings that can share an engine; empty for a server, which is nothing to hold."""
    if not judge.is_local:
        return ""
    settings: Mapping[str, Any] = {key: getattr(judge, key) for key in OF_ENGINE}
    return f"judge {json.dumps(settings)}"


def engine_of(judge: JudgeSettings) -> Engine:
    """The engine, started where this process has none of that name yet.

    Raises:
        PrerequisiteError: the checkpoint is missing or none that vLLM can judge with.
        ClusterError: the engine does not start.
    """
    if not judge.is_local:
        from spear_ray.judging.endpoint import EndpointEngine

        return EndpointEngine(judge)
    name = engine_name(judge)
    if name not in _held:
        from spear_ray.judging.vllm_engine import VllmEngine

        _held[name] = VllmEngine(judge)
    return _held[name]
