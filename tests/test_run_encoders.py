"""The real job with the encoder scorers, on small random checkpoints in the published formats."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3_server import BUCKET
from test_run import LIMIT_SECONDS, ROOT

from spear_ray.config import load
from spear_ray.scorers import scorer_type
from spear_ray.store import Store
from tests import tiny_checkpoints as tiny
from tests.bundled import dialogues

pytestmark = pytest.mark.cluster

EMOTION = (
    "emotional_naturalness_logit",
    "arousal_question_answer_corr",
    "valence_question_answer_corr",
    "dominance_question_answer_corr",
)
DIALECT = (
    "english_answers_%",
    "same_dialect_as_question_%",
    "north_american_dialect_%",
    "dialectal_entrainment_spearman",
    "dialectal_variance",
)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    where = tmp_path_factory.mktemp("checkpoints")
    return [
        f"scorer.emotion.dimensions_model={tiny.whisper_dimensions(where / 'dimensions')}",
        f"scorer.emotion.trace.checkpoint={tiny.trace(where / 'trace' / 'last_model.pt')}",
        f"scorer.emotion.trace.text_model={tiny.minilm(where / 'minilm')}",
        f"scorer.dialect.language_model={tiny.mms_lid(where / 'mms', english=30.0)}",
        f"scorer.dialect.dialect_model={tiny.voxlect(where / 'voxlect')}",
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, words: list[str]) -> Path:
    folder = tmp_path_factory.mktemp("run") / "run"
    command = [sys.executable, "jobs/full_bench.py", f"run.uri={folder}", "scorers=[emotion,dialect]", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def rows_of(folder: Path, scorer: str) -> dict[str, dict]:
    files = sorted((folder / "scores" / scorer).glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(file) for file in files])
    return {row["dialogue_id"]: {**row, "metrics": dict(row["metrics"])} for row in table.to_pylist()}


def test_every_emotion_and_dialect_column_is_filled_for_every_system(finished):
    with (finished / "benchmark.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["model"] for line in lines] == ["human", "early", "slow", "sometimes-silent"]
    for line in lines:
        empty = [column for column in (*EMOTION, *DIALECT) if not line[column]]
        assert not empty, line["model"]
    record = json.loads((finished / "run.json").read_text())
    filled = {column for scorer in record["scorers"].values() for column in scorer["benchmark_columns"]}
    assert filled == {*EMOTION, *DIALECT}


def test_no_row_is_lost_and_only_silence_is_skipped(finished):
    record = json.loads((finished / "run.json").read_text())
    expected = {f"{scorer}.{status}": count for scorer in ("dialect", "emotion")
                for status, count in (("ok", 44), ("skipped.no_speech", 4))}  # fmt: skip
    assert record["counts"] == expected


@pytest.mark.parametrize("scorer", ["emotion", "dialect"])
def test_a_row_of_the_job_is_that_of_the_scorer_alone(finished, words, scorer):
    config = load([f"scorers=[{scorer}]", *words])
    alone = scorer_type(scorer)(getattr(config.scorer, scorer))
    alone.setup()
    rows = rows_of(finished, scorer)
    for dialogue in dialogues()[::7]:
        (expected,) = alone.score([dialogue])
        row = rows[dialogue.dialogue_id]
        assert (row["status"], row["code"], row["fingerprint"]) == (
            str(expected.status), expected.code, expected.fingerprint,
        )  # fmt: skip
        assert row["metrics"] == pytest.approx(expected.metrics, abs=1e-4)


def test_agreement_stands_beside_its_base_rate(finished):
    with (finished / "leaderboard.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["subset"] == "all"]
    value = {(line["system"], line["metric"]): line for line in lines}
    same, base = (value["human", name] for name in ("same_dialect_as_question_%", "same_dialect_base_rate_%"))
    assert same["n"] == base["n"]
    assert same["n_total"] == "12"
    assert 0 < float(base["value"]) <= 100
    low, high = (float(value["human", "arousal_question_answer_corr"][end]) for end in ("ci_low", "ci_high"))
    assert -1 <= low < high <= 1


def test_checkpoints_may_lie_on_s3_and_are_the_same_there(words, s3, tmp_path, monkeypatch):
    monkeypatch.setenv("SPEAR_CACHE_DIR", str(tmp_path))
    local = Path(next(word for word in words if "dimensions_model" in word).split("=", 1)[1])
    store = Store(f"s3://{BUCKET}/models")
    for file in local.iterdir():
        store.write(f"dimensions/{file.name}", file.read_bytes())
    trace = "scorer.emotion.trace.checkpoint=none"
    here, there = (
        scorer_type("emotion")(load([f"scorer.emotion.dimensions_model={uri}", trace]).scorer.emotion)
        for uri in (local, f"s3://{BUCKET}/models/dimensions")
    )
    assert there.fingerprint == here.fingerprint
    for one in (here, there):
        one.setup()
    first, second = (one.score(dialogues()[:1])[0].metrics for one in (here, there))
    assert first == second
    gone = scorer_type("emotion")(load([f"scorer.emotion.dimensions_model=s3://{BUCKET}/models/none"]).scorer.emotion)
    assert "does not exist: spear-ray checkpoints pull" in str(gone.missing())
