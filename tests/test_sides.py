"""Which part of a dialogue is question, answer and earlier speech."""

from dataclasses import replace

import numpy as np
import pytest

from spear_ray.dialogue import Dialogue
from spear_ray.errors import ConfigError
from spear_ray.sides import answer_clip, check_sides, earlier_clips, parts, question_clip

RATE = 16_000
CLIP = np.stack([np.full(5 * RATE, 0.2, np.float32), np.full(5 * RATE, 0.4, np.float32)])
ANSWER = np.full(2 * RATE, 0.1, np.float32)
DIALOGUE = Dialogue(
    dialogue_id="d", conversation_id="c", system="robot", split="test", subset="improvised", clip=CLIP, answer=ANSWER,
    question_end_s=4.0, context_end_s=1.0, answer_start_s=0.5,
)  # fmt: skip
RECORDING = replace(DIALOGUE, answer=None)


def test_the_question_is_the_asking_channel_of_its_own_turn():
    assert question_clip(DIALOGUE, "asking", with_context=False).size == 3 * RATE
    assert question_clip(DIALOGUE, "asking", with_context=True).size == 4 * RATE
    assert question_clip(DIALOGUE, "asking", with_context=True)[0] == np.float32(0.2)


def test_the_mixed_question_is_the_mean_of_both_channels():
    assert question_clip(DIALOGUE, "mixed", with_context=True)[0] == pytest.approx(0.3)


def test_without_times_the_whole_recording_is_question_and_answer():
    plain = replace(RECORDING, question_end_s=None, context_end_s=0.0, answer_start_s=None)
    assert question_clip(plain, "asking", with_context=False).size == 5 * RATE
    assert answer_clip(plain).size == 5 * RATE


def test_the_answer_is_its_file_or_the_answering_channel_from_its_onset():
    assert answer_clip(DIALOGUE) is ANSWER
    assert answer_clip(RECORDING).size == RATE // 2
    assert answer_clip(replace(RECORDING, answer_start_s=None)).size == RATE
    assert answer_clip(replace(RECORDING, answer_start_s=-4.5)).size == 5 * RATE


def test_another_systems_voice_is_not_heard_before_its_answer():
    asked, answered = earlier_clips(DIALOGUE)
    assert (asked.size, answered) == (RATE, None)
    for same_voice in (replace(DIALOGUE, system="human"), RECORDING):
        assert earlier_clips(same_voice)[1].size == 4.5 * RATE


def test_a_long_clip_is_cut_into_the_fewest_equal_parts():
    clip = np.arange(33 * RATE, dtype=np.float32)
    cut = parts(clip, 15.0, "parts")
    assert [part.size for part in cut] == [11 * RATE] * 3
    np.testing.assert_array_equal(np.concatenate(cut), clip)
    assert [part.size for part in parts(clip, 15.0, "first")] == [15 * RATE]
    assert parts(clip, None, "parts")[0] is clip
    assert len(parts(clip[: 15 * RATE], 15.0, "parts")) == 1


def test_words_that_are_not_known_are_refused():
    check_sides("scorer.x", "mixed", "first")
    with pytest.raises(ConfigError, match=r"scorer\.x\.question_side=both"):
        check_sides("scorer.x", "both", "first")
    with pytest.raises(ConfigError, match=r"scorer\.x\.long_clips=all"):
        check_sides("scorer.x", "mixed", "all")
