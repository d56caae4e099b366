"""Stretches of talk, and pauses and rates within them."""

from __future__ import annotations

import pytest

from spear_ray.prosody.temporal import Word, stretches_of, vad_metrics, word_metrics
from spear_ray.timing.segments import Segment, segments_of

SPEECH = segments_of([(0.0, 2.0), (2.5, 4.0), (5.5, 7.5), (7.6, 8.0)])


def words(*times: tuple[float, float]) -> list[Word]:
    return [Word(f"w{place}", start, end) for place, (start, end) in enumerate(times)]


def test_a_gap_of_one_second_is_within_a_stretch_and_a_longer_one_ends_it() -> None:
    assert stretches_of(segments_of([(0, 1.2), (2.2, 3)]), 0.1) == [Segment(0, 3)]
    assert stretches_of(segments_of([(0, 1.2), (2.21, 3)]), 0.1) == [Segment(0, 1.2), Segment(2.21, 3)]


def test_short_stretches_are_left_out() -> None:
    assert stretches_of(SPEECH, 2.0) == [Segment(0.0, 4.0), Segment(5.5, 8.0)]
    assert stretches_of(SPEECH, 2.6) == [Segment(0.0, 4.0)]
    assert stretches_of(SPEECH, 12.1) == []


def test_rates_count_words_over_talk_with_and_without_its_pauses() -> None:
    spoken = words((0.0, 0.5), (0.6, 1.0), (1.2, 2.0), (2.5, 3.0), (3.0, 4.0))
    found = word_metrics(spoken, [Segment(0.0, 4.0)])
    expected = {
        "speech_rate_wps": 5 / 4, "speech_rate_wpm": 75, "articulation_rate_wps": 5 / 3.3,
        "articulation_rate_wpm": 300 / 3.3, "pause_ratio": 0.7 / 4, "pause_count": 2, "pause_total_s": 0.7,
        "pause_mean_s": 0.35,
    }  # fmt: skip
    assert found == pytest.approx(expected)


def test_a_gap_just_below_a_fifth_of_a_second_is_no_pause() -> None:
    one = [Segment(0.0, 2.0)]
    assert word_metrics(words((0.0, 0.1), (0.3, 0.5)), one)["pause_count"] == 1
    assert word_metrics(words((0.0, 0.1), (0.29, 0.5)), one)["pause_count"] == 0


def test_silence_between_stretches_and_words_outside_them_do_not_count() -> None:
    stretches = [Segment(0.0, 2.0), Segment(5.0, 7.0)]
    found = word_metrics(words((0.5, 1.0), (1.0, 2.0), (3.0, 3.5), (5.0, 6.0), (6.5, 7.0)), stretches)
    assert found["speech_rate_wps"] == 1.0
    assert found["pause_total_s"] == pytest.approx(0.5)


def test_without_pauses_there_is_no_mean_pause() -> None:
    found = word_metrics(words((0.0, 1.0), (1.0, 2.0)), [Segment(0.0, 2.0)])
    assert "pause_mean_s" not in found
    assert (found["pause_ratio"], found["pause_count"], found["articulation_rate_wps"]) == (0.0, 0.0, 1.0)


def test_the_order_of_words_does_not_matter_and_overlapping_words_are_no_pause() -> None:
    spoken = words((0.0, 1.5), (0.2, 0.4), (1.0, 2.0))
    stretches = [Segment(0.0, 2.0)]
    found = word_metrics(spoken, stretches)
    assert found == word_metrics(spoken[::-1], stretches)
    assert found["pause_count"] == 0


def test_without_words_or_stretches_there_are_no_rates() -> None:
    assert word_metrics([], [Segment(0, 3)]) == {}
    assert word_metrics(words((0.0, 1.0)), []) == {}


def test_voice_activity_has_pauses_under_names_of_its_own() -> None:
    found = vad_metrics(SPEECH, stretches_of(SPEECH, 2.0))
    expected = {
        "vad_speech_s": 5.9, "vad_pause_ratio": 0.5 / 6.5, "vad_pause_count": 1, "vad_pause_total_s": 0.5,
        "vad_pause_mean_s": 0.5,
    }  # fmt: skip
    assert found == pytest.approx(expected)
    assert not found.keys() & word_metrics(words((0.0, 1.0), (2.0, 3.0)), [Segment(0.0, 4.0)]).keys()


def test_speech_that_fills_no_stretch_is_only_counted() -> None:
    assert vad_metrics(SPEECH, []) == pytest.approx({"vad_speech_s": 5.9})
    assert vad_metrics([], []) == {"vad_speech_s": 0.0}
