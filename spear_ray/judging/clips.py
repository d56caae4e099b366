"""The clips that a judge hears: made so that loudness, outer silence and sample rate of the recording do not matter.

All are float32 at 16 kHz on 16-bit steps, so that a file of a clip is no other audio.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.pcm import on_16_bits
from spear_ray.timing.segments import Segment

Levels = npt.NDArray[np.float64]

PAUSE = SAMPLE_RATE_HZ
"""Zero samples between question and answer: exactly one second (WavReward, arXiv 2505.09558, section 3.2.3)."""

LEVEL_DB = -26.0
"""Level of the speech in each side, dB below full scale: ITU-T P.56's usual level of speech material."""

PEAK = 0.99
"""A side whose peaks would go beyond is made softer as a whole; nothing is clipped."""

FRAME = 160
"""10 ms: trimming and level look at frames."""

BELOW_LOUDEST_DB = 40.0
"""A frame that is more than this softer than the side's loudest is silence."""

MARGIN = 10
"""Frames that are kept before the first and after the last frame that is no silence."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A clip that the judge is not given.

    Args:
        what: in words.
        seconds: how long it is.
        most_s: how long it may be.
    """

    what: str
    seconds: float
    most_s: float

    def __str__(self) -> str:
        return f"{self.what} has {self.seconds:.1f} s, at most {self.most_s:g} s are judged"


def exchange(question: Samples, answer: Samples, most_question_s: float, most_s: float) -> Samples | TooLong:
    """WavReward's clip: the question, exactly one second of silence, the answer.

    Each side loses its outer silence and has the same level.

    Args:
        question: float32 [samples] at 16 kHz, not silent.
        answer: likewise.
        most_question_s: of the question without its outer silence.
        most_s: of the clip.

    Source: WavReward (arXiv 2505.09558), section 3.2.3 and figure 5; level and trimming are ours.
    """
    sides = [levelled(trimmed(side)) for side in (question, answer)]
    asked_s = sides[0].size / SAMPLE_RATE_HZ
    if asked_s > most_question_s:
        return TooLong("the question", asked_s, most_question_s)
    clip = np.concatenate([sides[0], np.zeros(PAUSE, dtype=np.float32), sides[1]])
    return _limited("question, pause and answer", clip, most_s)


def mixed(question: Samples, answer: Samples, answer_start_s: float, most_s: float) -> Samples | TooLong:
    """SPEARBench's clip for stances: both sides on one channel, the answer where it was.

    Args:
        question: float32 [samples], the whole clip that was played, mono.
        answer: float32 [samples].
        answer_start_s: relative to the end of `question`; negative when it starts early, also before its beginning.
        most_s: of the clip.

    Source: SPEARBench (arXiv 2607.05365), bin/STANCE; made louder or softer as a whole, which it does not do.
    """
    clip = laid(question, answer, round(answer_start_s * SAMPLE_RATE_HZ))
    return _limited("the dialogue", levelled(clip), most_s)


def laid(question: Samples, answer: Samples, start: int) -> Samples:
    """Both sides added up.

    Args:
        question: [samples].
        answer: [samples].
        start: where the answer begins, in samples after the end of `question`; negative for before.
    """
    onset = question.size + start
    before = max(0, -onset)
    clip = np.zeros(before + max(question.size, onset + answer.size), dtype=np.float32)
    clip[before : before + question.size] = question
    clip[before + onset : before + onset + answer.size] += answer
    return clip


def target_speech(
    answer: Samples, units: Sequence[Segment], gap_s: float = 0.25, most_s: float = 45.0
) -> Samples | TooLong:
    """StanceBench's clip of one speaker: the inter-pausal units, with short gaps between them.

    Args:
        answer: float32 [samples] at 16 kHz.
        units: of the target, in seconds.
        gap_s: between units.
        most_s: of speech.

    Source: StanceBench, models/*/run_turnover_*.py (30 to 45 s of active speech, 0.25 s between pieces).
    """
    pieces = [_cut(answer, unit) for unit in units]
    speech_s = sum(piece.size for piece in pieces) / SAMPLE_RATE_HZ
    if speech_s > most_s:
        return TooLong("the target's speech", speech_s, most_s)
    gap = np.zeros(round(gap_s * SAMPLE_RATE_HZ), dtype=np.float32)
    parts = [part for piece in pieces for part in (gap, piece)][1:]
    return at_peak(np.concatenate(parts))


def turn_pair(
    question: Samples, answer: Samples, most_context_s: float = 10.0, most_target_s: float = 15.0
) -> tuple[Samples, Samples] | TooLong:
    """StanceBench's two clips: what the other speaker says, and how the target replies.

    Source: StanceBench, models/*/run_turnover_*.py (context up to 10 s, target up to 15 s, at full peak).
    """
    context, target = trimmed(question), trimmed(answer)
    for what, clip, most_s in (("the context", context, most_context_s), ("the target's turn", target, most_target_s)):
        if clip.size > most_s * SAMPLE_RATE_HZ:
            return TooLong(what, clip.size / SAMPLE_RATE_HZ, most_s)
    return at_peak(context), at_peak(target)


def trimmed(samples: Samples) -> Samples:
    """Without outer silence, as it shows beside the side's own loudest frame: the same at any gain.

    Frames are counted from the first sample that is not far softer than the side's peak, and `MARGIN` frames are kept
    around the sound, zeros where the side holds fewer: so digital silence before or after it changes nothing.
    """
    first = _first_sound(samples)
    levels = _frame_levels(samples[first:])
    if not levels.size:
        return samples
    loud = np.flatnonzero(levels >= levels.max() - BELOW_LOUDEST_DB)
    start = first + (int(loud[0]) - MARGIN) * FRAME
    end = first + (int(loud[-1]) + 1 + MARGIN) * FRAME
    kept = samples[max(0, start) : end]
    before = max(0, -start)
    return np.pad(kept, (before, end - start - before - kept.size))


def levelled(samples: Samples) -> Samples:
    """With its speech at `LEVEL_DB`, on 16-bit steps; softer where its peaks would not fit.

    Speech is what is not silence by the rule of `trimmed`: pauses do not make a side louder.
    """
    levels = _frame_levels(samples)
    if not levels.size:
        return on_16_bits(samples)
    speech = levels[levels >= levels.max() - BELOW_LOUDEST_DB]
    power = float(np.mean(10 ** (speech / 10)))
    gain = 10 ** (LEVEL_DB / 20) / np.sqrt(power)
    highest = float(np.abs(samples).max())
    return on_16_bits((samples * min(gain, PEAK / highest)).astype(np.float32))


def at_peak(samples: Samples) -> Samples:
    """With its highest peak at `PEAK`, on 16-bit steps."""
    highest = float(np.abs(samples).max(initial=0.0))
    return on_16_bits((samples * (PEAK / highest)).astype(np.float32)) if highest else samples


def _limited(what: str, clip: Samples, most_s: float) -> Samples | TooLong:
    seconds = clip.size / SAMPLE_RATE_HZ
    return TooLong(what, seconds, most_s) if seconds > most_s else clip


def _first_sound(samples: Samples) -> int:
    size = np.abs(samples)
    return int(np.argmax(size >= size.max(initial=0.0) * 10 ** (-BELOW_LOUDEST_DB / 20))) if samples.size else 0


def _frame_levels(samples: Samples) -> Levels:
    """Level of each frame in dB, the last one filled up with zeros; empty where there is no sound."""
    if not samples.any():
        return np.empty(0)
    padded = np.concatenate([samples, np.zeros(-samples.size % FRAME, dtype=samples.dtype)])
    power = np.square(padded.reshape(-1, FRAME), dtype=np.float64).mean(axis=1)
    levels: Levels = 10 * np.log10(np.maximum(power, np.finfo(np.float64).tiny))
    return levels


def _cut(samples: Samples, segment: Segment) -> Samples:
    start, end = (round(second * SAMPLE_RATE_HZ) for second in segment)
    return samples[start:end]
