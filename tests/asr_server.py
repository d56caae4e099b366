"""A real HTTP server on loopback that answers as an OpenAI-compatible recogniser, well or badly."""

import io
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser

import numpy as np

from tests.bad_server import Misbehaving, serving

WORDS = [{"word": "Hello", "start": 0.1, "end": 0.4}, {"word": "there.", "start": 0.5, "end": 0.9}]
GOOD = {"text": " Hello there. ", "language": "english", "words": WORDS}


@dataclass
class Asked:
    """One request, as it came."""

    path: str
    authorization: str | None
    fields: list[tuple[str, str]]
    samples: np.ndarray
    rate_hz: int


@contextmanager
def running(*deeds: object) -> Iterator[Misbehaving]:
    """A server that does these with its requests."""
    with serving(deeds or (GOOD,), _asked) as server:
        yield server


def _asked(path: str, headers: Message, body: bytes) -> Asked:
    whole = f"Content-Type: {headers['Content-Type']}\r\n\r\n".encode() + body
    fields, samples, rate = [], np.zeros(0), 0
    for part in BytesParser().parsebytes(whole).get_payload():
        name, content = part.get_param("name", header="content-disposition"), part.get_payload(decode=True)
        if name == "file":
            with wave.open(io.BytesIO(content)) as file:
                rate = file.getframerate()
                samples = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32768
        else:
            fields.append((name, content.decode()))
    return Asked(path, headers.get("Authorization"), fields, samples, rate)
