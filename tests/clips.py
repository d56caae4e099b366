"""Clips of real speech of any length, and dialogues made of them."""

from functools import cache

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples
from tests.bundled import dialogues


@cache
def all_of(number: int) -> Samples:
    """All that the asking (0) or answering (1) side says in the bundled human dialogues, one after the other."""
    human = [one for one in dialogues() if one.system == "human"]
    parts = [one.clip[0] if number == 0 else one.answer for one in human]
    joined = np.concatenate(parts)
    # Without the silence in which the other side speaks: 50 ms steps above -45 dB of full scale.
    steps = joined[: len(joined) // 800 * 800].reshape(-1, 800)
    return np.ascontiguousarray(steps[np.sqrt((steps**2).mean(axis=1)) > 10 ** (-45 / 20)].ravel())


def speech(seconds: float, voice: int = 0) -> Samples:
    """float32 [samples] at 16 kHz, repeated where it is longer than what there is."""
    return np.resize(all_of(voice), round(seconds * SAMPLE_RATE_HZ))


def silence(seconds: float) -> Samples:
    return np.zeros(round(seconds * SAMPLE_RATE_HZ), dtype=np.float32)


def noise(seconds: float) -> Samples:
    return 0.02 * np.random.default_rng(0).standard_normal(round(seconds * SAMPLE_RATE_HZ), dtype=np.float32)


def dialogue_of(
    *,
    answer: Samples,
    question: Samples | None = None,
    beside: Samples | None = None,
    name: str = "d",
    system: str = "robot",
    context_s: float = 0.0,
) -> Dialogue:
    """A question, then an answer 0.3 s later.

    Args:
        beside: what the answering side's channel holds during the question.
        context_s: the part of the question that is context.
    """
    asked = speech(3.0) if question is None else question
    other = np.zeros_like(asked) if beside is None else beside
    return Dialogue(
        dialogue_id=name, conversation_id=f"c-{name}", system=system, split="test", subset="improvised",
        clip=np.stack([asked, other]), answer=answer, question_end_s=asked.size / SAMPLE_RATE_HZ,
        context_end_s=context_s, answer_start_s=0.3,
    )  # fmt: skip
