"""Where the recorded cases lie: the folder that SPEAR_GOLDEN_DIR names, else tests/golden."""

import json
import os
from pathlib import Path

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
