"""The real job with the scorers that ask a judge: a server that works and fails, and vLLM's engine in the actor."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
from test_run import LIMIT_SECONDS, ROOT
from test_run_encoders import rows_of

from spear_ray.config import load
from spear_ray.scorers import scorer_type
from tests import tiny_omni
from tests.clips import speech
from tests.judge_server import decides, running

pytestmark = pytest.mark.cluster

ROLES = ("Warm", "Aloof", "Timid", "", "Warm", "Nobody knows")
SCORERS = "scorers=[wavreward,stance]"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings of two systems, some with a role that the answering side acts."""
    folder = tmp_path_factory.mktemp("data")
    lines = []
    for system in ("human", "model"):
        for number, role in enumerate(ROLES):
            name = f"{system}-{number}.wav"
            asked, answered = speech(2.5 + number / 4), speech(3 + number / 3, 1)
            channels = np.zeros((asked.size + 8000 + answered.size, 2), dtype=np.float32)
            channels[: asked.size, 0] = asked * (0.5 if system == "model" else 1)
            channels[asked.size + 8000 :, 1] = answered
            soundfile.write(folder / name, channels, 16_000, subtype="FLOAT")
            lines.append(
                {
                    "id": f"{system}-{number}", "file": name, "system": system, "conversation_id": f"c{number // 2}",
                    "question_end_s": asked.size / 16_000, "answer_start_s": 0.5, "target_role": role,
                }
            )  # fmt: skip
    with (folder / "recordings.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    return folder


def job(folder: Path, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "jobs/full_bench.py", f"run.uri={folder}", f"data.uri={data}", SCORERS, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)


def lines_of(folder: Path) -> dict[str, dict[str, str]]:
    with (folder / "benchmark.csv").open(newline="") as file:
        return {line["model"]: line for line in csv.DictReader(file)}


def test_judge_behind_a_server_fills_the_stance_columns(data, tmp_path):
    def either(asked):
        return decides(P=0.9, N=0.05) if "P or N" in asked.texts[0] else decides(_1=0.1, _3=0.3, _5=0.5)

    with running(either) as server:
        done = job(tmp_path / "run", data, "judge.engine=endpoint", f"judge.base_url={server.url}", "judge.model=m")
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["counts"] == {"stance.ok": 12, "wavreward.ok": 12}
    human = lines_of(tmp_path / "run")["human"]
    # Warm twice, Aloof and Timid: P is the acted pole of two of the four; a sure P lies above what Aloof acted, and
    # Inhibition is turned round
    assert float(human["stance_same_as_question_%"]) == 50
    assert float(human["stance_more_positive_%"]) == 25
    assert float(human["stance_more_negative_%"]) == 25
    assert "stance warmth" in (tmp_path / "run" / "report.html").read_text()


def test_server_that_fails_now_and_then_loses_no_row(data, tmp_path):
    count = iter(range(10_000))

    def moody(asked):
        number = next(count)
        if number % 7 == 3:
            return (500, "drop", b"<html>", 429, "short")[number % 5]
        return decides(P=0.9, N=0.05) if "P or N" in asked.texts[0] else decides(_1=0.1, _3=0.3, _5=0.5)

    words = ["judge.engine=endpoint", "judge.model=m", "judge.retries=1", "judge.backoff_s=0.01"]
    with running(moody) as server:
        done = job(tmp_path / "run", data, *words, f"judge.base_url={server.url}")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    for name in ("stance", "wavreward"):
        rows = rows_of(tmp_path / "run", name)
        assert len(rows) == 12
        for row in rows.values():
            assert (row["status"] == "ok") == bool(row["metrics"])
            assert row["status"] == "ok" or row["code"].startswith("judge_endpoint_")
    assert sum(record["counts"].values()) == 24
    assert any(".error." in key for key in record["counts"])
    assert done.returncode == 1


def test_server_that_is_gone_is_error_rows_and_no_hang(data, tmp_path):
    words = ["judge.engine=endpoint", "judge.model=m", "judge.retries=0", "judge.base_url=http://127.0.0.1:9"]
    done = job(tmp_path / "run", data, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["counts"] == {
        "stance.error.judge_endpoint_unreachable": 12,
        "wavreward.error.judge_endpoint_unreachable": 12,
    }


def test_judge_that_is_not_here_stops_a_run_that_names_it(data, tmp_path):
    done = job(tmp_path / "run", data, "judge.checkpoint=/nowhere/at/all")
    assert done.returncode == 2
    assert "judge" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.vllm
@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed: python tests/install_vllm.py")
def test_engine_in_the_actor_gives_the_rows_of_the_scorers_alone(data, tmp_path):
    checkpoint = tiny_omni.make(tmp_path / "omni")
    words = [f"judge.checkpoint={checkpoint}", "judge.dtype=float32", "judge.max_model_len=4096"]
    done = job(tmp_path / "run", data, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [one for one in psutil.process_iter(["name"]) if one.info["name"] == "VLLM::EngineCore"]
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["counts"] == {"stance.ok": 12, "wavreward.ok": 12}
    assert record["scorers"]["wavreward"]["identity"]["judge"]["checkpoint"]
    forward = tiny_omni.Forward(checkpoint)
    scorer = scorer_type("wavreward")(load(words).scorer.wavreward)
    assert {row["fingerprint"] for row in rows_of(tmp_path / "run", "wavreward").values()} == {scorer.fingerprint}
    _check_against_transformers(scorer, forward, rows_of(tmp_path / "run", "wavreward"), data)


def _check_against_transformers(scorer, forward, rows, data):
    """Expected scores of the job against transformers' own forward pass."""
    from spear_ray.judging.choice import SCORES, expected_score, read_choice
    from spear_ray.networks.silero import Silero
    from spear_ray.sources import open_source
    from tests.bundled import read_all

    scorer._silero = Silero()
    for dialogue in read_all(open_source(load([f"data.uri={data}"])))[::4]:
        prompt = scorer._prompt(dialogue)
        expected = read_choice(forward.log_probabilities(prompt, SCORES), SCORES)
        metrics = rows[dialogue.dialogue_id]["metrics"]
        assert metrics["score"] == pytest.approx(expected_score(expected), abs=1e-3)
        assert metrics["mass"] == pytest.approx(expected.mass, rel=1e-2)
