"""A real HTTP server on loopback that answers as an OpenAI-compatible audio LLM, well or badly."""

import base64
import io
import json
import math
import wave
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from typing import Any

import numpy as np

from tests.bad_server import Misbehaving, serving

TOKENS = {"1": 16, "3": 18, "5": 20, "P": 47, "N": 45}


@dataclass
class Asked:
    """One request, as it came."""

    path: str
    authorization: str | None
    body: Mapping[str, Any]

    @property
    def clips(self) -> list[np.ndarray]:
        return [_samples(part["input_audio"]["data"]) for part in self._parts if part["type"] == "input_audio"]

    @property
    def texts(self) -> list[str]:
        return [part["text"] for part in self._parts if part["type"] == "text"]

    @property
    def kinds(self) -> list[str]:
        return [part["type"] for part in self._parts]

    @property
    def _parts(self) -> list[dict[str, Any]]:
        return next(one for one in self.body["messages"] if one["role"] == "user")["content"]


def decides(**probabilities: float) -> Mapping[str, Any]:
    """An answer whose next token has these probabilities; names may begin with an underscore."""
    named = {name.lstrip("_"): math.log(value) for name, value in probabilities.items()}
    likeliest = max(named, key=named.__getitem__)
    listed = [{"token": token, "logprob": value} for token, value in named.items()]
    content = [{"token": likeliest, "logprob": named[likeliest], "top_logprobs": listed}]
    return _completion(likeliest, "length", content)


def says(text: str, finish_reason: str = "stop") -> Mapping[str, Any]:
    """An answer in free text."""
    return _completion(text, finish_reason, None)


@contextmanager
def running(*deeds: object) -> Iterator[Misbehaving]:
    """A server that does these with what it is asked to judge; it always tells its tokens."""

    def in_turn(asked: Asked) -> object:
        if asked.path == "/tokenize":
            return {"tokens": [TOKENS[char] for char in asked.body["prompt"]]}
        with lock_of.lock:
            deed = waiting[0] if len(waiting) == 1 else waiting.pop(0)
        return deed(asked) if callable(deed) else deed

    waiting = list(deeds)
    with serving([in_turn], _asked) as lock_of:
        yield lock_of


def judged(server: Misbehaving) -> list[Asked]:
    """What it was asked to judge."""
    return [asked for asked in server.asked if asked.path == "/v1/chat/completions"]


def _completion(text: str, finish_reason: str, content: list | None) -> dict[str, Any]:
    logprobs = None if content is None else {"content": content}
    message = {"role": "assistant", "content": text}
    return {"choices": [{"message": message, "finish_reason": finish_reason, "logprobs": logprobs}]}


def _samples(data: str) -> np.ndarray:
    with wave.open(io.BytesIO(base64.b64decode(data))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (16_000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(np.float32) / 32768


def _asked(path: str, headers: Message, body: bytes) -> Asked:
    return Asked(path, headers.get("Authorization"), json.loads(body))
