"""Where the recorded cases lie: the folder that SPEAR_GOLDEN_DIR names, else tests/golden."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(os.environ.get("SPEAR_GOLDEN_DIR") or Path(__file__).parent / "golden") / "04_spearbench"


def files(pattern: str) -> list[Path]:
    return sorted(GOLDEN.glob(pattern))


def json_cases(pattern: str, key: str = "id") -> list:
    """A (file, case) parameter for each case of each JSON file that matches."""
    return [
        pytest.param(path, case, id=f"{path.stem}-{case[key]}")
        for path in files(pattern)
        for case in json.loads(path.read_text())["cases"]
    ]


def folder(name: str) -> Path:
    """A folder of recorded cases, for instance `06_voxprofile`."""
    return GOLDEN.parent / name


def recordings(name: str, pattern: str) -> list:
    """A (JSON content, NPZ arrays, folder) for each JSON file of a folder that matches and has an NPZ beside it."""
    found = []
    for path in sorted(folder(name).glob(pattern)):
        arrays = path.with_name(path.name.replace("_cases", "")).with_suffix(".npz")
        found.append((json.loads(path.read_text()), np.load(arrays), path.parent))
    return found
