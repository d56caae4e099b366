"""Proxies on loopback that watch what passes."""

import re
import socket
import threading
from contextlib import suppress

REQUEST = re.compile(rb"(GET|HEAD|PUT|POST|DELETE) (/[^ \r\n]*) HTTP/1\.1\r\n")


class CountingProxy:
    """Passes bytes between an HTTP client and a server on loopback.

    Counts the bytes that come from the server, and keeps the requests as "GET /bucket/key".
    """

    def __init__(self, port: int) -> None:
        self.received = 0
        self.requests: list[str] = []
        self._port = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.getsockname()[1]}"

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._server.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                self._open += [client, server]
                threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if counted:
                    self.received += len(data)
                else:
                    self.requests += [b" ".join(found).decode() for found in REQUEST.findall(data)]
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
