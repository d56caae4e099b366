"""How long an answer lets wait, and how far it talks over the question."""

from __future__ import annotations

from typing import NamedTuple

from spear_ray.timing.segments import Segments, clipped, shifted, total


def response_latency_s(
    asking: Segments, answering: Segments, question_end_s: float, answer_onset_s: float | None
) -> float | None:
    """Onset of the answer's first speech minus the end of the last question speech; negative when it comes early.

    Args:
        asking: speech of the asking side in seconds on the time line.
        answering: speech of the answering side, likewise.
        question_end_s: speech of the asking side counts up to here.
        answer_onset_s: speech of the answering side counts from here; None where the answer's start is not
            annotated, then it is the first answering segment that ends after `question_end_s`.

    Returns:
        Seconds, or None where either side has no such speech.
    """
    question = clipped(asking, float("-inf"), question_end_s)
    answer = answer_speech(answering, question_end_s, answer_onset_s)
    if not question or not answer:
        return None
    return answer[0].start - question[-1].end


def answer_speech(answering: Segments, question_end_s: float, answer_onset_s: float | None) -> Segments:
    """The answering side's speech that belongs to the answer; arguments as in `response_latency_s`."""
    if answer_onset_s is not None:
        return clipped(answering, answer_onset_s, float("inf"))
    return [segment for segment in answering if segment.end > question_end_s]


class Overlap(NamedTuple):
    """Answer speech over question speech.

    Args:
        segments: number of answer segments that overlap question speech.
        seconds: total overlap.
    """

    segments: int
    seconds: float

    @property
    def interrupted(self) -> bool:
        """Whether there is any."""
        return self.seconds > 0


def published_latency_s(
    question: Segments,
    answer_trimmed: Segments,
    question_end_s: float,
    answer_start_s: float,
) -> float:
    """SPEARBench's latency, never negative; 0 terms where there is no speech.

    Source: SPEARBench, bin/base_metrics.py (newest): max(0, question_end - end of the last question segment)
    + max(0, answer_start) + onset of the first answer segment.

    Args:
        question: speech in the channel mean of the whole question clip, seconds.
        answer_trimmed: speech in the answer after its first max(0, -answer_start_s) s were removed.
        question_end_s: on the clip's time line.
        answer_start_s: relative to the question's end.
    """
    after_question = max(0.0, question_end_s - question[-1].end) if question else 0.0
    before_speech = answer_trimmed[0].start if answer_trimmed else 0.0
    return after_question + max(0.0, answer_start_s) + before_speech


def published_overlap(
    question: Segments,
    answer: Segments,
    context_end_s: float,
    question_end_s: float,
    answer_start_s: float,
) -> Overlap:
    """SPEARBench's interruption: overlap of answer speech with question speech after the context.

    Source: SPEARBench, bin/base_metrics.py: question segments clipped to [context_end, question_end] and shifted
    by -question_end, answer segments shifted by answer_start.

    Args:
        question: speech in the channel mean of the question clip, seconds.
        answer: speech in the untrimmed answer clip, seconds.
        context_end_s: where the question's own turn begins.
        question_end_s: where it ends.
        answer_start_s: relative to the question's end.
    """
    spoken = shifted(clipped(question, context_end_s, question_end_s), -question_end_s)
    shares = [total(clipped(spoken, part.start, part.end)) for part in shifted(answer, answer_start_s)]
    return Overlap(sum(share > 0 for share in shares), sum(shares))
