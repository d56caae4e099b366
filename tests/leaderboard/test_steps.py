"""Steps between rows and the board: the published logit shift, and vocal arousal within a voice."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spear_ray.config import LeaderboardConfig
from spear_ray.errors import ConfigError
from spear_ray.leaderboard.board import build
from spear_ray.leaderboard.rows import read_rows
from spear_ray.leaderboard.steps import naturalness_shift, shift_from, shifted, with_vocal_arousal
from spear_ray.scorers.emotion import EmotionScorer
from tests.golden_cases import folder
from tests.leaderboard.tables import SCHEMA

VOICE = ("answer_voice_log_f0", "answer_voice_intensity_db", "answer_voice_hf500_db")


def table_of(lines: list[dict[str, Any]]) -> pa.Table:
    """Rows of the emotion scorer."""
    filled = [
        {
            **dict.fromkeys(SCHEMA.names), "scorer": "emotion", "version": "1", "fingerprint": "f", "status": "ok",
            **line, "metrics": list(line["metrics"].items()),
        }
        for line in lines
    ]  # fmt: skip
    return pa.Table.from_pylist(filled, schema=SCHEMA)


def column(path: Path, name: str) -> Any:
    with path.open(newline="") as file:
        texts = [row[name] for row in csv.DictReader(file)]
    return np.array([float(text) if text else np.nan for text in texts])


@pytest.mark.parametrize("case", sorted(folder("03_trace").glob("shift_*")), ids=lambda path: path.name)
def test_the_shift_is_the_published_one(case: Path) -> None:
    arguments = json.loads((case / "args.json").read_text())
    reference = np.concatenate([column(path, "naturalness_logit") for path in sorted((case / "ref").glob("*.csv"))])
    shift = naturalness_shift(reference, 1 - arguments["positive_fraction"], arguments["epsilon"])
    given = column(case / "data" / "naturalness_scores.csv", "naturalness_logit")
    expected = case / "data" / "naturalness_scores_normalized.csv"
    np.testing.assert_allclose(given + shift, column(expected, "naturalness_logit"), atol=1e-9)
    probability = 1 / (1 + np.exp(-(given + shift)))
    np.testing.assert_allclose(probability, column(expected, "naturalness_probability"), atol=1e-9)


def logits(rows: int = 40) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "dialogue_id": f"{system}-{split}-{n}", "conversation_id": f"c{n}", "system": system, "split": split,
            "subset": ("improvised", "naturalistic")[n % 2],
            "metrics": {"naturalness_logit": float(rng.normal() - 3 * (n % 2))},
        }
        for system in ("human", "robot") for split in ("dev", "test") for n in range(rows)
    ]  # fmt: skip


def test_each_subset_is_shifted_by_its_own_human_dev_rows() -> None:
    table = table_of(logits())
    rows = read_rows("emotion", table)
    shift = shift_from(rows, "runs/dev", "human")
    assert shift.rows == {"improvised": 20, "naturalistic": 20}
    assert shift.by_subset["naturalistic"] > shift.by_subset["improvised"] + 1
    moved = shifted(rows, shift)
    human = moved.where((moved.system == "human") & (moved.split == "dev"))
    for subset in shift.by_subset:
        values = human.where(human.subset == subset).value("naturalness_logit")
        assert (values > 0).mean() >= 0.95
    board = build({"emotion": table}, {"emotion": EmotionScorer.metrics}, LeaderboardConfig(resamples=50), shift)
    entry = board.entry("robot", "emotional_naturalness_logit", "improvised")
    plain = build({"emotion": table}, {"emotion": EmotionScorer.metrics}, LeaderboardConfig(resamples=50))
    unmoved = plain.entry("robot", "emotional_naturalness_logit", "improvised")
    assert entry is not None
    assert unmoved is not None
    assert entry.value - unmoved.value == pytest.approx(shift.by_subset["improvised"])
    assert any("runs/dev" in note for note in board.notes)
    assert any("as TRACE gives them" in note for note in plain.notes)


def test_a_shift_needs_dev_rows_of_every_subset() -> None:
    rows = read_rows("emotion", table_of(logits()))
    with pytest.raises(ConfigError, match="no rows of split dev and system human"):
        shift_from(rows.where(rows.split == "test"), "runs/dev", "human")
    one = shift_from(rows.where(rows.subset == "improvised"), "runs/dev", "human")
    with pytest.raises(ConfigError, match="no dev rows of the subset 'naturalistic'"):
        shifted(rows, one)


def test_answers_of_a_voice_without_a_baseline_are_ranked_among_its_other_answers() -> None:
    rng = np.random.default_rng(2)
    lines = [
        {
            "dialogue_id": f"{system}-{n}", "conversation_id": f"c{n}", "system": system, "split": "test",
            "subset": "s",
            "metrics": dict(zip(VOICE, map(float, level + rng.normal(scale=0.1, size=3)), strict=True))
            | ({"vocal_arousal": 0.25} if system == "recorded" and n == 0 else {}),
        }
        for system in ("human", "recorded", "robot") for n, level in enumerate(range(12))
    ]  # fmt: skip
    rows = with_vocal_arousal(read_rows("emotion", table_of(lines)), "human")
    robot = rows.where(rows.system == "robot")
    order = np.argsort([int(name.split("-")[1]) for name in robot.dialogue_id])
    arousal = robot.value("vocal_arousal")[order]
    assert arousal[0] == -1.0
    assert arousal[-1] == 1.0
    assert (np.diff(arousal) > 0).all()
    for system, values in (("human", 0), ("recorded", 1)):
        people = rows.where(rows.system == system).value("vocal_arousal")
        assert np.isfinite(people).sum() == values, "people are only compared with themselves"


def test_rows_without_voices_are_left_alone() -> None:
    rows = read_rows("emotion", table_of(logits(4)))
    assert with_vocal_arousal(rows, "human") is rows
