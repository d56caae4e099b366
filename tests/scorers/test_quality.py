"""The quality scorer against the packages whose weights it uses, on real speech."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
import torch

from spear_ray.dialogue import Status
from spear_ray.errors import ConfigError, OutOfGpuMemory
from spear_ray.networks import distillmos, dnsmos
from spear_ray.scorers.quality import QualityConfig, QualityScorer
from tests.clips import dialogue_of, noise, silence, speech

LENGTHS = (0.4, 3.0, 7.68, 8.5, 9.01, 12.3)
CLIPS = [speech(seconds, voice=number % 2) for number, seconds in enumerate(LENGTHS)]


@pytest.fixture(scope="module")
def scorer() -> QualityScorer:
    made = QualityScorer(QualityConfig())
    assert made.missing() is None
    made.setup()
    return made


@pytest.fixture(scope="module")
def package() -> Any:
    from distillmos import ConvTransformerSQAModel

    with contextlib.redirect_stdout(io.StringIO()):
        return ConvTransformerSQAModel().eval()


def test_distillmos_is_what_its_package_gives_for_each_clip(scorer, package):
    found = scorer._distillmos.scores(CLIPS)
    with torch.inference_mode():
        expected = [float(package(torch.from_numpy(clip.copy())[None])) for clip in CLIPS]
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(found) > 0.1


def test_dnsmos_is_what_its_package_gives_for_each_clip(scorer):
    from speechmos import dnsmos as theirs

    for clip in [*CLIPS, noise(10.0), speech(20.0)]:
        expected = theirs.run(clip, 16_000)
        found = scorer._dnsmos.scores(clip)
        for key, value in found.items():
            assert value == pytest.approx(float(expected[f"{key}_mos"]), abs=1e-4), key


@pytest.mark.parametrize("seconds", [0.5, 7.68, 7.69, 9.0, 61.3])
def test_segments_cover_the_clip_from_its_first_to_its_last_sample(seconds):
    clip = np.arange(round(seconds * 16_000), dtype=np.float32)
    cut = distillmos.segments(clip)
    assert cut[0][0] == clip[0]
    assert cut[-1][-1] == clip[-1]
    starts = [part[0] for part in cut]
    assert max(np.diff(starts), default=0) <= 16_000
    assert len({part.size for part in cut}) == 1


def test_a_short_clip_is_repeated_for_dnsmos():
    clip = np.arange(1, 40_001, dtype=np.float32)
    (segment,) = dnsmos.segments(clip)
    assert segment.size == dnsmos.SAMPLES
    np.testing.assert_array_equal(segment[40_000:80_000], clip)


def test_an_answer_has_all_estimates(scorer):
    row = scorer.score([dialogue_of(answer=speech(4.0))])[0]
    assert row.status == Status.OK
    assert row.metrics.keys() == {"distillmos", "dnsmos_ovrl", "dnsmos_sig", "dnsmos_bak", "dnsmos_p808"}
    assert all(1 <= value <= 5 for value in row.metrics.values())


def test_noise_on_speech_lowers_every_estimate(scorer):
    clean = speech(6.0)
    dirty = clean + 0.05 * np.random.default_rng(1).standard_normal(clean.size, dtype=np.float32)
    good, bad = (row.metrics for row in scorer.score([dialogue_of(answer=clean), dialogue_of(answer=dirty)]))
    assert all(bad[key] < good[key] for key in good)


@pytest.mark.parametrize(
    ("answer", "code"),
    [(speech(0.2), "too_short"), (silence(3.0), "no_speech"), (noise(3.0), "no_speech")],
    ids=["short", "silent", "noise"],
)
def test_answers_that_cannot_be_rated_have_a_code(scorer, answer, code):
    row = scorer.score([dialogue_of(answer=answer)])[0]
    assert (row.status, row.code, row.metrics) == (Status.SKIPPED, code, {})


def test_a_score_does_not_depend_on_its_batch(scorer):
    batch = [dialogue_of(name=f"d{n}", answer=clip) for n, clip in enumerate([*CLIPS[:4], silence(2.0)])]
    for dialogue, row in zip(batch, scorer.score(batch), strict=True):
        alone = scorer.score([dialogue])[0]
        assert (row.status, row.code) == (alone.status, alone.code)
        assert row.metrics == pytest.approx(alone.metrics, abs=1e-4)


def test_audio_beyond_full_scale_is_clipped_and_noted(scorer):
    loud = 1.5 * speech(3.0) / np.abs(speech(3.0)).max()
    row = scorer.score([dialogue_of(answer=loud)])[0]
    assert row.status == Status.OK
    assert "clipped_to_full_scale" in row.details["notes"]


def test_a_segment_that_does_not_fit_the_gpu_is_one_error_row(scorer, monkeypatch):
    monkeypatch.setattr(scorer._distillmos, "scores", lambda clips: [OutOfGpuMemory("no room"), 3.0])
    rows = scorer.score([dialogue_of(name="a", answer=speech(3.0)), dialogue_of(name="b", answer=speech(4.0))])
    assert [(row.status, row.code) for row in rows] == [(Status.ERROR, "gpu_out_of_memory"), (Status.OK, None)]


def test_one_of_both_can_be_left_out():
    made = QualityScorer(QualityConfig(distillmos=False))
    made.setup()
    assert "distillmos" not in made.score([dialogue_of(answer=speech(3.0))])[0].metrics
    assert made.fingerprint != QualityScorer(QualityConfig()).fingerprint
    assert QualityScorer(QualityConfig(dnsmos_threads=2)).fingerprint == QualityScorer(QualityConfig()).fingerprint


@pytest.mark.parametrize(
    "settings",
    [{"distillmos": False, "dnsmos": False}, {"dnsmos_threads": 0}, {"min_seconds": 0.0}, {"min_speech_s": -1.0}],
    ids=str,
)
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(ConfigError):
        QualityConfig(**settings).check()


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("spear_ray.scorers.quality.find_spec", lambda name: None if name == "speechmos" else object())
    made = QualityScorer(QualityConfig())
    assert "pip install speechmos" in str(made.missing())
    assert QualityScorer(QualityConfig(dnsmos=False)).missing() is None


@pytest.mark.parametrize("cut", [distillmos.segments, dnsmos.segments])
def test_the_segments_of_half_an_hour_are_views_and_take_no_memory_of_their_own(cut):
    clip = np.zeros(1800 * 16_000, dtype=np.float32)
    found = cut(clip)
    assert len(found) > 1700
    assert all(np.shares_memory(segment, clip) for segment in found)
