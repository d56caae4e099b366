"""What each side of a dialogue says, as a clip of its own: the question, the answer, and what came before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from spear_ray.dialogue import HUMAN, SAMPLE_RATE_HZ, Dialogue, Samples
from spear_ray.errors import ConfigError
from spear_ray.timing.segments import Segment

QuestionSide = Literal["asking", "mixed"]
LongClips = Literal["parts", "first"]

QUESTION_SIDES = ("asking", "mixed")
LONG_CLIPS = ("parts", "first")


def question_clip(dialogue: Dialogue, side: QuestionSide, with_context: bool) -> Samples:
    """The question.

    Args:
        dialogue: with audio.
        side: `asking` takes the asking speaker's channel, `mixed` the mean of both (SPEARBench's mono mix).
        with_context: also what lies before the question's own turn.

    Returns:
        float32 [samples] at 16 kHz up to the question's end; the whole clip where its end is not known.
    """
    clip = _clip(dialogue)
    end = clip.shape[1] if dialogue.question_end_s is None else round(dialogue.question_end_s * SAMPLE_RATE_HZ)
    start = 0 if with_context else round(dialogue.context_end_s * SAMPLE_RATE_HZ)
    heard = clip[0] if side == "asking" else clip.mean(axis=0, dtype=np.float32)
    return np.ascontiguousarray(heard[min(start, end) : end])


def answer_clip(dialogue: Dialogue) -> Samples:
    """The answer: its own file, or the answering side's channel from the answer's onset on.

    Where a recording does not say when the answer starts, it is taken from the question's end on.

    Returns:
        float32 [samples] at 16 kHz.
    """
    if dialogue.answer is not None:
        return dialogue.answer
    clip = _clip(dialogue)
    onset_s = dialogue.answer_onset_s if dialogue.answer_start_s is not None else dialogue.question_end_s
    return np.ascontiguousarray(clip[1, max(0, round((onset_s or 0.0) * SAMPLE_RATE_HZ)) :])


def earlier_clips(dialogue: Dialogue) -> tuple[Samples, Samples | None]:
    """What the same two voices said before the question and before the answer.

    Returns:
        float32 [samples] of the asking speaker before the question's own turn, and of the answering voice before the
        answer; None where the answering voice is not heard before: another system's answer replaces the recorded one.
    """
    clip = _clip(dialogue)
    before = round(dialogue.context_end_s * SAMPLE_RATE_HZ)
    asked = np.ascontiguousarray(clip[0, :before])
    if dialogue.answer is not None and dialogue.system != HUMAN:
        return asked, None
    onset = round((dialogue.answer_onset_s or 0.0) * SAMPLE_RATE_HZ)
    return asked, np.ascontiguousarray(clip[1, : max(0, onset)])


def parts(samples: Samples, longest_s: float | None, long_clips: LongClips) -> list[Samples]:
    """A clip as a model can hear it.

    Args:
        samples: float32 [samples] at 16 kHz.
        longest_s: what the model hears at most; None hears everything.
        long_clips: `parts` cuts a longer clip into the fewest equal parts, whose values are then averaged; `first`
            takes its beginning only, as the published code does.
    """
    limit = samples.size if longest_s is None else round(longest_s * SAMPLE_RATE_HZ)
    if samples.size <= limit:
        return [samples]
    if long_clips == "first":
        return [samples[:limit]]
    return np.array_split(samples, -(-samples.size // limit))


def speech_seconds(segments: Sequence[Segment]) -> float:
    """Speech in segments, in seconds."""
    return float(sum(end - start for start, end in segments))


def check_sides(where: str, question_side: str, long_clips: str) -> None:
    """Raises ConfigError where a word is not one of those above."""
    for key, value, allowed in (
        ("question_side", question_side, QUESTION_SIDES),
        ("long_clips", long_clips, LONG_CLIPS),
    ):
        if value not in allowed:
            raise ConfigError(f"{where}.{key}={value}: must be one of {', '.join(allowed)}")


def _clip(dialogue: Dialogue) -> Samples:
    if dialogue.clip is None:
        raise ValueError(f"dialogue {dialogue.dialogue_id} has no audio: {dialogue.problem}")
    return dialogue.clip
