"""A recogniser behind an OpenAI-compatible server: `POST {base_url}/v1/audio/transcriptions`.

Only the standard library is used. A key comes from the environment, and never into a message, a row or an identity:
what a server or the library says of a failure is not repeated, because it may hold the key.
"""

from __future__ import annotations

import http.client
import io
import json
import math
import os
import secrets
import time
import urllib.error
import urllib.request
import wave
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Problem, Samples
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.transcripts.words import Heard, Word, language_code

PATH = "/v1/audio/transcriptions"
TIMEOUT, UNREACHABLE, REFUSED = "asr_endpoint_timeout", "asr_endpoint_unreachable", "asr_endpoint_refused"
FAILED, ANSWER = "asr_endpoint_failed", "asr_endpoint_answer"

MOST_BYTES = 8 << 20
"""Of an answer; half a minute of speech needs some kilobytes."""
READ_BYTES = 1 << 16
LONGEST_WAIT_S = 30.0
"""Between two tries."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later (RFC 9110, RFC 6585)."""


@dataclass(kw_only=True)
class EndpointSettings:
    """Settings of an OpenAI-compatible server.

    Args:
        base_url: http:// or https://, without the `/v1`.
        model: what the server calls its model.
        key_variable: environment variable that holds the key, on every machine that scores; empty sends none.
        timeout_s: of one request, all of it.
        retries: further tries after a failure that may pass.
        backoff_s: before the first of them; doubles each time, 30 s at most.
        concurrency: requests at a time, from each actor.
        words: asks for word times; servers that have none may refuse that.
    """

    base_url: str = ""
    model: str = "whisper-1"
    key_variable: str = ""
    timeout_s: float = 120.0
    retries: int = 3
    backoff_s: float = 0.5
    concurrency: int = 4
    words: bool = True


def check_endpoint(where: str, settings: EndpointSettings) -> None:
    """Raises ConfigError where a value cannot be used."""
    parts = _address(settings.base_url)
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{where}.base_url must be http://HOST or https://HOST, with a port and a path if need be")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(f"{where}.base_url must hold no user, key or query: name the key's variable in key_variable")
    if not settings.model:
        raise ConfigError(f"{where}.model is not set: what the server calls its model")
    if settings.timeout_s <= 0 or settings.backoff_s < 0 or settings.retries < 0 or settings.concurrency < 1:
        raise ConfigError(f"{where}: timeout_s and concurrency must be positive, retries and backoff_s not negative")


def _address(url: str) -> SplitResult | None:
    """None where the host or the port cannot be one."""
    try:
        parts = urlsplit(url)
        return parts if parts.port is None or parts.port > 0 else None
    except ValueError:
        return None


def missing_key(where: str, settings: EndpointSettings) -> PrerequisiteError | None:
    """Why the key cannot be sent, or None; its value is not in the message."""
    name = settings.key_variable
    if not name:
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        return PrerequisiteError(f"{where}.key_variable: the environment variable {name} is not set")
    if not (key.isascii() and key.isprintable()):
        return PrerequisiteError(f"{where}.key_variable: {name} holds characters that no HTTP header can")
    return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """None: the redirect becomes an HTTPError."""


class Endpoint:
    """Sends clips, several at a time, and gives what was heard or why not, in their order."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self._url = settings.base_url.rstrip("/") + PATH
        self._opener = urllib.request.build_opener(_NoRedirect)

    def transcribe(self, clips: Sequence[Samples]) -> list[Heard | Problem]:
        """What is said in each clip.

        Args:
            clips: float32 [samples] at 16 kHz each.
        """
        with ThreadPoolExecutor(self.settings.concurrency) as pool:
            return list(pool.map(self._one, clips))

    def _one(self, clip: Samples) -> Heard | Problem:
        audio, wait = _wav(clip), self.settings.backoff_s
        for _ in range(self.settings.retries):
            found, may_pass = self._tried(audio)
            if not may_pass:
                return found
            time.sleep(min(wait, LONGEST_WAIT_S))
            wait *= 2
        return self._tried(audio)[0]

    def _tried(self, audio: bytes) -> tuple[Heard | Problem, bool]:
        """What one request gives, and whether another could give more."""
        try:
            return _read(self._asked(audio)), False
        except urllib.error.HTTPError as error:
            error.close()
            return self._of_status(error.code), error.code in AGAIN
        except TimeoutError:
            return self._timed_out(), True
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(getattr(error, "reason", None), TimeoutError):
                return self._timed_out(), True
            return Problem(UNREACHABLE, f"the server did not answer ({type(error).__name__})"), True

    def _timed_out(self) -> Problem:
        return Problem(TIMEOUT, f"the server gave no whole answer in {self.settings.timeout_s} s")

    def _of_status(self, status: int) -> Problem:
        phrase = http.client.responses.get(status, "")
        if status in AGAIN:
            return Problem(FAILED, f"the server failed with HTTP {status} {phrase}".strip())
        return Problem(REFUSED, f"the server refused the request with HTTP {status} {phrase}".strip())

    def _asked(self, audio: bytes) -> bytes:
        """The body of an answer with status 2xx.

        Raises:
            OSError, HTTPException: as urllib raises them; TimeoutError also where the answer as a whole takes long.
        """
        ends = time.monotonic() + self.settings.timeout_s
        with self._opener.open(self._request(audio), timeout=self.settings.timeout_s) as response:
            body = bytearray()
            while part := response.read1(READ_BYTES):
                body += part
                if len(body) > MOST_BYTES:
                    break  # what is cut is no JSON, and is refused as that
                if time.monotonic() > ends:
                    raise TimeoutError
            if response.length and len(body) <= MOST_BYTES:
                raise http.client.IncompleteRead(b"")
        return bytes(body)

    def _request(self, audio: bytes) -> urllib.request.Request:
        fields = [("model", self.settings.model), ("response_format", "verbose_json"), ("temperature", "0")]
        if self.settings.words:
            fields.append(("timestamp_granularities[]", "word"))
        boundary = secrets.token_hex(16)
        request = urllib.request.Request(self._url, _multipart(boundary, fields, audio), method="POST")  # noqa: S310
        request.add_header("Content-Type", f"multipart/form-data; boundary={boundary}")
        request.add_header("Accept", "application/json")
        key = os.environ.get(self.settings.key_variable, "").strip() if self.settings.key_variable else ""
        if key:
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        return request


def _multipart(boundary: str, fields: Sequence[tuple[str, str]], audio: bytes) -> bytes:
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields
    )
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="clip.wav"\r\n'
    head += "Content-Type: audio/wav\r\n\r\n"
    return head.encode() + audio + f"\r\n--{boundary}--\r\n".encode()


def _wav(clip: Samples) -> bytes:
    """A clip as 16-bit WAV."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        file.writeframes(np.round(np.clip(clip, -1.0, 1.0) * 32767).astype("<i2").tobytes())
    return buffer.getvalue()


def _read(body: bytes) -> Heard | Problem:
    """A `verbose_json` answer."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return Problem(ANSWER, "the server's answer is not JSON")
    text = answer.get("text") if isinstance(answer, dict) else None
    if not isinstance(text, str):
        return Problem(ANSWER, "the server's answer has no text")
    name = answer.get("language")
    return Heard(text.strip(), language_code(name if isinstance(name, str) else None), _words(answer))


def _words(answer: Mapping[str, Any]) -> tuple[Word, ...] | None:
    """Word times; None where there are none, or one of them cannot be a word's."""
    listed = answer.get("words")
    if not isinstance(listed, list):
        segments = answer.get("segments")
        parts = segments if isinstance(segments, list) else []
        listed = [word for part in parts if isinstance(part, dict) for word in part.get("words") or []]
    if not listed:
        return None
    found = [_word(one) for one in listed]
    return None if None in found else tuple(one for one in found if one is not None and one.text)


def _word(entry: Any) -> Word | None:
    if not isinstance(entry, dict):
        return None
    text, start, end = entry.get("word"), entry.get("start"), entry.get("end")
    if not isinstance(text, str) or isinstance(start, bool) or isinstance(end, bool):
        return None
    if not (isinstance(start, int | float) and isinstance(end, int | float)):
        return None
    if not (math.isfinite(start) and math.isfinite(end) and 0 <= start <= end):
        return None
    return Word(text.strip(), float(start), float(end))
