"""The dialect scorer on small random checkpoints in the published formats, on real speech."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spear_ray.dialects.labels import DIALECTS, keys
from spear_ray.dialogue import Dialogue, Status
from spear_ray.errors import CheckpointMissing, ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.scorers.dialect import DialectConfig, DialectScorer
from tests import tiny_checkpoints as tiny
from tests.bundled import dialogues
from tests.clips import dialogue_of, noise, silence, speech


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("checkpoints")
    tiny.voxlect(where / "voxlect")
    tiny.mms_lid(where / "sure", english=30.0)
    tiny.mms_lid(where / "unsure", languages=tuple(f"l{n:02d}" for n in range(40)))
    tiny.mms_lid(where / "german", languages=("deu", "eng"), english=30.0)
    tiny.whisper_lid(where / "whisper")
    return where


def scorer(folder: Path, language: str = "sure", **settings: Any) -> DialectScorer:
    config = DialectConfig(language_model=str(folder / language), dialect_model=str(folder / "voxlect"), **settings)
    made = DialectScorer(config)
    made.setup()
    return made


def test_english_answers_get_a_dialect_on_both_sides(folder: Path) -> None:
    batch = dialogues()[:3]
    for row in scorer(folder).score(batch):
        assert row.status == Status.OK
        assert row.metrics["english"] == 1.0
        assert row.metrics["language_probability"] > 0.99
        for side in ("question", "answer"):
            logs = [row.metrics[key] for key in keys(side)]
            assert sum(map(math.exp, logs)) == pytest.approx(1.0)
            label = row.details[f"{side}_dialect"]["label"]
            assert label == DIALECTS[int(np.argmax(logs))]
        assert row.metrics["same_dialect"] == float(row.metrics["question_dialect"] == row.metrics["answer_dialect"])


def test_answers_in_another_language_have_no_dialect(folder: Path) -> None:
    row = scorer(folder, "german").score(dialogues()[:1])[0]
    assert (row.status, row.metrics["english"], row.details["language"]) == (Status.OK, 0.0, "deu")
    assert not {"same_dialect", "north_american", *keys("answer"), *keys("question")} & row.metrics.keys()


def test_a_language_of_low_confidence_is_a_code_and_no_label(folder: Path) -> None:
    row = scorer(folder, "unsure").score(dialogues()[:1])[0]
    assert (row.status, row.code) == (Status.SKIPPED, "low_confidence")
    assert row.metrics["language_probability"] < 0.5
    assert "english" not in row.metrics


@pytest.mark.parametrize(
    ("answer", "code"),
    [(speech(0.6), "too_short"), (silence(3.0), "no_speech"), (noise(3.0), "no_speech")],
    ids=["short", "silent", "noise"],
)
def test_answers_that_cannot_be_labelled_have_a_code(folder: Path, answer: Any, code: str) -> None:
    row = scorer(folder).score([dialogue_of(answer=answer)])[0]
    assert (row.status, row.code, row.metrics) == (Status.SKIPPED, code, {})


def test_a_question_without_speech_leaves_the_answers_dialect(folder: Path) -> None:
    row = scorer(folder).score([dialogue_of(question=silence(4.0), answer=speech(4.0))])[0]
    assert row.status == Status.OK
    assert "north_american" in row.metrics
    assert not {"same_dialect", "question_dialect"} & row.metrics.keys()


def test_the_question_is_the_asking_channel_or_the_mean_of_both(folder: Path) -> None:
    other = dialogue_of(question=speech(4.0), answer=speech(4.0, voice=1), beside=speech(4.0, voice=1))
    plain = dialogue_of(question=speech(4.0), answer=speech(4.0, voice=1))
    asking = scorer(folder).score([other, plain])
    mixed = scorer(folder, question_side="mixed").score([other, plain])
    question = [[row.metrics[key] for key in keys("question")] for row in (*asking, *mixed)]
    np.testing.assert_allclose(question[0], question[1], atol=1e-6)
    assert np.abs(np.subtract(question[2], question[0])).max() > 1e-3


def test_a_long_clip_is_heard_in_parts_or_only_at_its_beginning(folder: Path) -> None:
    beginning = speech(15.0)
    long = np.concatenate([beginning, speech(12.0, voice=1)])
    pair = [dialogue_of(answer=beginning), dialogue_of(answer=long)]
    first = [[row.metrics[key] for key in keys("answer")] for row in scorer(folder, long_clips="first").score(pair)]
    parts = [[row.metrics[key] for key in keys("answer")] for row in scorer(folder).score(pair)]
    np.testing.assert_allclose(first[0], first[1], atol=1e-5)
    np.testing.assert_allclose(parts[0], first[0], atol=1e-5)
    assert np.abs(np.subtract(parts[1], parts[0])).max() > 1e-3


def test_a_score_does_not_depend_on_its_batch(folder: Path) -> None:
    batch = [dialogue_of(name=f"d{n}", answer=speech(s), question=speech(q, voice=1))
             for n, (s, q) in enumerate([(1.1, 5.0), (17.0, 2.0), (4.2, 31.0), (0.3, 2.0)])]  # fmt: skip
    together = scorer(folder).score(batch)
    for dialogue, row in zip(batch, together, strict=True):
        alone = scorer(folder).score([dialogue])[0]
        assert (row.status, row.code, row.details) == (alone.status, alone.code, alone.details)
        assert row.metrics.keys() == alone.metrics.keys()
        for key, value in row.metrics.items():
            assert value == pytest.approx(alone.metrics[key], abs=1e-4)


def test_whisper_tells_languages_too(folder: Path) -> None:
    row = scorer(folder, "whisper", min_confidence=0.0).score(dialogues()[:1])[0]
    assert row.details["language"] in {"en", "de", "zh"}
    assert row.metrics["english"] == float(row.details["language"] == "en")


def test_a_clip_that_does_not_fit_the_gpu_is_one_error_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scorer(folder)
    read = made._dialect.read

    def full(clips: list[Any]) -> list[Any]:
        return [
            OutOfGpuMemory("no room") if clip.size > 100_000 else one
            for clip, one in zip(clips, read(clips), strict=True)
        ]

    monkeypatch.setattr(made._dialect, "read", full)
    rows = made.score([dialogue_of(name="a", answer=speech(3.0)), dialogue_of(name="b", answer=speech(9.0))])
    assert [(row.status, row.code) for row in rows] == [(Status.OK, None), (Status.ERROR, "gpu_out_of_memory")]


def test_without_checkpoints_the_command_is_named() -> None:
    reason = DialectScorer(DialectConfig()).missing()
    assert isinstance(reason, CheckpointMissing)
    assert "spear-ray checkpoints pull mms-lid-126" in str(reason)
    assert "spear-ray checkpoints pull voxlect-english-dialect-whisper-large-v3" in str(reason)


def test_models_that_are_not_wanted_are_not_missed(folder: Path) -> None:
    config = DialectConfig(language_model=str(folder / "sure"), dialect_model="none")
    made = DialectScorer(config)
    assert made.missing() is None
    assert made.columns == ("english_answers_%",)
    made.setup()
    assert made.score(dialogues()[:1])[0].metrics.keys() == {"english", "language_probability"}


def test_a_model_of_other_classes_is_refused(folder: Path, tmp_path: Path) -> None:
    tiny.whisper_profile(tmp_path / "broad", {"out_layer": 3})
    made = DialectScorer(DialectConfig(language_model=str(folder / "sure"), dialect_model=str(tmp_path / "broad")))
    with pytest.raises(PrerequisiteError, match="3 classes"):
        made.setup()


def test_the_fingerprint_follows_content_and_settings_and_not_batches(folder: Path, tmp_path: Path) -> None:
    here = {"language_model": str(folder / "sure"), "dialect_model": str(folder / "voxlect")}
    base = DialectScorer(DialectConfig(**here)).fingerprint
    assert DialectScorer(DialectConfig(**here, batch_clips=3, batch_seconds=9.0)).fingerprint == base
    assert DialectScorer(DialectConfig(**here, question_side="mixed")).fingerprint != base
    assert DialectScorer(DialectConfig(**here, precision="bf16")).fingerprint != base
    tiny.voxlect(tmp_path / "same"), tiny.voxlect(tmp_path / "other", seed=9)
    same = DialectScorer(DialectConfig(**here | {"dialect_model": str(tmp_path / "same")})).fingerprint
    other = DialectScorer(DialectConfig(**here | {"dialect_model": str(tmp_path / "other")})).fingerprint
    assert (same == base, other == base) == (True, False)


@pytest.mark.parametrize(
    "settings",
    [{"question_side": "both"}, {"long_clips": "all"}, {"precision": "fp16"}, {"min_confidence": 2.0},
     {"batch_clips": 0}, {"min_seconds": -1.0}],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DialectConfig(**settings).check()


def test_unreadable_dialogues_are_errors(folder: Path) -> None:
    from spear_ray.dialogue import Problem

    broken = Dialogue(dialogue_id="x", conversation_id="c", system="s", split="t", subset="u",
                      problem=Problem("audio_decode", "broken"))  # fmt: skip
    assert [row.code for row in scorer(folder).score([broken, dialogues()[0]])] == ["audio_decode", None]
