"""Ten-minute answers in bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny_checkpoints as tiny

ROOT = Path(__file__).resolve().parents[2]
MOST_MIB = 250
"""On top of a ten-second answer. Ten minutes are 37 MiB; without windows attention alone would take gigabytes."""

SCRIPT = """
import resource, sys
from spear_ray.config import load
from spear_ray.scorers import scorer_type
from tests.clips import dialogue_of, speech

name, *words = sys.argv[1:]
scorer = scorer_type(name)(getattr(load(words).scorer, name))
scorer.setup()
for seconds in (10.0, 600.0):
    (row,) = scorer.score([dialogue_of(question=speech(8.0), answer=speech(seconds, voice=1))])
    assert row.status == "ok", row
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


@pytest.mark.parametrize("name", ["emotion", "dialect"])
def test_a_ten_minute_answer_takes_little_more_memory_than_a_short_one(name, tmp_path):
    words = {
        "emotion": [
            f"scorer.emotion.dimensions_model={tiny.whisper_dimensions(tmp_path / 'dimensions')}",
            f"scorer.emotion.trace.checkpoint={tiny.trace(tmp_path / 'last_model.pt')}",
            "scorer.emotion.trace.text_model=none",
        ],
        "dialect": [
            f"scorer.dialect.language_model={tiny.mms_lid(tmp_path / 'mms', english=30.0)}",
            f"scorer.dialect.dialect_model={tiny.voxlect(tmp_path / 'voxlect')}",
        ],
    }
    command = [sys.executable, "-c", SCRIPT, name, *words[name]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    short, long = (int(line) for line in done.stdout.split()[-2:])
    assert long - short < MOST_MIB, f"{short} MiB, then {long} MiB"
