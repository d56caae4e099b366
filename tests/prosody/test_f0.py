"""Pitch statistics, loudness, and whom a question's transcript names."""

from __future__ import annotations

import numpy as np
import pytest

from spear_ray.acoustics.pitch import Pitch
from spear_ray.prosody.f0 import (
    LOW_VOICED_RATIO,
    OK,
    TRIMMED,
    answered_speaker,
    f0_metrics,
    loudness_metrics,
    speaker_number,
)
from spear_ray.timing.segments import Segment
from tests.clips import silence, speech


def track(f0_hz: list[float], unvoiced: int = 0) -> Pitch:
    values = np.array([*f0_hz, *[np.nan] * unvoiced])
    return Pitch(np.arange(values.size) / 100, values, np.where(np.isnan(values), 0.0, 0.9))


def test_statistics_are_those_of_the_voiced_frames() -> None:
    found, status = f0_metrics(track([float(hz) for hz in range(100, 201)], unvoiced=101))
    assert status == OK
    expected = {
        "voiced_ratio": 0.5, "f0_mean_raw": 150, "f0_median_raw": 150, "f0_min_raw": 100, "f0_max_raw": 200,
        "f0_range_raw": 100, "f0_std_raw": np.sqrt((101**2 - 1) / 12), "f0_p10": 110, "f0_p25": 125, "f0_p75": 175,
        "f0_p90": 190, "f0_range_p10_p90": 80, "f0_range_p25_p75": 50, "f0_mean_p10_p90": 150, "f0_mean_p25_p75": 150,
        "f0_std_p10_p90": np.sqrt((81**2 - 1) / 12), "f0_std_p25_p75": np.sqrt((51**2 - 1) / 12),
    }  # fmt: skip
    assert found == pytest.approx(expected)


def test_an_outlier_moves_the_raw_mean_and_not_the_trimmed_one() -> None:
    steady = [120.0 + k % 5 for k in range(100)]
    plain, moved = (f0_metrics(track([*steady, *extra]))[0] for extra in ([], [480.0]))
    assert moved["f0_mean_raw"] - plain["f0_mean_raw"] > 3
    assert moved["f0_mean_p10_p90"] == pytest.approx(plain["f0_mean_p10_p90"], abs=0.1)


def test_too_few_voiced_frames_leave_the_ratio_only() -> None:
    assert f0_metrics(track([100.0] * 4, unvoiced=96)) == ({"voiced_ratio": 0.04}, LOW_VOICED_RATIO)
    assert f0_metrics(track([100.0] * 5, unvoiced=95))[1] == OK
    assert f0_metrics(track([])) == ({"voiced_ratio": 0.0}, LOW_VOICED_RATIO)


def test_two_different_frames_have_nothing_between_their_percentiles() -> None:
    found, _ = f0_metrics(track([100.0, 200.0]))
    assert found["f0_range_p10_p90"] == pytest.approx(80)
    assert set(TRIMMED) - found.keys() == {"f0_mean_p10_p90", "f0_std_p10_p90", "f0_mean_p25_p75", "f0_std_p25_p75"}


def test_pauses_do_not_lower_the_level() -> None:
    talk = speech(2.0)
    within = [Segment(0.0, 2.0)]
    alone = loudness_metrics(talk, within)
    padded = loudness_metrics(np.concatenate([talk, silence(6.0)]), within)
    assert padded == pytest.approx(alone, abs=0.5)
    assert loudness_metrics(0.5 * talk, within)["energy_db"] == pytest.approx(alone["energy_db"] - 6.02, abs=0.01)
    assert loudness_metrics(0.5 * talk, within)["hf500_db"] == pytest.approx(alone["hf500_db"], abs=0.01)


def test_only_frames_in_speech_count() -> None:
    talk = np.concatenate([speech(2.0), 0.01 * speech(2.0), speech(2.0)])
    quiet = loudness_metrics(talk, [Segment(2.1, 3.9)])["energy_db"]
    loud = loudness_metrics(talk, [Segment(0.0, 1.9), Segment(4.1, 6.0)])["energy_db"]
    assert loud - quiet == pytest.approx(40, abs=3)


def test_silence_has_a_level_and_no_brightness_and_no_audio_has_neither() -> None:
    assert loudness_metrics(silence(1.0), []) == {"energy_db": -120.0}
    assert loudness_metrics(silence(0.0), []) == {}


@pytest.mark.parametrize(
    ("text", "tag"),
    [("P0001: so? P0002A: is it?", "P0002A"), ("P0001: meet at 10:30 then?", "10"), ("no tags", ""), ("", ""),
     (None, ""), ("P0001: note this: P0003: ok?", "P0003")],
)  # fmt: skip
def test_the_last_word_with_a_colon_is_the_answered_speaker(text: str | None, tag: str) -> None:
    assert answered_speaker(text) == tag


def test_speakers_have_different_numbers_that_a_float_holds() -> None:
    tags = ["", *(f"P{number:04d}{end}" for number in range(2000) for end in ("", "A"))]
    assert len({speaker_number(tag) for tag in tags}) == len(tags)
    assert speaker_number("") == 0.0
