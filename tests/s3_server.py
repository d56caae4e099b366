"""A real S3 server on loopback (SeaweedFS from PyPI), for tests and for trying things out.

`python tests/s3_server.py [FOLDER]` starts one, makes the bucket `spear` and prints the variables to set; Ctrl-C
stops it. The keys are made up at each start and only good for this server.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

BUCKET = "spear"
START_SECONDS = 60
STOP_SECONDS = 3
TRIES = 3


def free_port() -> int:
    """A TCP port whose gRPC companion (plus 10000) is free, too."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if not 10_000 < port < 55_000:
                continue
            try:
                two.bind(("127.0.0.1", port + 10_000))
            except OSError:
                continue
            return port


@dataclass
class S3Server:
    """A running server and how to reach it."""

    folder: Path
    port: int = field(default_factory=free_port)
    key: str = field(default_factory=lambda: f"key{secrets.token_hex(8)}")
    secret: str = field(default_factory=lambda: secrets.token_hex(20))
    process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        """Start on free ports; another program may take one before the server does: then on others."""
        for _ in range(TRIES - 1):
            try:
                self._start()
                return
            except RuntimeError as error:
                if "address already in use" not in str(error):
                    raise
        self._start()

    def _start(self) -> None:
        identity = {
            "name": "tests",
            "credentials": [{"accessKey": self.key, "secretKey": self.secret}],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        config = self.folder / "s3.json"
        config.write_text(json.dumps({"identities": [identity]}))
        weed = Path(sys.executable).parent / "weed"
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        ports = {name: free_port() for name in ("master", "volume", "filer")}
        command = [
            str(weed if weed.exists() else shutil.which("weed") or "weed"),
            "server",
            f"-dir={data}",
            "-ip=127.0.0.1",
            "-ip.bind=127.0.0.1",
            *(f"-{name}.port={port}" for name, port in ports.items()),
            "-master.volumeSizeLimitMB=256",
            "-volume.max=20",
            "-s3",
            f"-s3.port={self.port}",
            f"-s3.config={config}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
        ]
        with (self.folder / "weed.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._wait()
        self._make_bucket()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process is None or self.process.poll() is not None:
                break
            try:
                urllib.request.urlopen(self.endpoint, timeout=2)
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.2)
        self.stop()
        raise RuntimeError(f"the S3 server did not start; its log:\n{(self.folder / 'weed.log').read_text()[-8000:]}")

    def _make_bucket(self) -> None:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                client.create_bucket(Bucket=BUCKET)
                client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
                return
            except (BotoCoreError, ClientError):
                if time.monotonic() > deadline:
                    self.stop()
                    raise
                time.sleep(0.3)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """A server for the time of a with block."""
    server = S3Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        # Also where the shell started this in the background and had SIGINT ignored.
        signal.signal(number, signal.default_int_handler)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="spear-s3-"))
    folder.mkdir(parents=True, exist_ok=True)
    with running(folder) as server:
        for name, value in server.environment.items():
            print(f"export {name}={value}")
        print(f"# s3://{BUCKET} on {server.endpoint}; data in {folder}; Ctrl-C stops it", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    os._exit(0)


if __name__ == "__main__":
    main()
