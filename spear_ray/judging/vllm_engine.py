"""A judge that vLLM holds in its own process beside this one: continuous batching, and a prefix cache.

The choice is made with `allowed_token_ids` and not as a structured output: vLLM (0.32) applies a grammar's mask before
it takes log-probabilities, so that the choices would always have the whole probability.
"""

from __future__ import annotations

import gc
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spear_ray.checkpoints.convert import THINKER
from spear_ray.dialogue import SAMPLE_RATE_HZ, Problem
from spear_ray.errors import CheckpointMissing, ClusterError, PrerequisiteError
from spear_ray.judging.asking import Failed, Prompt, Reply, Written
from spear_ray.judging.settings import HERE, INSTALL, JudgeSettings, quiet_environment

REFUSED, DIED = "judge_refused", "judge_engine_died"
CLIPS = 2
"""Most clips of a prompt: what comes before, and the target."""
SEED = 0
KV_CACHE_GIB = "2"
"""On a machine without a GPU, where vLLM would take half of the memory."""

PARTS = 16
"""Into which a batch is cut at which the engine died: a prompt that kills it is found within few starts."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class VllmEngine:
    """Holds the judge; an engine that dies is started again and asked again.

    Args:
        settings: of the judge, with `engine=vllm`.

    Raises:
        PrerequisiteError: vLLM or the checkpoint is missing, or none that it can judge with.
        ClusterError: the engine does not start.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        quiet_environment()
        self.settings = settings
        self.deaths = 0
        self._starts_left = settings.restarts + 1
        self.path = _folder(settings)
        self._processor = _processor(self.path)
        self._llm: Any = self._started()

    def choose(self, prompts: Sequence[Prompt], choices: Sequence[str]) -> list[Reply | Failed]:
        """See `Engine`."""
        from vllm import SamplingParams

        ids = [self._token_id(choice) for choice in choices]
        wanted = SamplingParams(
            temperature=0, max_tokens=1, allowed_token_ids=ids, logprobs=len(ids), logprob_token_ids=ids
        )

        def read(output: Any) -> Reply | Failed:
            found = output.logprobs[0]
            return Reply({choice: float(found[one].logprob) for choice, one in zip(choices, ids, strict=True)})

        return self._all(prompts, wanted, read)

    def write(self, prompts: Sequence[Prompt], most_tokens: int, stop: str) -> list[Written | Failed]:
        """See `Engine`."""
        from vllm import SamplingParams

        wanted = SamplingParams(temperature=0, max_tokens=most_tokens, stop=[stop])
        return self._all(prompts, wanted, lambda output: Written(output.text, output.finish_reason == "stop"))

    def close(self) -> None:
        """Stop the engine's processes."""
        self._llm = None
        gc.collect()

    def _all(self, prompts: Sequence[Prompt], wanted: Any, read: Callable[[Any], T | Failed]) -> list[T | Failed]:
        """Ask all of it at once; where that cannot be, in parts, down to the prompt that is at fault."""
        if not prompts:
            return []
        found = self._at_once(prompts, wanted, read)
        if not isinstance(found, Problem):
            return found
        if len(prompts) == 1:
            return [Failed(found)]
        step = -(-len(prompts) // PARTS)
        parts = (prompts[first : first + step] for first in range(0, len(prompts), step))
        return [one for part in parts for one in self._all(part, wanted, read)]

    def _at_once(
        self, prompts: Sequence[Prompt], wanted: Any, read: Callable[[Any], T | Failed]
    ) -> list[T | Failed] | Problem:
        """One call of the engine, started again where it died before; why there is no answer."""
        from vllm.exceptions import VLLMValidationError
        from vllm.v1.engine.exceptions import EngineDeadError

        if self._llm is None:
            self._llm = self._started()
        try:
            outputs = self._llm.generate([self._rendered(one) for one in prompts], wanted, use_tqdm=False)
        except EngineDeadError:
            log.warning("the judge's engine died; it is started again")
            self.deaths += 1
            self.close()
            return Problem(DIED, "the judge's engine died at this prompt, also when it was asked nothing else")
        except (VLLMValidationError, ValueError) as error:  # too long, too many clips
            return Problem(REFUSED, f"vLLM does not take the prompt: {_first_line(error)}")
        self._starts_left = self.settings.restarts  # only deaths in a row end the run
        return [read(one.outputs[0]) for one in outputs]

    def _started(self) -> Any:
        """A running engine.

        Raises:
            PrerequisiteError: vLLM does not know the model.
            ClusterError: it does not start, or has died too often.
        """
        from vllm import LLM

        if self._starts_left < 1:
            raise ClusterError(
                f"the judge's engine died {self.settings.restarts + 1} times in a row ({HERE}.restarts); what is"
                " committed stays, the same command continues there"
            )
        self._starts_left -= 1
        try:
            return LLM(**self._options())
        except (ValueError, KeyError, AttributeError) as error:
            raise PrerequisiteError(f"{HERE}.checkpoint={self.settings.checkpoint}: {_first_line(error)}") from error
        except (RuntimeError, OSError) as error:
            raise ClusterError(f"the judge's engine does not start: {_first_line(error)}") from error

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        options: dict[str, Any] = {
            "model": str(self.path),
            "dtype": settings.dtype,
            "max_model_len": settings.max_model_len,
            "max_num_seqs": settings.max_num_seqs,
            "tensor_parallel_size": settings.tensor_parallel,
            "limit_mm_per_prompt": {"audio": CLIPS, "image": 0, "video": 0},
            "enable_prefix_caching": True,
            "seed": SEED,
            "disable_log_stats": True,
        }
        if settings.tensor_parallel > 1:
            # Inside a Ray actor vLLM would ask Ray for more GPUs than the actor holds.
            options["distributed_executor_backend"] = "mp"
        if _has_gpu():
            return options | {"gpu_memory_utilization": settings.gpu_memory}
        os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", KV_CACHE_GIB)
        return options | {"enforce_eager": True}

    def _rendered(self, prompt: Prompt) -> dict[str, Any]:
        """A prompt in the model's own chat template, and its clips."""
        messages: list[dict[str, Any]] = [{"role": "system", "content": prompt.system}] if prompt.system else []
        messages.append({"role": "user", "content": [_part(part) for part in prompt.parts]})
        text = self._processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        clips = [(clip, SAMPLE_RATE_HZ) for clip in prompt.clips]
        return {"prompt": text + prompt.opening, "multi_modal_data": {"audio": clips}}

    def _token_id(self, choice: str) -> int:
        ids = self._processor.tokenizer.encode(choice, add_special_tokens=False)
        if len(ids) != 1:
            raise PrerequisiteError(
                f"{HERE}.checkpoint={self.settings.checkpoint}: '{choice}' is {len(ids)} tokens of this model, not one"
            )
        return int(ids[0])


def _folder(settings: JudgeSettings) -> Path:
    """Where the checkpoint lies; a thinker alone is refused with what to do."""
    found = settings.wanted.found
    if not isinstance(found, Path):
        raise found
    config = found / "config.json"
    if config.is_file() and json.loads(config.read_bytes()).get("model_type") == THINKER:
        raise PrerequisiteError(
            f"{HERE}.checkpoint={settings.checkpoint} is a thinker alone, which vLLM does not read:"
            f" spear-ray checkpoints convert {found} TARGET, then {HERE}.checkpoint=TARGET"
        )
    return found


def _processor(path: Path) -> Any:
    """The checkpoint's own processor: chat template and tokenizer; none of its code is run."""
    try:
        from transformers import AutoProcessor

        processor = AutoProcessor.from_pretrained(path, trust_remote_code=False)  # type: ignore[no-untyped-call]
    except ImportError as error:
        raise PrerequisiteError(f"{HERE}.engine=vllm: {INSTALL} ({_first_line(error)})") from error
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointMissing(f"{path} holds no processor of an audio LLM: {_first_line(error)}") from error
    if not getattr(processor, "chat_template", None):
        raise PrerequisiteError(f"{path} has no chat template: take an instruction-tuned audio LLM")
    return processor


def _part(part: Any) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": "audio"}


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
