"""What is checked before a request's body is read, and while it is: size, token, request id."""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Scope, Receive, Send], Awaitable[None]]

TOKEN = "SPEAR_API_TOKEN"  # noqa: S105 - the name of the variable that holds it
REQUEST_ID = b"x-request-id"
"""Ray Serve's proxy gives every request one, and sends it back."""
FIT_ID = re.compile(r"^[\x21-\x7e]{1,128}$")
OPEN = ("/healthz", "/docs", "/openapi.json")
"""Routes that need no token."""

log = logging.getLogger("ray.serve")


@dataclass
class Limits:
    """What this process takes; the API sets it from its configuration.

    Args:
        max_bytes: of a request.
        report: told of each request: route, status, seconds.
    """

    max_bytes: int = 64 << 20
    report: Callable[[str, int, float], None] = lambda route, status, seconds: None


CURRENT = Limits()


class _TooLarge(Exception):
    """More bytes than are taken."""


class Guard:
    """Answers 401 without a token, 413 beyond the limit; names each request and writes one line of JSON about it.

    Args:
        app: what is asked else.
    """

    def __init__(self, app: Asgi) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await _Guarded(self.app, scope, receive, send).answer()


class _Guarded:
    def __init__(self, app: Asgi, scope: Scope, receive: Receive, send: Send) -> None:
        self.app, self.scope, self._receive, self._send = app, scope, receive, send
        self.headers = dict(scope["headers"])
        given = self.headers.get(REQUEST_ID, b"").decode("latin-1")
        self.request_id = given if FIT_ID.match(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = self.request_id
        self.taken = 0
        self.over = False
        self.status = 0

    async def answer(self) -> None:
        begun = time.monotonic()
        try:
            if not self._may():
                await self._refuse(401, "unauthorised", "the bearer token is missing or wrong")
            elif not self._fits():
                await self._too_large()
            else:
                await self._asked()
        finally:
            self._tell(time.monotonic() - begun)

    async def _asked(self) -> None:
        with contextlib.suppress(_TooLarge):
            await self.app(self.scope, self.receive, self._unless_too_large)
        if self.over and not self.status:
            await self._too_large()

    async def _unless_too_large(self, message: Message) -> None:
        """What the application says, but for its guess at why its request broke off."""
        if not self.over or self.status:
            await self.send(message)

    async def receive(self) -> Message:
        message = await self._receive()
        self.taken += len(message.get("body", b""))
        if self.taken > CURRENT.max_bytes:
            self.over = True
            raise _TooLarge
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    def _may(self) -> bool:
        """Whether the token is right; all may where none is set, and everybody may ask whether the API is well."""
        wanted = os.environ.get(TOKEN, "")
        if not wanted or self.scope["path"].endswith(OPEN):
            return True
        given = self.headers.get(b"authorization", b"")
        return hmac.compare_digest(given, f"Bearer {wanted}".encode())

    def _fits(self) -> bool:
        declared = self.headers.get(b"content-length", b"0")
        return declared.isdigit() and int(declared) <= CURRENT.max_bytes

    async def _too_large(self) -> None:
        text = f"the request has more than {CURRENT.max_bytes} bytes (serve.max_bytes)"
        await self._refuse(413, "request_too_large", text)

    async def _refuse(self, status: int, code: str, message: str) -> None:
        body = json.dumps({"error": {"code": code, "message": message}}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    def _tell(self, seconds: float) -> None:
        route = getattr(self.scope.get("route"), "path", "") or "other"
        CURRENT.report(route, self.status, seconds)
        fields = {"request_id": self.request_id, "method": self.scope["method"], "route": route}
        log.info(json.dumps({**fields, "status": self.status, "bytes": self.taken, "seconds": round(seconds, 4)}))
