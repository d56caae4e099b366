"""Models behind somebody's HTTP server: settings, and requests that end in bounded time and give nothing away.

Only the standard library is used. A key comes from the environment, and never into a message, a row or an identity:
what a server or the library says of a failure is not repeated, because it may hold the key.
"""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from spear_ray.dialogue import Problem
from spear_ray.errors import ConfigError, PrerequisiteError

MOST_BYTES = 8 << 20
"""Of an answer; text needs some kilobytes."""
READ_BYTES = 1 << 16
LONGEST_WAIT_S = 30.0
"""Between two tries."""
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed later (RFC 9110, RFC 6585)."""

T = TypeVar("T")


@dataclass(kw_only=True)
class ServerSettings:
    """Settings of an OpenAI-compatible server.

    Args:
        base_url: http:// or https://, without the `/v1`.
        model: what the server calls its model.
        key_variable: environment variable that holds the key, on every machine that scores; empty sends none.
        timeout_s: of one request, all of it.
        retries: further tries after a failure that may pass.
        backoff_s: before the first of them; doubles each time, 30 s at most.
        concurrency: requests at a time, from each actor.
    """

    base_url: str = ""
    model: str = ""
    key_variable: str = ""
    timeout_s: float = 120.0
    retries: int = 3
    backoff_s: float = 0.5
    concurrency: int = 4


def check_server(where: str, settings: ServerSettings) -> None:
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


def missing_key(where: str, settings: ServerSettings) -> PrerequisiteError | None:
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


class Server:
    """Posts requests, again where that may help; what fails is a Problem.

    Args:
        settings: of the server.
        codes: what the codes of its problems begin with: `<codes>_timeout`, `_unreachable`, `_refused`, `_failed`.
    """

    def __init__(self, settings: ServerSettings, codes: str) -> None:
        self.settings = settings
        self.codes = codes
        self._opener = urllib.request.build_opener(_NoRedirect)

    def post(self, path: str, content_type: str, body: bytes, read: Callable[[bytes], T | Problem]) -> T | Problem:
        """One request, tried as often as the settings allow.

        Args:
            path: below `base_url`.
            content_type: of the body.
            body: what is sent.
            read: makes a value or a Problem out of an answer with status 2xx; its problems are not tried again.
        """
        wait = self.settings.backoff_s
        for _ in range(self.settings.retries):
            found, may_pass = self._tried(path, content_type, body, read)
            if not may_pass:
                return found
            time.sleep(min(wait, LONGEST_WAIT_S))
            wait *= 2
        return self._tried(path, content_type, body, read)[0]

    def _tried(
        self, path: str, content_type: str, body: bytes, read: Callable[[bytes], T | Problem]
    ) -> tuple[T | Problem, bool]:
        """What one request gives, and whether another could give more."""
        try:
            return read(self._asked(path, content_type, body)), False
        except urllib.error.HTTPError as error:
            error.close()
            return self._of_status(error.code), error.code in AGAIN
        except TimeoutError:
            return self._timed_out(), True
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(getattr(error, "reason", None), TimeoutError):
                return self._timed_out(), True
            text = f"the server did not answer ({type(error).__name__})"
            return Problem(f"{self.codes}_unreachable", text), True

    def _timed_out(self) -> Problem:
        return Problem(f"{self.codes}_timeout", f"the server gave no whole answer in {self.settings.timeout_s} s")

    def _of_status(self, status: int) -> Problem:
        phrase = http.client.responses.get(status, "")
        if status in AGAIN:
            return Problem(f"{self.codes}_failed", f"the server failed with HTTP {status} {phrase}".strip())
        return Problem(f"{self.codes}_refused", f"the server refused the request with HTTP {status} {phrase}".strip())

    def _asked(self, path: str, content_type: str, body: bytes) -> bytes:
        """The body of an answer with status 2xx.

        Raises:
            OSError, HTTPException: as urllib raises them; TimeoutError also where the answer as a whole takes long.
        """
        ends = time.monotonic() + self.settings.timeout_s
        request = self._request(path, content_type, body)
        with self._opener.open(request, timeout=self.settings.timeout_s) as response:
            answer = bytearray()
            while part := response.read1(READ_BYTES):
                answer += part
                if len(answer) > MOST_BYTES:
                    break  # what is cut is no JSON, and is refused as that
                if time.monotonic() > ends:
                    raise TimeoutError
            if response.length and len(answer) <= MOST_BYTES:
                raise http.client.IncompleteRead(b"")
        return bytes(answer)

    def _request(self, path: str, content_type: str, body: bytes) -> urllib.request.Request:
        url = self.settings.base_url.rstrip("/") + path
        request = urllib.request.Request(url, body, method="POST")  # noqa: S310
        request.add_header("Content-Type", content_type)
        request.add_header("Accept", "application/json")
        key = os.environ.get(self.settings.key_variable, "").strip() if self.settings.key_variable else ""
        if key:
            request.add_unredirected_header("Authorization", f"Bearer {key}")
        return request
