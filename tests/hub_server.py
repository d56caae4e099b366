"""A small Hugging Face hub on loopback: as much of its API as the client asks for when it fetches a model.

Large files (`*.safetensors`, `*.bin`) are as on the hub: `resolve` redirects to a store, and their ETag is the SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

LARGE = (".safetensors", ".bin")


@dataclass
class Repository:
    """One model at one commit."""

    files: dict[str, bytes]
    revisions: tuple[str, ...] = ("main",)
    gated: bool = False

    @property
    def commit(self) -> str:
        listing = "".join(f"{name}:{_sha256(data)}" for name, data in sorted(self.files.items()))
        return hashlib.sha1(listing.encode()).hexdigest()

    def tree(self) -> list[dict[str, object]]:
        return [_entry(name, data) for name, data in self.files.items()]


@dataclass
class Hub:
    """What it has, and what it was asked: method, path, and whether with a token."""

    repositories: dict[str, Repository]
    broken: bool = False
    requests: list[tuple[str, str, bool]] = field(default_factory=list)
    endpoint: str = ""

    @property
    def store(self) -> str:
        """Under another name of this machine: the client follows redirects within the hub's own host by itself."""
        return f"http://localhost:{urlsplit(self.endpoint).port}/store"

    @property
    def fetched(self) -> set[str]:
        """Names of the files whose content was asked for."""
        paths = [path for method, path, _ in self.requests if method == "GET"]
        plain = {path.split("/resolve/")[1].split("/", 1)[1] for path in paths if "/resolve/" in path}
        large = {path.removeprefix("/store/") for path in paths if path.startswith("/store/")}
        every = (file for one in self.repositories.values() for file in one.files.items())
        return plain | {name for name, data in every if _sha256(data) in large}


@contextmanager
def running(repositories: dict[str, Repository]) -> Iterator[Hub]:
    """A hub for the time of a with block."""
    hub = Hub(repositories)

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *values: object) -> None:
        """Nothing: the hub keeps its own list."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.hub.requests.append((self.command, path, "Authorization" in self.headers))
        if self.hub.broken:
            self._answer(503, b"")
        elif path.startswith("/api/models/"):
            self._describe(path.removeprefix("/api/models/").split("/"))
        elif path.startswith("/store/"):
            self._answer(200, self._stored(path.removeprefix("/store/")))
        elif "/resolve/" not in path:
            self._answer(404, b"")
        else:
            self._resolve(path.strip("/").split("/"))

    def _describe(self, parts: list[str]) -> None:
        found = self._found("/".join(parts[:2]), unquote(parts[3]))
        if found is None:
            return
        answer = found.tree() if parts[2] == "tree" else {"id": "/".join(parts[:2]), "sha": found.commit}
        self._answer(200, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _resolve(self, parts: list[str]) -> None:
        name = unquote("/".join(parts[4:]))
        found = self._found("/".join(parts[:2]), unquote(parts[3]))
        if found is None:
            return
        commit = {"X-Repo-Commit": found.commit}
        if found.gated:
            self._answer(403, b"", {**commit, "X-Error-Code": "GatedRepo"})
        elif name not in found.files:
            self._answer(404, b"", {**commit, "X-Error-Code": "EntryNotFound"})
        elif name.endswith(LARGE):
            data = found.files[name]
            linked = {"X-Linked-Etag": f'"{_sha256(data)}"', "X-Linked-Size": str(len(data))}
            self._answer(302, b"", {**commit, **linked, "Location": f"{self.hub.store}/{_sha256(data)}"})
        else:
            self._answer(200, found.files[name], {**commit, "ETag": f'"{_git_id(found.files[name])}"'})

    def _found(self, name: str, revision: str) -> Repository | None:
        """The repository; where it or the revision is not there, that is answered."""
        found = self.hub.repositories.get(name)
        if found is None:
            self._answer(401, b"", {"X-Error-Code": "RepoNotFound"})
        elif revision not in (*found.revisions, found.commit):
            self._answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            return None
        return found

    def _stored(self, digest: str) -> bytes:
        every = (data for one in self.hub.repositories.values() for data in one.files.values())
        return next(data for data in every if _sha256(data) == digest)

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _entry(name: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(data), "oid": _git_id(data)}
    if name.endswith(LARGE):
        entry["lfs"] = {"oid": _sha256(data), "size": len(data), "pointerSize": 134}
    return entry


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _git_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
