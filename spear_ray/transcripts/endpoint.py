"""A recogniser behind an OpenAI-compatible server: `POST {base_url}/v1/audio/transcriptions`."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from spear_ray.dialogue import Problem, Samples
from spear_ray.pcm import wav
from spear_ray.remote import Server, ServerSettings
from spear_ray.transcripts.words import Heard, Word, language_code

PATH = "/v1/audio/transcriptions"
ANSWER = "asr_endpoint_answer"


@dataclass(kw_only=True)
class EndpointSettings(ServerSettings):
    """Settings of an OpenAI-compatible server of speech recognition: those of every server, and.

    Args:
        words: asks for word times; servers that have none may refuse that.
    """

    model: str = "whisper-1"
    words: bool = True


class Endpoint:
    """Sends clips, several at a time, and gives what was heard or why not, in their order."""

    def __init__(self, settings: EndpointSettings) -> None:
        self.settings = settings
        self._server = Server(settings, "asr_endpoint")

    def transcribe(self, clips: Sequence[Samples]) -> list[Heard | Problem]:
        """What is said in each clip.

        Args:
            clips: float32 [samples] at 16 kHz each.
        """
        with ThreadPoolExecutor(self.settings.concurrency) as pool:
            return list(pool.map(self._one, clips))

    def _one(self, clip: Samples) -> Heard | Problem:
        fields = [("model", self.settings.model), ("response_format", "verbose_json"), ("temperature", "0")]
        if self.settings.words:
            fields.append(("timestamp_granularities[]", "word"))
        boundary = secrets.token_hex(16)
        body = _multipart(boundary, fields, wav(clip))
        return self._server.post(PATH, f"multipart/form-data; boundary={boundary}", body, _read)


def _multipart(boundary: str, fields: Sequence[tuple[str, str]], audio: bytes) -> bytes:
    head = "".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields
    )
    head += f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="clip.wav"\r\n'
    head += "Content-Type: audio/wav\r\n\r\n"
    return head.encode() + audio + f"\r\n--{boundary}--\r\n".encode()


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
