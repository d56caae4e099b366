"""A real HTTP server on loopback that answers well or badly: the part that recogniser and judge have in common."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reader = Callable[[str, Message, bytes], Any]
"""Path, headers and body of a request as something that tests can look at."""


@dataclass
class Misbehaving:
    """What it does with requests, in their order; the last one is done with all further ones.

    Each is a dict (sent as JSON), bytes (sent as they are), a status, a function of the request that gives one of
    these, or a word: `hang` (no answer), `half` (a part of one, then nothing), `drop` (the connection ends), `short`
    (it ends within the answer), `slow` (a byte now and then, for ever).
    """

    deeds: list
    read: Reader
    asked: list = field(default_factory=list)
    url: str = ""
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_deed(self) -> object:
        with self.lock:
            return self.deeds[0] if len(self.deeds) == 1 else self.deeds.pop(0)


@contextmanager
def serving(deeds: Sequence[object], read: Reader) -> Iterator[Misbehaving]:
    """A server that does these with its requests."""
    ours = Misbehaving(list(deeds), read)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"ours": ours}))
    server.daemon_threads = True
    ours.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield ours
    finally:
        ours.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ours: Misbehaving

    def log_message(self, format: str, *values: object) -> None:
        """Nothing: the server keeps its own list."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = self.ours.read(self.path, self.headers, body)
        self.ours.asked.append(asked)
        deed = self.ours.next_deed()
        if callable(deed):
            deed = deed(asked)
        self.close_connection = True
        if isinstance(deed, dict):
            self._answer(200, json.dumps(deed).encode())
        elif isinstance(deed, bytes):
            self._answer(200, deed)
        elif isinstance(deed, int):
            self._answer(deed, f"no: {self.headers.get('Authorization')}".encode())
        elif deed == "hang":
            self.ours.closing.wait(60)
        elif deed == "half":
            self._head(200, 1000)
            self.wfile.write(b'{"text": "hal')
            self.wfile.flush()
            self.ours.closing.wait(60)
        elif deed == "short":
            self._head(200, 1000)
            self.wfile.write(b'{"text": "whole"}')
        elif deed == "slow":
            self._head(200, 1_000_000)
            while not self.ours.closing.wait(0.01):
                self.wfile.write(b" ")
                self.wfile.flush()

    def _head(self, status: int, length: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        if 300 <= status < 400:
            self.send_header("Location", f"{self.ours.url}/elsewhere")
        self.end_headers()

    def _answer(self, status: int, body: bytes) -> None:
        self._head(status, len(body))
        self.wfile.write(body)
