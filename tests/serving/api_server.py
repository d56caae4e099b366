"""The real API: `serve run` with a Ray of its own, on loopback."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
START_S = 120.0


@contextmanager
def serving(folder: Path, words: Sequence[str], **environment: str) -> Iterator[str]:
    """The API's address; it and its Ray end with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = yaml.safe_load((ROOT / "deployments" / "serve_config.yaml").read_text())
    config["http_options"]["port"] = port
    config["applications"][0]["args"]["words"] = list(words)
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    serve = str(Path(sys.executable).with_name("serve"))
    # a Ray of its own, also where another one runs on this machine
    command = [serve, "run", "--address", "local", "--app-dir", str(ROOT), str(folder / "config.yaml")]
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1", **environment}
    with (folder / "log").open("wb") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | quiet, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait(process, port, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(process: subprocess.Popen, port: int, log: Path) -> None:
    ends = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"the API does not start:\n{log.read_text()[-6000:]}") from None
            time.sleep(0.3)
