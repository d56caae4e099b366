"""The emotion scorer on small random checkpoints in the published formats, on real speech."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spear_ray.affect.sequences import duplicated, interleaved, unit_rows, windows
from spear_ray.dialogue import Status
from spear_ray.errors import CheckpointMissing, ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.scorers.emotion import EmotionConfig, EmotionScorer, TraceSettings
from tests import tiny_checkpoints as tiny
from tests.bundled import dialogues
from tests.clips import dialogue_of, noise, silence, speech

DIMENSIONS = {f"{side}_{name}" for side in ("question", "answer") for name in ("arousal", "valence", "dominance")}
VOICE = {f"{side}_voice_{name}" for side in ("question", "answer") for name in ("log_f0", "intensity_db", "hf500_db")}
LOGIT = {"naturalness_logit", "naturalness_probability"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("checkpoints")
    tiny.whisper_dimensions(where / "whisper")
    tiny.wavlm_dimensions(where / "wavlm")
    tiny.audeering(where / "audeering")
    tiny.odyssey(where / "odyssey")
    tiny.trace(where / "ce" / "last_model.pt")
    tiny.trace(where / "lf" / "last_model.pt", "llama")
    tiny.trace(where / "speech" / "last_model.pt", texts=False)
    tiny.minilm(where / "minilm")
    return where


def config(folder: Path, trace: str = "ce", model: str = "whisper", **settings: Any) -> EmotionConfig:
    checkpoint = str(folder / trace / "last_model.pt") if trace != "none" else "none"
    words = TraceSettings(
        checkpoint=checkpoint, text_model=str(folder / "minilm"), **settings.pop("trace_settings", {})
    )
    return EmotionConfig(dimensions_model=str(folder / model), trace=words, **settings)


def scorer(folder: Path, *words: str, **settings: Any) -> EmotionScorer:
    made = EmotionScorer(config(folder, *words, **settings))
    assert made.missing() is None
    made.setup()
    return made


def test_an_exchange_has_all_metrics(folder: Path) -> None:
    for row in scorer(folder).score(dialogues()[:3]):
        assert row.status == Status.OK
        assert row.metrics.keys() >= DIMENSIONS | VOICE | LOGIT
        assert all(0 < row.metrics[name] < 1 for name in DIMENSIONS)
        logit = row.metrics["naturalness_logit"]
        assert row.metrics["naturalness_probability"] == pytest.approx(1 / (1 + np.exp(-logit)))


@pytest.mark.parametrize("model", ["wavlm", "audeering", "odyssey"])
def test_other_models_give_the_dimensions_without_trace(folder: Path, model: str) -> None:
    made = scorer(folder, "none", model)
    row = made.score(dialogues()[:1])[0]
    assert row.status == Status.OK
    assert row.metrics.keys() >= DIMENSIONS
    assert not LOGIT & row.metrics.keys()
    assert made.columns == tuple(f"{name}_question_answer_corr" for name in ("arousal", "valence", "dominance"))


def test_trace_wants_the_vectors_that_it_was_trained_on(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PrerequisiteError, match="dimensions_model is another one"):
        scorer(folder, "ce", "audeering")
    tiny.trace(tmp_path / "ce" / "last_model.pt", inputs=32)
    wide = replace(
        config(folder), trace=TraceSettings(checkpoint=str(tmp_path / "ce" / "last_model.pt"), text_model="none")
    )
    with pytest.raises(PrerequisiteError, match="vectors of 32 values"):
        EmotionScorer(wide).setup()


def test_trace_hears_two_speakers_or_the_published_sequence(folder: Path) -> None:
    dialogue = dialogue_of(question=speech(4.5), answer=speech(6.2, voice=1))
    made = scorer(folder, "speech")
    published = scorer(folder, "speech", trace_settings={"sequence": "published"})
    vectors = []
    for turn in (speech(4.5), speech(6.2, voice=1)):
        cut = [np.pad(turn[start:end], (0, 48_000 - (end - start))) for start, end in windows(turn.size)]
        vectors.append(np.stack([one["vector"] for one in made._model.encode_windows(cut)]))
    trace = made._trace
    expected = trace.logits([interleaved(unit_rows(vectors[0]), unit_rows(vectors[1]), 32)])[0]
    doubled = trace.logits([duplicated(unit_rows(np.concatenate(vectors)), 32)])[0]
    assert made.score([dialogue])[0].metrics["naturalness_logit"] == pytest.approx(expected, abs=1e-4)
    assert published.score([dialogue])[0].metrics["naturalness_logit"] == pytest.approx(doubled, abs=1e-4)
    assert abs(expected - doubled) > 1e-3


def test_texts_move_the_logit(folder: Path) -> None:
    plain = dialogue_of(answer=speech(4.0, voice=1))
    friends = replace(plain, roles={"relationship": "friends"}, question_text="what do you talk ?")
    strangers = replace(friends, roles={"relationship": "stranger"})
    logits = [row.metrics["naturalness_logit"] for row in scorer(folder, "lf").score([plain, friends, strangers])]
    assert len({round(logit, 5) for logit in logits}) == 3


@pytest.mark.parametrize(
    ("answer", "code"),
    [(speech(0.6), "too_short"), (silence(3.0), "no_speech"), (noise(3.0), "no_speech")],
    ids=["short", "silent", "noise"],
)
def test_answers_that_cannot_be_measured_have_a_code(folder: Path, answer: Any, code: str) -> None:
    row = scorer(folder).score([dialogue_of(answer=answer)])[0]
    assert (row.status, row.code, row.metrics) == (Status.SKIPPED, code, {})


def test_a_silent_question_leaves_what_the_answer_shows(folder: Path) -> None:
    row = scorer(folder).score([dialogue_of(question=silence(3.0), answer=speech(4.0))])[0]
    assert row.status == Status.OK
    assert "question_no_speech" in row.details["notes"]
    assert {"answer_arousal", "answer_valence", "answer_dominance"} <= row.metrics.keys()
    assert not LOGIT & row.metrics.keys()
    assert not any(key.startswith("question_") for key in row.metrics)


def test_the_question_is_its_own_turn_without_context(folder: Path) -> None:
    turn = speech(4.0)
    alone = dialogue_of(question=turn, answer=speech(4.0, voice=1))
    later = dialogue_of(
        question=np.concatenate([speech(3.0, voice=1), turn]), context_s=3.0, answer=speech(4.0, voice=1)
    )
    rows = scorer(folder).score([alone, later])
    for name in ("question_arousal", "naturalness_logit"):
        assert rows[0].metrics[name] == pytest.approx(rows[1].metrics[name], abs=1e-5)


def test_a_score_does_not_depend_on_its_batch(folder: Path) -> None:
    lengths = [(1.1, 5.0), (17.0, 2.0), (4.2, 33.0), (0.3, 2.0), (60.0, 1.0)]
    batch = [
        dialogue_of(name=f"d{n}", answer=speech(a), question=speech(q, voice=1)) for n, (a, q) in enumerate(lengths)
    ]
    together = scorer(folder).score(batch)
    for dialogue, row in zip(batch, together, strict=True):
        alone = scorer(folder).score([dialogue])[0]
        assert (row.status, row.code, row.details) == (alone.status, alone.code, alone.details)
        assert row.metrics.keys() == alone.metrics.keys()
        for key, value in row.metrics.items():
            assert value == pytest.approx(alone.metrics[key], abs=1e-4)


def test_a_question_that_many_systems_answer_is_heard_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scorer(folder, "none")
    encoded: list[int] = []
    encode = made._model.encode
    monkeypatch.setattr(
        made._model, "encode", lambda clips: encoded.extend(clip.size for clip in clips) or encode(clips)
    )
    question = speech(4.1)
    rows = made.score([dialogue_of(name=f"d{n}", question=question, answer=speech(2.0 + n, voice=1)) for n in range(3)])
    assert encoded.count(question.size) == 1
    assert len({row.metrics["question_arousal"] for row in rows}) == 1


def test_a_window_that_does_not_fit_the_gpu_is_one_error_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scorer(folder)
    read = made._model.read

    def full(clips: list[Any]) -> list[Any]:
        found = zip(clips, read(clips), strict=True)
        return [OutOfGpuMemory("no room") if clip.size > 100_000 else one for clip, one in found]

    monkeypatch.setattr(made._model, "read", full)
    rows = made.score([dialogue_of(name="a", answer=speech(3.0)), dialogue_of(name="b", answer=speech(9.0))])
    assert [(row.status, row.code) for row in rows] == [(Status.OK, None), (Status.ERROR, "gpu_out_of_memory")]


def test_without_checkpoints_rows_say_so_and_hold_the_voice(folder: Path) -> None:
    made = EmotionScorer(EmotionConfig())
    reason = made.missing()
    assert isinstance(reason, CheckpointMissing)
    assert "spear-ray checkpoints pull whisper-large-v3-msp-podcast-emotion-dim" in str(reason)
    assert "scorer.emotion.trace.checkpoint" in str(reason)
    assert made.partial
    assert made.columns == ()
    made.setup()
    row = made.score(dialogues()[:1])[0]
    assert (row.status, row.code) == (Status.SKIPPED, "checkpoint_missing")
    assert row.metrics.keys() >= VOICE
    assert not (DIMENSIONS | LOGIT) & row.metrics.keys()


def test_a_model_that_is_there_is_used_though_another_is_missing(folder: Path) -> None:
    made = EmotionScorer(EmotionConfig(dimensions_model=str(folder / "whisper")))
    made.setup()
    row = made.score(dialogues()[:1])[0]
    assert (row.status, row.code) == (Status.SKIPPED, "checkpoint_missing")
    assert row.metrics.keys() >= DIMENSIONS
    assert "scorer.emotion.trace.checkpoint" in row.message
    assert made.columns == tuple(f"{name}_question_answer_corr" for name in ("arousal", "valence", "dominance"))


def test_without_any_model_only_the_voice_is_wanted() -> None:
    made = EmotionScorer(EmotionConfig(dimensions_model="none"))
    assert made.missing() is None
    made.setup()
    row = made.score(dialogues()[:1])[0]
    assert row.status == Status.OK
    assert row.metrics.keys() >= VOICE


def test_vocal_arousal_needs_earlier_speech_of_the_same_voice(folder: Path) -> None:
    made = EmotionScorer(EmotionConfig(dimensions_model="none"))
    made.setup()
    clip = {
        "question": speech(16.0),
        "beside": speech(16.0, voice=1),
        "context_s": 12.0,
        "answer": speech(4.0, voice=1),
    }
    human, robot = (made.score([dialogue_of(system=system, **clip)])[0].metrics for system in ("human", "robot"))
    assert -1 <= human["vocal_arousal"] <= 1
    assert -1 <= human["question_vocal_arousal"] <= 1
    assert robot["question_vocal_arousal"] == human["question_vocal_arousal"]
    assert "vocal_arousal" not in robot


def test_the_fingerprint_follows_content_and_settings_and_not_batches(folder: Path) -> None:
    base = EmotionScorer(config(folder)).fingerprint
    assert EmotionScorer(config(folder, batch_clips=3, batch_seconds=9.0)).fingerprint == base
    others = [
        config(folder, "lf"), config(folder, "none"), config(folder, "none", "wavlm"), config(folder, precision="bf16"),
        config(folder, trace_settings={"sequence": "published"}), config(folder, long_clips="first"), EmotionConfig(),
    ]  # fmt: skip
    prints = [EmotionScorer(one).fingerprint for one in others]
    assert len({base, *prints}) == len(others) + 1


@pytest.mark.parametrize(
    "settings",
    [{"question_side": "both"}, {"long_clips": "all"}, {"precision": "int8"}, {"min_seconds": -1.0},
     {"trace": TraceSettings(sequence="three")}, {"trace": TraceSettings(min_windows=0)}],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        EmotionConfig(**settings).check()


def test_ten_minutes_are_measured_like_any_other_answer(folder: Path) -> None:
    row = scorer(folder).score([dialogue_of(answer=speech(600.0))])[0]
    assert row.status == Status.OK
    assert row.metrics.keys() >= DIMENSIONS | LOGIT
