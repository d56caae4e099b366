from dataclasses import replace

import numpy as np
import pytest

from spear_ray.audio import published_mix
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Problem
from spear_ray.errors import AudioEmpty

RANDOM = np.random.default_rng(0)
CLIP = RANDOM.uniform(-0.4, 0.4, (2, 2 * SAMPLE_RATE_HZ)).astype(np.float32)
ANSWER = RANDOM.uniform(-0.4, 0.4, SAMPLE_RATE_HZ).astype(np.float32)


def dialogue(answer_start_s: float | None = 0.5, **rest) -> Dialogue:
    values = {
        "dialogue_id": "a",
        "conversation_id": "c",
        "system": "s",
        "split": "test",
        "subset": "improvised",
        "clip": CLIP,
        "answer": ANSWER,
        "question_end_s": 2.0,
        "answer_start_s": answer_start_s,
    }
    return Dialogue(**{**values, **rest})


def test_the_answer_lies_on_channel_1_from_its_onset_on():
    audio = dialogue(0.5).audio
    assert audio.shape == (2, 56_000)
    np.testing.assert_array_equal(audio[1, 40_000:], ANSWER)


def test_the_answer_is_not_heard_on_the_asking_channel():
    audio = dialogue(0.5).audio
    np.testing.assert_array_equal(audio[0, :32_000], CLIP[0])
    np.testing.assert_array_equal(audio[0, 32_000:], 0)


def test_between_clip_and_late_answer_there_is_silence():
    np.testing.assert_array_equal(dialogue(0.5).audio[1, 32_000:40_000], 0)


def test_early_answer_replaces_what_the_clip_holds_on_its_channel_from_the_onset_on():
    audio = dialogue(-1.5).audio
    assert audio.shape == (2, 32_000)
    np.testing.assert_array_equal(audio[0], CLIP[0])
    np.testing.assert_array_equal(audio[1, :8_000], CLIP[1, :8_000])
    np.testing.assert_array_equal(audio[1, 8_000:24_000], ANSWER)
    np.testing.assert_array_equal(audio[1, 24_000:], 0)


def test_the_onset_counts_from_the_question_end_and_not_from_the_end_of_the_clip():
    audio = dialogue(0.25, question_end_s=1.0).audio
    assert dialogue(0.25, question_end_s=1.0).answer_onset_s == 1.25
    np.testing.assert_array_equal(audio[1, 20_000:36_000], ANSWER)
    np.testing.assert_array_equal(audio[0, :32_000], CLIP[0])


def test_the_clip_itself_is_not_changed():
    before = CLIP.copy()
    assert dialogue(-1.0).audio is not CLIP
    np.testing.assert_array_equal(CLIP, before)


def test_answer_on_both_channels_is_the_published_mix():
    both = dialogue(-0.5, answer_channels="both").audio
    np.testing.assert_array_equal(both, published_mix(CLIP, ANSWER, -0.5, SAMPLE_RATE_HZ))
    np.testing.assert_array_equal(both[0, :24_000], CLIP[0, :24_000])
    np.testing.assert_array_equal(both[:, 32_000:], np.stack([ANSWER[8_000:]] * 2))


def test_recording_is_its_own_time_line():
    assert dialogue(None, answer=None).audio is CLIP


@pytest.mark.parametrize("start_s", [-1.75, -0.5, 0.0, 0.3333, 2.0])
@pytest.mark.parametrize("channels", ["own", "both"])
def test_length_is_that_of_the_time_line(start_s, channels):
    made = dialogue(start_s, answer_channels=channels)
    assert made.seconds == made.audio.shape[1] / SAMPLE_RATE_HZ


def test_onset_is_unknown_without_an_answer_start():
    assert dialogue(None, answer=None).answer_onset_s is None


def test_answer_file_without_a_start_has_no_place():
    with pytest.raises(ValueError, match="no answer start"):
        _ = dialogue(None).audio


def test_answer_before_the_clip_has_no_place():
    with pytest.raises(ValueError, match="8000 samples before the clip"):
        _ = dialogue(-2.5).audio


def test_unreadable_dialogue_has_no_audio_and_says_why():
    problem = Problem.of(AudioEmpty("question a.wav: the file has no bytes"))
    assert problem == Problem("audio_empty", "question a.wav: the file has no bytes")
    unreadable = replace(dialogue(), clip=None, answer=None, problem=problem)
    assert unreadable.seconds == 0
    with pytest.raises(ValueError, match="has no audio"):
        _ = unreadable.audio
