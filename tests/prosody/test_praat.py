"""Our pitch track beside Praat's on real speech."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spear_ray.acoustics import praat
from spear_ray.acoustics.pitch import Pitch, pitch
from spear_ray.errors import PrerequisiteError
from spear_ray.prosody.f0 import f0_metrics
from tests.bundled import dialogues
from tests.clips import silence, speech

needs_praat = pytest.mark.skipif(praat.missing() is not None, reason="parselmouth is not installed")

LEAST_VOICED_AGREEMENT = 0.95
"""Share of frames over all clips. Measured: 0.969; where they differ it is mostly ours that says voiced (0.028)."""
LEAST_VOICED_AGREEMENT_OF_A_CLIP = 0.9
"""Measured: 0.909 in the worst of 46."""
MOST_VOICED_RATIO = 0.08
"""Ours less Praat's. Measured: 0 to 0.058, 0.023 on average."""
MOST_FRAME_SEMITONES = 0.15
"""Median over the frames that both have. Measured: 0.106 in the worst clip, 0.006 over all frames."""
MOST_MEDIAN_SEMITONES = 0.25
"""Of the median pitch. Measured: 0.156 in the worst clip. Lowest and highest frames can be more than an octave off."""


def clips() -> list[Any]:
    answers = [one.answer for one in dialogues() if one.answer is not None and np.abs(one.answer).max() > 0.01]
    return [speech(30.0), speech(30.0, voice=1), *answers]


def beside(samples: Any) -> tuple[Pitch, Pitch]:
    """Both tracks, ours at the frames of Praat's that lie nearest."""
    theirs, ours = praat.praat_pitch(samples), pitch(samples)
    place = np.abs(ours.times_s[:, None] - theirs.times_s).argmin(axis=0)
    return theirs, Pitch(theirs.times_s, ours.f0_hz[place], ours.strength[place])


def semitones(first: Any, second: Any) -> Any:
    return 12 * np.log2(np.asarray(first) / np.asarray(second))


@needs_praat
def test_both_trackers_find_the_same_frames_voiced_at_the_same_pitch() -> None:
    agreement = []
    for samples in clips():
        theirs, ours = beside(samples)
        both = theirs.voiced & ours.voiced
        agreement.append(theirs.voiced == ours.voiced)
        assert agreement[-1].mean() >= LEAST_VOICED_AGREEMENT_OF_A_CLIP
        assert np.median(np.abs(semitones(ours.f0_hz[both], theirs.f0_hz[both]))) <= MOST_FRAME_SEMITONES
    assert np.concatenate(agreement).mean() >= LEAST_VOICED_AGREEMENT


@needs_praat
def test_both_trackers_give_the_same_median_and_voiced_ratio() -> None:
    for samples in clips():
        (theirs, _), (ours, _) = (f0_metrics(track) for track in (praat.praat_pitch(samples), pitch(samples)))
        assert ours["voiced_ratio"] == pytest.approx(theirs["voiced_ratio"], abs=MOST_VOICED_RATIO)
        for name in ("f0_median_raw", "f0_mean_p25_p75", "f0_mean_p10_p90"):
            assert abs(semitones(ours[name], theirs[name])) <= MOST_MEDIAN_SEMITONES, name


@needs_praat
def test_silence_and_what_is_too_short_have_no_pitch() -> None:
    assert not praat.praat_pitch(silence(1.0)).voiced.any()
    assert praat.praat_pitch(silence(0.04)).f0_hz.size == 0
    assert praat.praat_pitch(silence(0.0)).f0_hz.size == 0
    assert praat.praat_pitch(speech(0.041)).f0_hz.size > 0


@needs_praat
def test_pitch_stays_between_floor_and_ceiling() -> None:
    track = praat.praat_pitch(speech(20.0))
    assert 75 <= np.nanmin(track.f0_hz) <= np.nanmax(track.f0_hz) <= 500


def test_without_parselmouth_the_error_says_how_to_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(praat, "find_spec", lambda name: None)
    assert praat.version() is None
    with pytest.raises(PrerequisiteError, match=r"pip install 'spear_ray\[praat\]'"):
        praat.praat_pitch(speech(1.0))
