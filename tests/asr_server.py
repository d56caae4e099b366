"""A real HTTP server on loopback that answers as an OpenAI-compatible recogniser, well or badly."""

import io
import json
import threading
import wave
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

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


@dataclass
class AsrServer:
    """What it does with requests, in their order; the last one is done with all further ones.

    Each is a dict (sent as JSON), bytes (sent as they are), a status, or a word: `hang` (no answer), `half` (a part of
    one, then nothing), `drop` (the connection ends), `short` (it ends within the answer), `slow` (a byte now and then,
    for ever).
    """

    deeds: list = field(default_factory=lambda: [GOOD])
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_deed(self) -> object:
        with self.lock:
            return self.deeds[0] if len(self.deeds) == 1 else self.deeds.pop(0)


@contextmanager
def running(*deeds: object) -> Iterator[AsrServer]:
    """A server that does these with its requests."""
    asr = AsrServer(list(deeds) or [GOOD])
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"asr": asr}))
    server.daemon_threads = True
    asr.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield asr
    finally:
        asr.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asr: AsrServer

    def log_message(self, format: str, *values: object) -> None:
        """Nothing: the server keeps its own list."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asr.asked.append(_asked(self.path, self.headers, body))
        deed = self.asr.next_deed()
        self.close_connection = True
        if isinstance(deed, dict):
            self._answer(200, json.dumps(deed).encode())
        elif isinstance(deed, bytes):
            self._answer(200, deed)
        elif isinstance(deed, int):
            self._answer(deed, f"no: {self.headers.get('Authorization')}".encode())
        elif deed == "hang":
            self.asr.closing.wait(60)
        elif deed == "half":
            self._head(200, 1000)
            self.wfile.write(b'{"text": "hal')
            self.wfile.flush()
            self.asr.closing.wait(60)
        elif deed == "short":
            self._head(200, 1000)
            self.wfile.write(b'{"text": "whole"}')
        elif deed == "slow":
            self._head(200, 1_000_000)
            while not self.asr.closing.wait(0.01):
                self.wfile.write(b" ")
                self.wfile.flush()

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if 300 <= status < 400:
            self.send_header("Location", f"{self.asr.url}/elsewhere")
        self.end_headers()

    def _answer(self, status: int, body: bytes) -> None:
        self._head(status, len(body))
        self.wfile.write(body)


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
