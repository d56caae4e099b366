"""Silero on real speech (the bundled sample), against the reference function of its own package."""

import csv
import statistics
from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest
import soundfile
import torch
from bundled import dialogues, read_all, vad
from silero_vad import get_speech_timestamps, load_silero_vad

from spear_ray.config import load
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Problem, Samples, Score, Status
from spear_ray.sample import SAMPLE_DIR
from spear_ray.scorers.base import Resources
from spear_ray.scorers.vad import EventSettings, SpeechSettings, VadConfig, VadScorer
from spear_ray.serving.settings import Serving
from spear_ray.sources import open_source
from spear_ray.timing.events import Thresholds

SETTINGS = [
    SpeechSettings(),
    SpeechSettings(threshold=0.3),
    SpeechSettings(threshold=0.8, pad_ms=0),
    SpeechSettings(min_speech_ms=100, min_silence_ms=50, pad_ms=100),
    SpeechSettings(threshold=0.1, min_speech_ms=1000, min_silence_ms=500, pad_ms=7),
]
PUBLISHED = ("spear_latency_ms", "overlap_ms", "interrupted", "interruption_segments")


class Remembering:
    """The TorchScript model on one channel: what it said once is not computed again."""

    def __init__(self, model: torch.jit.ScriptModule) -> None:
        self.model = model
        self.said: list[torch.Tensor] = []
        self.at = 0

    def reset_states(self) -> None:
        self.model.reset_states()
        self.at = 0

    def __call__(self, chunk: torch.Tensor, rate_hz: int) -> torch.Tensor:
        if self.at == len(self.said):
            self.said.append(self.model(chunk, rate_hz))
        self.at += 1
        return self.said[self.at - 1]


@cache
def channels() -> dict[str, tuple[Samples, Remembering]]:
    """Each different channel of the sample, and what is not speech or has an odd length."""
    random = np.random.default_rng(1)
    found = {f"{d.dialogue_id}:{side}": channel for d in dialogues() for side, channel in enumerate(d.audio)}
    different = list({channel.tobytes(): (name, channel) for name, channel in found.items()}.values())
    speech = dialogues()[0].audio[0]
    made = {
        "silence": np.zeros(40_000, np.float32),
        "noise": random.normal(0, 0.1, 80_001).astype(np.float32),
        "faint noise": random.normal(0, 1e-4, 50_000).astype(np.float32),
        "speech in noise": speech + random.normal(0, 0.02, speech.size).astype(np.float32),
        "under a frame": speech[20_000:20_300],
        "one frame": speech[20_000:20_512],
        "one sample more than a frame": speech[20_000:20_513],
        "over a minute": np.concatenate([d.audio[0] for d in dialogues()[:12]])[:-77],
    }
    model = load_silero_vad()
    return {name: (samples, Remembering(model)) for name, samples in [*different, *made.items()]}


def reference(samples: Samples, model: Remembering, settings: SpeechSettings, seconds: bool) -> list[tuple]:
    found = get_speech_timestamps(
        torch.from_numpy(samples.copy()),
        model,
        threshold=settings.threshold,
        min_speech_duration_ms=settings.min_speech_ms,
        min_silence_duration_ms=settings.min_silence_ms,
        speech_pad_ms=settings.pad_ms,
        return_seconds=seconds,
    )
    return [(item["start"], item["end"]) for item in found]


@cache
def sample_scores() -> tuple[Score, ...]:
    return tuple(vad().score(dialogues()))


def scores_of(system: str) -> list[Score]:
    return [score for score in sample_scores() if score.system == system]


def latencies_ms(system: str) -> list[float]:
    return [score.metrics["latency_ms"] for score in scores_of(system) if "latency_ms" in score.metrics]


def one(dialogue: Dialogue) -> Score:
    (score,) = vad().score([dialogue])
    return score


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_segments_equal_the_reference_function_to_the_sample(settings):
    wrong = {}
    for name, (samples, model) in channels().items():
        ours = vad().speech(samples, settings)
        edges = reference(samples, model, settings, seconds=False)
        if ours != [(start / SAMPLE_RATE_HZ, end / SAMPLE_RATE_HZ) for start, end in edges]:
            wrong[name] = (ours, edges)
    assert not wrong


def test_the_reference_hears_speech_in_the_sample_and_none_in_noise():
    heard = {name: reference(*found, SETTINGS[0], seconds=False) for name, found in channels().items()}
    assert len(heard) > 60
    assert sum(map(len, heard.values())) > 100
    assert not any(heard[name] for name in ("silence", "noise", "faint noise"))


def test_published_grid_rounds_as_the_reference_function_does():
    for samples, model in list(channels().values())[::3]:
        expected = reference(samples, model, SETTINGS[0], seconds=True)
        assert vad().speech(samples, SETTINGS[0], grid=True) == expected


def test_no_samples_hold_no_speech():
    assert vad().speech(np.zeros(0, np.float32), SpeechSettings()) == []


def published_files() -> list[tuple[Score, Samples, Samples, tuple[float, float, float]]]:
    """Score, channel mean of the clip, answer and times of dialogues that start early, as their files have them."""
    found = []
    for score, dialogue in zip(sample_scores(), dialogues(), strict=True):
        if dialogue.system in ("early", "human") and dialogue.subset == "improvised":
            name = dialogue.dialogue_id.rpartition("/")[2]
            folder = (
                SAMPLE_DIR / "outputs" / ("original" if dialogue.system == "human" else "early") / "test/improvised"
            )
            (path,) = folder.glob(f"audio*/*{name}.flac")
            clip, answer = (
                np.float32(soundfile.read(file, always_2d=True)[0].mean(axis=1))
                for file in (SAMPLE_DIR / f"inputs/test/improvised/audios/{name}.flac", path)
            )
            times = (dialogue.context_end_s, dialogue.question_end_s, dialogue.answer_start_s)
            found.append((score, clip, answer, times))
    return found


def test_published_metrics_are_the_published_rules_on_the_reference_functions_segments():
    model = load_silero_vad()

    def heard(samples: Samples) -> list[tuple[float, float]]:
        edges = reference(samples, Remembering(model), SpeechSettings(), seconds=False)
        return [(start / SAMPLE_RATE_HZ, end / SAMPLE_RATE_HZ) for start, end in edges]

    trimmed_differs = False
    for score, clip, answer, (context_end_s, question_end_s, answer_start_s) in published_files():
        question, whole = heard(clip), heard(answer)
        trimmed = heard(answer[int(max(0.0, -answer_start_s) * SAMPLE_RATE_HZ) :])
        latency_s = max(0, question_end_s - question[-1][1]) + max(0, answer_start_s) + trimmed[0][0]
        overlaps = [
            sum(
                max(0, min(end + shift, q_end, question_end_s) - max(start + shift, q_start, context_end_s))
                for q_start, q_end in question
            )
            for shift in [question_end_s + answer_start_s]
            for start, end in whole
        ]
        assert score.metrics["spear_latency_ms"] == pytest.approx(1000 * latency_s, rel=0, abs=1e-6)
        assert score.metrics["overlap_ms"] == pytest.approx(1000 * sum(overlaps), rel=0, abs=1e-6)
        assert score.metrics["interruption_segments"] == sum(overlap > 1e-9 for overlap in overlaps)
        trimmed_differs |= trimmed[0][0] != whole[0][0]
    assert trimmed_differs


def test_published_metrics_hear_both_channels_of_the_clip_and_ours_only_the_asking_one():
    dialogue = next(d for d in dialogues() if d.system == "early")
    plain, swapped = (one(replace(dialogue, clip=clip)) for clip in (dialogue.clip, dialogue.clip[::-1]))
    assert {key: plain.metrics[key] for key in PUBLISHED} == {key: swapped.metrics[key] for key in PUBLISHED}
    assert plain.details["question_segments"] != swapped.details["question_segments"]


def test_published_grid_moves_only_the_published_metrics():
    rounded = VadScorer(VadConfig(published_grid=True))
    rounded.setup()
    plain, gridded = (scorer.score(dialogues()[:6]) for scorer in (vad(), rounded))
    assert any(
        a.metrics["spear_latency_ms"] != b.metrics["spear_latency_ms"] for a, b in zip(plain, gridded, strict=True)
    )
    for a, b in zip(plain, gridded, strict=True):
        assert {k: v for k, v in a.metrics.items() if k not in PUBLISHED} == {
            k: v for k, v in b.metrics.items() if k not in PUBLISHED
        }


def test_a_score_does_not_depend_on_its_batch():
    batch = [*dialogues()[::5], unreadable()]
    together = vad().score(batch)
    assert [one(dialogue) for dialogue in batch] == together
    assert vad().score(batch[::-1])[::-1] == together


def test_every_sample_row_is_ok_and_in_order():
    assert [score.dialogue_id for score in sample_scores()] == [dialogue.dialogue_id for dialogue in dialogues()]
    assert {score.status for score in sample_scores()} == {Status.OK}
    assert {score.fingerprint for score in sample_scores()} == {vad().fingerprint}


def test_every_metric_of_a_row_stands_on_the_leaderboard():
    sources = {key for metric in VadScorer.metrics for key in metric.sources}
    assert set().union(*(score.metrics for score in sample_scores())) == sources


def test_latencies_agree_with_how_the_sample_was_made():
    with (SAMPLE_DIR / "truth.csv").open(newline="") as file:
        truth = {(row["system"], row["id"]): row for row in csv.DictReader(file)}
    for score in sample_scores():
        row = truth[score.system, score.dialogue_id.rpartition("/")[2]]
        assert ("latency_ms" in score.metrics) == bool(row["answer_speech_start_s"])
        if row["answer_speech_start_s"]:
            true_ms = 1000 * (float(row["answer_speech_start_s"]) - float(row["question_speech_end_s"]))
            assert score.metrics["latency_ms"] == pytest.approx(true_ms, abs=150)


def test_early_system_has_negative_latency_and_interrupts():
    assert len(latencies_ms("early")) == 12
    assert max(latencies_ms("early")) < 0
    assert all(score.metrics["interrupted"] == 1 and score.metrics["overlap_ms"] > 0 for score in scores_of("early"))
    assert all(score.metrics["answer_interruptions"] >= 1 for score in scores_of("early"))


def test_slow_system_waits_more_than_a_second_and_a_half():
    assert len(latencies_ms("slow")) == 12
    assert min(latencies_ms("slow")) > 1500
    assert {score.metrics["interrupted"] for score in scores_of("slow")} == {0}
    assert all(score.metrics["answer_gaps"] >= 1 for score in scores_of("slow"))


def test_sometimes_silent_system_leaves_four_of_twelve_unanswered():
    assert [score.metrics["answered"] for score in scores_of("sometimes-silent")].count(0) == 4
    assert len(latencies_ms("sometimes-silent")) == 8


def test_human_latency_is_that_of_people():
    assert len(latencies_ms("human")) == 12
    assert 100 < statistics.median(latencies_ms("human")) < 400


def test_silent_answer_is_scored_and_has_no_latency():
    answered = next(d for d in dialogues() if d.system == "slow")
    score = one(replace(answered, answer=np.zeros_like(answered.answer)))
    assert (score.status, score.code) == (Status.OK, None)
    assert (score.metrics["answered"], score.metrics["answer_speech_s"]) == (0, 0)
    assert "latency_ms" not in score.metrics
    assert "answer_silent" in score.details["notes"]
    assert score.metrics["spear_latency_ms"] == pytest.approx(1000 * answered.answer_start_s, abs=150)


def test_silent_question_has_no_latency_and_says_so():
    dialogue = dialogues()[0]
    score = one(replace(dialogue, clip=np.zeros_like(dialogue.clip)))
    assert score.status == Status.OK
    assert "latency_ms" not in score.metrics
    assert "question_silent" in score.details["notes"]


def unreadable() -> Dialogue:
    return Dialogue(
        dialogue_id="x",
        conversation_id="x",
        system="s",
        split="t",
        subset="u",
        problem=Problem("audio_empty", "no bytes"),
    )


def test_unreadable_dialogue_becomes_an_error_row_with_its_code():
    score = one(unreadable())
    assert (score.status, score.code, score.message) == (Status.ERROR, "audio_empty", "no bytes")
    assert (score.dialogue_id, score.system, score.split, score.subset) == ("x", "s", "t", "u")
    assert not score.metrics


def test_dialogue_without_a_question_end_is_an_error_row():
    score = one(replace(dialogues()[0], question_end_s=None, answer_start_s=None, answer=None))
    assert (score.status, score.code) == (Status.ERROR, "field_missing")


def recorded(dialogue: Dialogue, answer_start_s: float | None) -> Dialogue:
    """The dialogue as one two-channel recording."""
    return replace(dialogue, clip=dialogue.audio, answer=None, answer_start_s=answer_start_s)


@pytest.mark.parametrize("system", ["human", "early", "slow"])
def test_recording_without_answer_start_finds_the_answer_by_voice_activity(system):
    dialogue = next(d for d in dialogues() if d.system == system)
    with_start, without = one(dialogue), one(recorded(dialogue, None))
    assert without.status == Status.OK
    assert without.metrics["latency_ms"] == pytest.approx(with_start.metrics["latency_ms"], abs=50)
    assert not set(PUBLISHED) & set(without.metrics)
    assert without.metrics["answered"] == 1


def test_recording_with_answer_start_equals_clip_and_answer_file():
    dialogue = next(d for d in dialogues() if d.system == "slow")
    plain, whole = one(dialogue), one(recorded(dialogue, dialogue.answer_start_s))
    assert {k: v for k, v in whole.metrics.items() if k not in PUBLISHED} == {
        k: v for k, v in plain.metrics.items() if k not in PUBLISHED
    }
    assert whole.metrics["spear_latency_ms"] == pytest.approx(plain.metrics["spear_latency_ms"], abs=50)


def test_answer_on_both_channels_leaves_the_published_metrics_unchanged():
    for dialogue in dialogues()[::6]:
        own, both = (one(replace(dialogue, answer_channels=channels)) for channels in ("own", "both"))
        assert {key: own.metrics[key] for key in PUBLISHED} == {key: both.metrics[key] for key in PUBLISHED}
    assert own.details["question_segments"] != both.details["question_segments"]


def test_asking_side_on_channel_1_gives_the_same_scores(tmp_path):
    dialogue = next(d for d in dialogues() if d.system == "human")
    results = []
    for asking, channels_ in ((0, dialogue.audio), (1, dialogue.audio[::-1])):
        folder = tmp_path / str(asking)
        folder.mkdir()
        soundfile.write(folder / "a.wav", channels_.T, SAMPLE_RATE_HZ, subtype="FLOAT")
        (folder / "list.csv").write_text(
            "id,file,question_end_s,answer_start_s,context_end_s\n"
            f"a,a.wav,{dialogue.question_end_s},{dialogue.answer_start_s},{dialogue.context_end_s}\n"
        )
        source = open_source(load([f"data.uri={folder}", f"data.asking_channel={asking}"]))
        results.append(one(*read_all(source)))
    assert results[0].metrics["latency_ms"] == one(dialogue).metrics["latency_ms"]
    assert results[0].metrics == results[1].metrics
    assert results[0].details == results[1].details


def changed(value: float | bool) -> float | bool:
    return not value if isinstance(value, bool) else value + 1


SCORING_KEYS = [
    *(f"speech.{item.name}" for item in fields(SpeechSettings)),
    *(f"events.{item.name}" for item in fields(EventSettings)),
    "published_grid",
]


@pytest.mark.parametrize("key", SCORING_KEYS)
def test_fingerprint_changes_with_every_scoring_setting(key):
    config = VadConfig()
    *path, name = key.split(".")
    owner = getattr(config, path[0]) if path else config
    setattr(owner, name, changed(getattr(owner, name)))
    assert VadScorer(config).fingerprint != VadScorer(VadConfig()).fingerprint


def test_every_setting_but_where_it_runs_is_a_scoring_setting():
    elsewhere = {"resources", "serving"}
    assert {key.split(".")[0] for key in SCORING_KEYS} | elsewhere == {item.name for item in fields(VadConfig)}


def test_fingerprint_does_not_change_with_where_it_runs():
    resources = Resources(concurrency=[2, 4], num_cpus=2, num_gpus=1, memory_bytes=1)
    config = VadConfig(resources=resources, serving=Serving(batch_size=3, max_replicas=2))
    assert VadScorer(config).fingerprint == VadScorer(VadConfig()).fingerprint


def test_fingerprint_changes_with_the_version_of_silero(monkeypatch):
    before = VadScorer(VadConfig()).fingerprint
    monkeypatch.setattr("spear_ray.networks.silero.package_version", lambda package: "0.0.1")
    assert VadScorer(VadConfig()).fingerprint != before


def test_event_settings_are_the_thresholds_of_the_event_rules():
    assert vars(EventSettings()) == {item.name: getattr(Thresholds(), item.name) for item in fields(Thresholds)}


def test_missing_package_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr("spear_ray.networks.silero.find_spec", lambda module: None)
    assert "pip install silero-vad" in str(VadScorer(VadConfig()).missing())


def test_nothing_is_missing_here():
    assert VadScorer(VadConfig()).missing() is None
