"""The prosody scorer on real speech."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spear_ray.acoustics import praat
from spear_ray.dialogue import Dialogue, Status
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.prosody.f0 import LOW_VOICED_RATIO, NORMALISED, TRIMMED, speaker_number
from spear_ray.scorers.prosody import ProsodyConfig, ProsodyScorer
from tests.bundled import dialogues
from tests.clips import dialogue_of, noise, silence, speech
from tests.prosody.test_words import finished_run, heard, row

ROOT = Path(__file__).resolve().parents[2]
needs_praat = pytest.mark.skipif(praat.missing() is not None, reason="parselmouth is not installed")

F0 = {*NORMALISED, *TRIMMED, "f0_mean_raw", "f0_std_raw", "f0_range_raw"}
ALWAYS = {"total_duration_s", "voiced_ratio", "energy_db", "hf500_db", "vad_speech_s", "answered_speaker"}
RATES = {"speech_rate_wps", "speech_rate_wpm", "articulation_rate_wps", "articulation_rate_wpm", "pause_ratio",
         "pause_count", "pause_total_s"}  # fmt: skip
PAUSES = {"vad_pause_ratio", "vad_pause_count", "vad_pause_total_s"}
MOST_MIB = 100
"""Five minutes on top of ten seconds: 37 MiB, 18 of them the audio. Half an hour takes 264, 110 of them the audio."""


def scorer(**settings: Any) -> ProsodyScorer:
    made = ProsodyScorer(ProsodyConfig(**settings))
    made.config.check()
    assert made.missing() is None
    made.setup()
    return made


def timed(words: str, start_s: float = 0.2, step_s: float = 0.4) -> list[list[Any]]:
    each = enumerate(words.split())
    return [[word, start_s + step_s * place, start_s + step_s * place + 0.35] for place, word in each]


def test_an_answer_has_its_features() -> None:
    for answered in scorer().score([one for one in dialogues() if one.system == "human"]):
        assert answered.status == Status.OK
        assert answered.metrics.keys() >= ALWAYS | F0
        assert not answered.metrics.keys() & RATES
        assert all(np.isfinite(value) for value in answered.metrics.values())
        assert answered.details["f0_status"] == "OK"


def test_each_feature_but_the_speakers_number_is_on_the_leaderboard() -> None:
    shown = {key for metric in ProsodyScorer.metrics for key in metric.sources}
    for answered in scorer().score(dialogues()):
        assert answered.metrics.keys() <= shown
    assert shown >= ALWAYS | F0 | RATES | PAUSES
    alone = {metric.sources for metric in ProsodyScorer.metrics}
    assert ("answered_speaker",) not in alone
    assert sum(metric.headline for metric in ProsodyScorer.metrics) == 1


def test_three_columns_are_filled() -> None:
    assert set(scorer().columns) == {
        "explainable_duration_s", "explainable_voiced_ratio", "explainable_normalized_f0_std_avg",
    }  # fmt: skip


def test_an_answer_said_twice_has_the_same_pitch_and_twice_the_duration() -> None:
    batch = [dialogue_of(answer=np.tile(speech(5.0), times)) for times in (1, 2)]
    once, twice = (found.metrics for found in scorer().score(batch))
    assert (once["total_duration_s"], twice["total_duration_s"]) == (5.0, 10.0)
    for name in ("f0_median_raw", "f0_mean_p25_p75", "energy_db", "hf500_db"):
        assert once[name] == pytest.approx(twice[name], rel=0.02), name


@pytest.mark.parametrize(
    ("answer", "code"),
    [(speech(0.25), "too_short"), (silence(3.0), "no_speech"), (noise(3.0), "no_speech")],
    ids=["short", "silent", "noise"],
)
def test_answers_that_cannot_be_measured_have_a_code(answer: Any, code: str) -> None:
    found = scorer().score([dialogue_of(answer=answer)])[0]
    assert (found.status, found.code, found.metrics) == (Status.SKIPPED, code, {})


def test_an_answer_that_is_hardly_voiced_keeps_its_duration_and_ratio() -> None:
    found = scorer(min_speech_s=0.0).score([dialogue_of(answer=noise(3.0))])[0]
    assert found.status == Status.OK
    assert found.details["f0_status"] == LOW_VOICED_RATIO
    assert found.metrics["total_duration_s"] == 3.0
    assert found.metrics["voiced_ratio"] < 0.05
    assert not F0 & found.metrics.keys()


def test_an_empty_answer_can_be_heard() -> None:
    found = scorer(min_speech_s=0.0, min_seconds=0.0).score([dialogue_of(answer=silence(0.0))])[0]
    assert found.metrics == {
        "total_duration_s": 0.0, "voiced_ratio": 0.0, "vad_speech_s": 0.0,
        "answered_speaker": speaker_number("improvised/"),
    }  # fmt: skip


def test_the_answered_speaker_is_a_number_for_the_last_tag_of_the_question() -> None:
    one = dialogue_of(answer=speech(1.0))
    batch = [replace(one, question_text=text) for text in ("P0001: hi P0002A: you?", "P0002A: yes?", "hm", None)]
    numbers = [found.metrics["answered_speaker"] for found in scorer().score(batch)]
    asker, nobody = speaker_number("improvised/P0002A"), speaker_number("improvised/")
    assert numbers == [asker, asker, nobody, nobody]
    elsewhere = replace(one, subset="naturalistic", question_text="P0002A: yes?")
    assert scorer().score([elsewhere])[0].metrics["answered_speaker"] not in numbers


def test_the_words_of_the_data_count_without_a_run() -> None:
    one = replace(dialogue_of(answer=speech(3.0)), answer_text="P0001: Yeah. You know, it is kind of odd.")
    found = scorer().score([one, dialogue_of(answer=speech(3.0))])
    assert found[0].metrics["lexical_words"] == 8
    assert found[0].metrics["lexical_backchannel_ratio"] == 0.5
    assert not any(key.startswith("lexical_") for key in found[1].metrics)
    assert all("no_words" not in each.details["notes"] for each in found)


def answers(tmp_path: Path) -> tuple[str, list[Dialogue]]:
    """A run that heard `a` with times, `b` without, `c` not at all, and the dialogues."""
    rows = [
        row("a", heard("one two three four five", timed("one two three four five"))),
        row("b", heard("one two")),
        row("c", None),
    ]
    batch = [replace(dialogue_of(answer=speech(5.0), name=name), answer_text="P0001: read out") for name in "abcd"]
    return finished_run(tmp_path, {"one": rows}), batch


def test_the_words_of_a_run_give_rates_and_no_other_words_count(tmp_path: Path) -> None:
    run, batch = answers(tmp_path)
    timed_, untimed, skipped, absent = scorer(words=run).score(batch)
    assert timed_.metrics.keys() >= RATES
    assert "no_words" not in timed_.details["notes"]
    stretch_s = sum(end - start for start, end in timed_.details["stretches"])
    assert timed_.metrics["speech_rate_wps"] == pytest.approx(5 / stretch_s, rel=1e-3)
    assert [found.metrics.get("lexical_words") for found in (timed_, untimed, skipped, absent)] == [5, 2, None, None]
    for found in (untimed, skipped, absent):
        assert found.status == Status.OK
        assert not RATES & found.metrics.keys()
        assert "no_words" in found.details["notes"]
        assert found.metrics["vad_speech_s"] == timed_.metrics["vad_speech_s"]


def test_short_stretches_have_no_pauses() -> None:
    batch = [dialogue_of(answer=speech(6.0))]
    assert scorer().score(batch)[0].metrics.keys() >= PAUSES
    found = scorer(min_stretch_s=12.1).score(batch)[0]
    assert not PAUSES & found.metrics.keys()
    assert found.details["stretches"] == []


def test_a_pause_in_the_answer_is_found_by_voice_activity() -> None:
    without = dialogue_of(answer=np.concatenate([speech(3.0), speech(3.0)]))
    with_pause = dialogue_of(answer=np.concatenate([speech(3.0), silence(0.7), speech(3.0)]))
    before, after = (found.metrics for found in scorer().score([without, with_pause]))
    assert after["vad_pause_count"] == before["vad_pause_count"] + 1
    assert after["vad_pause_total_s"] - before["vad_pause_total_s"] == pytest.approx(0.7, abs=0.2)


def test_a_score_does_not_depend_on_its_batch(tmp_path: Path) -> None:
    run, batch = answers(tmp_path)
    batch += [dialogue_of(answer=speech(s, voice=1), name=f"d{s}") for s in (0.4, 33.0, 0.2, 2.0)]
    together = scorer(words=run).score(batch)
    for dialogue, found in zip(batch, together, strict=True):
        alone = scorer(words=run).score([dialogue])[0]
        assert (found.status, found.code, found.details) == (alone.status, alone.code, alone.details)
        assert found.metrics == pytest.approx(alone.metrics, abs=1e-4)


@needs_praat
def test_praats_track_gives_much_the_same_features() -> None:
    batch = [one for one in dialogues() if one.system == "human"]
    own, praats = scorer().score(batch), scorer(f0="praat").score(batch)
    for ours, theirs in zip(own, praats, strict=True):
        assert ours.metrics.keys() == theirs.metrics.keys()
        assert ours.metrics["f0_median_raw"] == pytest.approx(theirs.metrics["f0_median_raw"], rel=0.02)
        assert ours.metrics["voiced_ratio"] == pytest.approx(theirs.metrics["voiced_ratio"], abs=0.08)


def test_missing_prerequisites_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = ProsodyScorer(ProsodyConfig(words=str(tmp_path / "none")))
    assert isinstance(gone.missing(), PrerequisiteError)
    assert "scorer.prosody.words" in str(gone.missing())
    assert not gone.partial
    assert gone.fingerprint
    monkeypatch.setattr(praat, "find_spec", lambda name: None)
    assert "pip install 'spear_ray[praat]'" in str(ProsodyScorer(ProsodyConfig(f0="praat")).missing())
    assert ProsodyScorer(ProsodyConfig()).missing() is None


def test_the_fingerprint_follows_tracker_words_and_settings_and_not_where_words_lie(tmp_path: Path) -> None:
    run, _ = answers(tmp_path / "1")
    copy, _ = answers(tmp_path / "2")
    other = finished_run(tmp_path / "3", {"one": [row("a", heard("one"), "a" * 16)]}, fingerprint="a" * 16)
    configs = [
        ProsodyConfig(), ProsodyConfig(f0="praat"), ProsodyConfig(words=run), ProsodyConfig(words=other),
        ProsodyConfig(min_stretch_s=12.1), ProsodyConfig(min_speech_s=0.0), ProsodyConfig(min_seconds=1.0),
    ]  # fmt: skip
    prints = [ProsodyScorer(config).fingerprint for config in configs]
    assert len(set(prints)) == len(prints)
    assert ProsodyScorer(ProsodyConfig(words=copy)).fingerprint == ProsodyScorer(ProsodyConfig(words=run)).fingerprint


def test_the_identity_names_the_tracker_and_its_version() -> None:
    assert ProsodyScorer(ProsodyConfig()).identity["f0"] == {"tracker": "own", "parselmouth": None}
    assert ProsodyScorer(ProsodyConfig(f0="praat")).identity["f0"] == {
        "tracker": "praat", "parselmouth": praat.version(),
    }  # fmt: skip


@pytest.mark.parametrize(
    "settings", [{"f0": "yin"}, {"min_seconds": -1.0}, {"min_speech_s": -0.1}, {"min_stretch_s": 0.0}], ids=str
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ProsodyConfig(**settings).check()


SCRIPT = """
import resource
from spear_ray.scorers.prosody import ProsodyConfig, ProsodyScorer
from tests.clips import dialogue_of, speech

scorer = ProsodyScorer(ProsodyConfig())
scorer.setup()
answers = [speech(seconds, voice=1) for seconds in (10.0, 300.0)]
for answer in answers:
    (row,) = scorer.score([dialogue_of(answer=answer)])
    assert row.status == "ok", row
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def test_a_five_minute_answer_takes_little_more_memory_than_a_short_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr
    short, long = (int(line) for line in done.stdout.split()[-2:])
    assert long - short < MOST_MIB, f"{short} MiB, then {long} MiB"
