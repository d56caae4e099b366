"""Settings of the audio LLM that judges: the same for every scorer that asks it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from spear_ray.checkpoints.catalogue import JUDGE
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.networks.checkpoints import Wanted, missing
from spear_ray.remote import ServerSettings, check_server, missing_key

HERE = "judge"
ENGINES = ("vllm", "endpoint")
SERVERS = ("vllm", "openai")
DTYPES = ("auto", "bfloat16", "float16", "float32")
INSTALL = "pip install 'spear_ray[vllm]'"


@dataclass(kw_only=True)
class JudgeSettings(ServerSettings):
    """Settings of the judge: those of a server (`engine=endpoint`), and.

    Args:
        engine: `vllm` holds `checkpoint` in the scorer's own process, `endpoint` asks an OpenAI-compatible server.
        checkpoint: an audio LLM that vLLM knows: Qwen2.5-Omni, Qwen3-Omni.
        server: what the endpoint understands: `vllm` constrains the answer to the choices and opens it for the model;
            `openai` does neither, and its 20 likeliest tokens must hold the choices.
        reasoning_tokens: the most that the judge may think before it decides; 0 decides at once.
        dtype: of weights and arithmetic.
        max_model_len: tokens of one request, answer included; a second of audio has 25.
        max_num_seqs: requests that the engine works on at a time.
        gpu_memory: the part of each GPU that the engine takes for itself.
        tensor_parallel: GPUs that hold one engine together; `resources.num_gpus` of the scorers must be as many.
        restarts: how often in a row an engine that dies is started again before the run stops; a prompt that kills it
            again and again is found and becomes an error row.
    """

    engine: str = "vllm"
    checkpoint: str = "hf://Qwen/Qwen2.5-Omni-7B"
    server: str = "vllm"
    reasoning_tokens: int = 0
    dtype: str = "bfloat16"
    max_model_len: int = 8192
    max_num_seqs: int = 64
    gpu_memory: float = 0.85
    tensor_parallel: int = 1
    restarts: int = 4
    concurrency: int = 32

    @property
    def is_local(self) -> bool:
        """Whether the model is held here."""
        return self.engine == "vllm"

    @property
    def wanted(self) -> Wanted:
        """The checkpoint of a local engine."""
        return Wanted(f"{HERE}.checkpoint", self.checkpoint, "spear-ray checkpoints pull Qwen2.5-Omni-7B", JUDGE)


@dataclass(kw_only=True)
class TriplesConfig:
    """How `make_triples` makes exchanges with known scores.

    Args:
        out: folder or `s3://` prefix to write to.
        limit: triples.
        seed: of the choice of dialogues and of other replies.
        stretch: how many times faster or slower a reply gets whose words fit and whose voice does not.
        semitones: how far its pitch is moved, up or down, where it is the pitch that does not fit.
    """

    out: str = ""
    limit: int = 300
    seed: int = 0
    stretch: float = 1.7
    semitones: float = 7.0


def check_judge(where: str, judge: JudgeSettings) -> None:
    """Raises ConfigError where a value cannot be used."""
    for key, value, allowed in (
        ("engine", judge.engine, ENGINES),
        ("server", judge.server, SERVERS),
        ("dtype", judge.dtype, DTYPES),
    ):
        if value not in allowed:
            raise ConfigError(f"{where}.{key}={value}: must be one of {', '.join(allowed)}")
    for key in ("max_model_len", "max_num_seqs", "tensor_parallel"):
        if getattr(judge, key) < 1:
            raise ConfigError(f"{where}.{key}={getattr(judge, key)}: must be positive")
    if not 0 < judge.gpu_memory <= 1:
        raise ConfigError(f"{where}.gpu_memory={judge.gpu_memory}: must be in (0, 1]")
    if judge.restarts < 0 or judge.reasoning_tokens < 0:
        raise ConfigError(f"{where}: restarts and reasoning_tokens must not be negative")
    if not judge.is_local:
        check_server(where, judge)


def missing_judge(where: str, judge: JudgeSettings) -> PrerequisiteError | None:
    """What the judge lacks: vLLM and its checkpoint, or the server's key."""
    if not judge.is_local:
        return missing_key(where, judge)
    if find_spec("vllm") is None:
        return PrerequisiteError(
            f"{where}.engine=vllm needs vLLM: {INSTALL} (or {where}.engine=endpoint and a server's {where}.base_url)"
        )
    if not judge.wanted.is_wanted:
        return PrerequisiteError(f"{where}.checkpoint=none: without a judge there is nothing to score")
    return missing({"checkpoint": judge.wanted})


def identity(judge: JudgeSettings) -> Mapping[str, Any]:
    """What of the judge a score depends on; never a key."""
    if not judge.is_local:
        return {key: getattr(judge, key) for key in ("engine", "base_url", "model", "server", "reasoning_tokens")}
    settings = {key: getattr(judge, key) for key in ("engine", "dtype", "reasoning_tokens")}
    return {**settings, "checkpoint": judge.wanted.identity}


def quiet_environment() -> None:
    """Keep vLLM, and the processes that it starts, from sending usage figures, asking hubs and saying a lot."""
    for name, value in (
        ("VLLM_NO_USAGE_STATS", "1"),
        ("DO_NOT_TRACK", "1"),
        ("HF_HUB_OFFLINE", "1"),
        ("VLLM_WORKER_MULTIPROC_METHOD", "spawn"),
        ("VLLM_LOGGING_LEVEL", "WARNING"),
        ("TRANSFORMERS_VERBOSITY", "error"),
    ):
        os.environ.setdefault(name, value)
