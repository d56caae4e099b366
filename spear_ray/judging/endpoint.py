"""A judge behind an OpenAI-compatible server: `POST {base_url}/v1/chat/completions` with audio."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar

from spear_ray.dialogue import Problem
from spear_ray.judging.asking import PARSE_ERROR, Failed, Prompt, Reply, Written
from spear_ray.judging.settings import JudgeSettings
from spear_ray.pcm import wav
from spear_ray.remote import Server

CHAT, TOKENIZE = "/v1/chat/completions", "/tokenize"
CODES = "judge_endpoint"
ANSWER = f"{CODES}_answer"
LIKELIEST = 20
"""Tokens whose log-probabilities a server tells at most (OpenAI's API)."""

NEGLIGIBLE = 1e-4
"""A choice that is not among the likeliest tokens counts as impossible where it has less than this part of the choices'
probability; else nothing can be said."""

SAID = 2000
"""Characters of an answer that a row keeps."""

T = TypeVar("T")


class EndpointEngine:
    """Asks the server, several requests at a time; what fails is a `Failed`.

    Args:
        settings: of the judge, with `engine=endpoint`.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        self.settings = settings
        self._server = Server(settings, CODES)

    def choose(self, prompts: Sequence[Prompt], choices: Sequence[str]) -> list[Reply | Failed]:
        """See `Engine`."""
        if not prompts:
            return []
        wanted: dict[str, Any] = {"max_tokens": 1, "logprobs": True, "top_logprobs": LIKELIEST}
        if self._is_vllm:
            ids = self._token_ids(choices)
            if isinstance(ids, Problem):
                return [Failed(ids) for _ in prompts]
            # Not a structured output: its mask would come before the log-probabilities.
            wanted |= {"allowed_token_ids": ids, "logprob_token_ids": ids}
        return self._all(prompts, wanted, lambda body: _read_choice(body, choices))

    def write(self, prompts: Sequence[Prompt], most_tokens: int, stop: str) -> list[Written | Failed]:
        """See `Engine`."""
        return self._all(prompts, {"max_tokens": most_tokens, "stop": [stop]}, _read_text)

    @property
    def _is_vllm(self) -> bool:
        return self.settings.server == "vllm"

    def _all(
        self, prompts: Sequence[Prompt], wanted: Mapping[str, Any], read: Callable[[bytes], T | Failed]
    ) -> list[T | Failed]:
        def one(prompt: Prompt) -> T | Failed:
            body = json.dumps({**self._body(prompt), **wanted}).encode()
            found: T | Failed | Problem = self._server.post(CHAT, "application/json", body, read)
            return Failed(found) if isinstance(found, Problem) else found

        with ThreadPoolExecutor(self.settings.concurrency) as pool:
            return list(pool.map(one, prompts))

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [{"role": "system", "content": prompt.system}] if prompt.system else []
        messages.append({"role": "user", "content": [_part(part) for part in prompt.parts]})
        body: dict[str, Any] = {"model": self.settings.model, "messages": messages, "temperature": 0}
        if prompt.opening and self._is_vllm:
            messages.append({"role": "assistant", "content": prompt.opening})
            body |= {"add_generation_prompt": False, "continue_final_message": True}
        return body

    def _token_ids(self, choices: Sequence[str]) -> list[int] | Problem:
        """The choices' tokens by the server's own tokenizer."""
        unknown = [choice for choice in choices if choice not in self._known_ids]
        for choice in unknown:
            found = self._asked_id(choice)
            if isinstance(found, Problem):
                return found
            self._known_ids[choice] = found
        return [self._known_ids[choice] for choice in choices]

    @cached_property
    def _known_ids(self) -> dict[str, int]:
        return {}

    def _asked_id(self, choice: str) -> int | Problem:
        body = {"model": self.settings.model, "prompt": choice, "add_special_tokens": False}
        return self._server.post(
            TOKENIZE, "application/json", json.dumps(body).encode(), lambda answer: _read_id(answer, choice)
        )


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(wav(part)).decode()
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _choice_of(body: bytes) -> Mapping[str, Any] | Failed:
    """The first choice of a chat completion."""
    answer = _json(body)
    if answer is None:
        return Failed(Problem(ANSWER, "the server's answer is not JSON"))
    listed = answer.get("choices") if isinstance(answer, dict) else None
    first = listed[0] if isinstance(listed, list) and listed else None
    if not isinstance(first, dict) or not isinstance(first.get("message"), dict):
        return Failed(Problem(ANSWER, "the server's answer holds no message"))
    return first


def _read_text(body: bytes) -> Written | Failed:
    first = _choice_of(body)
    if isinstance(first, Failed):
        return first
    text = first["message"].get("content")
    if not isinstance(text, str):
        return Failed(Problem(ANSWER, "the server's answer holds no text"))
    return Written(text, first.get("finish_reason") == "stop")


def _read_choice(body: bytes, choices: Sequence[str]) -> Reply | Failed:
    first = _choice_of(body)
    if isinstance(first, Failed):
        return first
    said = str(first["message"].get("content") or "")[:SAID]
    content = (first.get("logprobs") or {}).get("content") if isinstance(first.get("logprobs"), dict) else None
    position = content[0] if isinstance(content, list) and content else None
    listed = position.get("top_logprobs") if isinstance(position, dict) else None
    if not isinstance(listed, list):
        return Failed(Problem(ANSWER, "the server's answer holds no log-probabilities"), said)
    found = dict(pair for entry in [position, *listed] if (pair := _token(entry)) is not None)
    return _complete(found, choices, said)


def _token(entry: Any) -> tuple[str, float] | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("token"), str):
        return None
    value = entry.get("logprob")
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value > 0:
        return None
    return entry["token"], float(value)


def _complete(found: Mapping[str, float], choices: Sequence[str], said: str) -> Reply | Failed:
    """Log-probabilities of the choices alone; one that is not told must be negligible."""
    told = {choice: found[choice] for choice in choices if choice in found}
    absent = [choice for choice in choices if choice not in told]
    least = min(found.values(), default=0.0)
    mass = sum(math.exp(value) for value in told.values())
    if not told or (absent and math.exp(least) > NEGLIGIBLE * mass):
        text = f"the likeliest tokens do not tell how probable {', '.join(absent)} is"
        return Failed(Problem(PARSE_ERROR, text), said)
    return Reply({**told, **dict.fromkeys(absent, -math.inf)})


def _read_id(body: bytes, choice: str) -> int | Problem:
    answer = _json(body)
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
        return Problem(ANSWER, "the server's answer holds no tokens")
    if len(tokens) != 1:
        return Problem(PARSE_ERROR, f"'{choice}' is {len(tokens)} tokens of the server's model, not one")
    return int(tokens[0])
