import io
import json

import numpy as np
import pytest
import soundfile

from spear_ray.audio import decode, resampled
from spear_ray.config import AudioConfig
from spear_ray.judging.clips import (
    LEVEL_DB,
    PAUSE,
    PEAK,
    TooLong,
    at_peak,
    exchange,
    laid,
    levelled,
    mixed,
    target_speech,
    trimmed,
    turn_pair,
)
from spear_ray.pcm import on_16_bits
from spear_ray.sides import answer_clip, question_clip
from spear_ray.timing.segments import Segment
from tests.bundled import dialogues
from tests.golden_cases import GOLDEN

RATE = 16_000
STEP = 1 / 32768


def sides(index=0):
    spoken = [one for one in dialogues() if np.abs(answer_clip(one)).max() > 0.01]
    return question_clip(spoken[index], "asking", with_context=False), answer_clip(spoken[index])


def exchanged(question, answer):
    return exchange(question, answer, 60, 120)


def zeros(seconds):
    return np.zeros(round(seconds * RATE), dtype=np.float32)


def tone(seconds, level=0.1, hz=200):
    return (level * np.sin(2 * np.pi * hz * np.arange(round(seconds * RATE)) / RATE)).astype(np.float32)


# What the judge hears does not depend on how the recording was made.


@pytest.mark.parametrize("index", [0, 5, 11])
@pytest.mark.parametrize("gain_db", [-6, 6])
def test_gain_changes_no_sample_by_more_than_a_step(index, gain_db):
    question, answer = sides(index)
    gain = np.float32(10 ** (gain_db / 20))
    for pair in ((question * gain, answer), (question, answer * gain), (question * gain, answer * gain)):
        np.testing.assert_allclose(exchanged(*pair), exchanged(question, answer), atol=1.01 * STEP)


@pytest.mark.parametrize("index", [0, 5, 11])
def test_a_second_more_of_outer_silence_changes_nothing(index):
    question, answer = sides(index)
    second = zeros(1)
    wider = [np.concatenate([second, side, second]) for side in (question, answer)]
    np.testing.assert_array_equal(exchanged(*wider), exchanged(question, answer))
    np.testing.assert_array_equal(exchanged(question, np.concatenate([answer, second])), exchanged(question, answer))


@pytest.mark.parametrize("rate_hz", [24_000, 44_100, 48_000])
def test_another_sample_rate_gives_the_same_clip_but_for_what_resampling_rounds(rate_hz):
    question, answer = sides()
    file = io.BytesIO()
    soundfile.write(file, resampled(answer[None], RATE, rate_hz)[0], rate_hz, format="WAV", subtype="FLOAT")
    again = decode(file.getvalue(), AudioConfig()).samples[0]
    there, here = exchanged(question, again), exchanged(question, answer)
    size = min(there.size, here.size)
    assert abs(there.size - here.size) <= 320
    # frames are counted from the first sound, which may begin some samples earlier or later
    best = max(np.corrcoef(np.roll(there[:size], shift), here[:size])[0, 1] for shift in range(-160, 161))
    assert best > 0.999


def test_question_pause_answer():
    question, answer = tone(2), tone(3, hz=300)
    clip = exchanged(question, answer)
    assert clip.dtype == np.float32
    asked, replied = trimmed(question).size, trimmed(answer).size
    assert clip.size == asked + PAUSE + replied
    assert not clip[asked : asked + PAUSE].any()
    np.testing.assert_array_equal(clip, on_16_bits(clip))


def test_both_sides_have_the_level_of_speech_and_pauses_do_not_count():
    question, answer = tone(2, 0.01), np.concatenate([tone(1, 0.5), zeros(2), tone(1, 0.5)])
    for side in (question, answer):
        made = levelled(trimmed(side))
        speech = made[np.abs(made) > STEP]
        assert 10 * np.log10(np.mean(np.square(speech, dtype=np.float64))) == pytest.approx(LEVEL_DB, abs=0.3)


def test_loud_peaks_make_a_side_softer_and_are_not_clipped():
    side = tone(3, 0.02)
    side[8000] = 1.0
    made = levelled(side)
    assert np.abs(made).max() == pytest.approx(PEAK, abs=STEP)
    ratio = made[1000:2000][np.abs(side[1000:2000]) > 0.01] / side[1000:2000][np.abs(side[1000:2000]) > 0.01]
    np.testing.assert_allclose(ratio, PEAK, rtol=0.01)


def test_outer_silence_goes_and_inner_silence_stays():
    side = np.concatenate([zeros(0.7), tone(1), zeros(1.5), tone(1), zeros(0.9)])
    assert trimmed(side).size / RATE == pytest.approx(1 + 1.5 + 1 + 0.2, abs=0.02)


def test_soft_noise_around_speech_is_silence():
    noise = np.random.default_rng(0).normal(0, 0.0001, 5 * RATE).astype(np.float32)
    noise[2 * RATE : 3 * RATE] += tone(1, 0.3)
    assert trimmed(noise).size / RATE == pytest.approx(1.2, abs=0.03)


def test_what_is_too_long_is_said_and_not_cut():
    assert exchange(tone(21), tone(2), 20, 60) == TooLong("the question", pytest.approx(21.2), 20)
    found = exchange(tone(10), tone(30), 20, 35)
    assert str(found) == "question, pause and answer has 41.4 s, at most 35 s are judged"


# The clips of the stances.


def recorded_mixes():
    arrays = np.load(GOLDEN / "stance_mix.npz")
    cases = json.loads((GOLDEN / "stance_mix_cases.json").read_text())["cases"]
    return [pytest.param(case, arrays, id=str(case["i"])) for case in cases]


@pytest.mark.parametrize(("case", "arrays"), recorded_mixes())
def test_recorded_mixes(case, arrays):
    question, answer, expected = (arrays[f"{case['i']}.{kind}"] for kind in ("question", "answer", "mixed"))
    start = round(case["answer_start_time"] * case["sr"])
    found = laid(question.mean(axis=1, dtype=np.float32), answer.mean(axis=1, dtype=np.float32), start)
    # the published code rounds each side down to whole steps
    np.testing.assert_allclose(np.clip(found, -32768, 32767), expected, atol=1)


def test_answer_stands_where_it_was():
    clip = mixed(tone(2), tone(1, hz=300), 0.5, 10)
    assert clip.size == 3.5 * RATE
    assert not clip[2 * RATE : round(2.5 * RATE)].any()
    early = laid(np.ones(10, np.float32), np.ones(4, np.float32), -3)
    assert early.tolist() == [1] * 7 + [2] * 3 + [1]
    before = laid(np.ones(2, np.float32), np.ones(3, np.float32), -4)
    assert before.tolist() == [1, 1, 2, 1]


def test_mixed_clip_is_only_made_louder_or_softer_as_a_whole():
    question, answer = sides()
    clip = mixed(question, answer, 0.3, 60)
    plain = laid(question, answer, round(0.3 * RATE))
    scale = np.dot(clip, plain) / np.dot(plain, plain)
    np.testing.assert_allclose(clip, scale * plain, atol=STEP)
    assert isinstance(mixed(question, answer, 0.3, 1), TooLong)


def test_targets_units_follow_each_other_with_a_quarter_second_between():
    answer = np.concatenate([tone(1), zeros(2), tone(2, hz=300)])
    clip = target_speech(answer, [Segment(0.0, 1.0), Segment(3.0, 5.0)])
    assert clip.size == round((1 + 0.25 + 2) * RATE)
    assert not clip[RATE : RATE + 4000].any()
    assert np.abs(clip).max() == pytest.approx(PEAK, abs=STEP)
    assert target_speech(answer, [Segment(0.0, 1.0), Segment(3.0, 5.0)], most_s=2.9) == TooLong(
        "the target's speech", pytest.approx(3.0), 2.9
    )


def test_two_clips_of_a_turn_and_the_reply():
    context, target = turn_pair(tone(4), tone(5))
    assert (context.size, target.size) == (trimmed(tone(4)).size, trimmed(tone(5)).size)
    assert isinstance(turn_pair(tone(11), tone(5)), TooLong)
    assert isinstance(turn_pair(tone(4), tone(16)), TooLong)


def test_silence_has_no_level():
    assert not at_peak(zeros(1)).any()
    assert not levelled(zeros(1)).any()
