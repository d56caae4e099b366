"""Words with times, and pieces of an answer that are heard one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spear_ray.dialects.languages import is_english
from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.timing.segments import Segment, Segments

MARGIN_S = 0.2
"""Silence that is kept around the speech of a piece."""

SEARCH_S = 5.0
"""How far before its limit speech without a pause may be cut, at its quietest point."""

STEP_S = 0.05
"""Of the search for the quietest point."""

PLACES = 3
"""Decimals of a word's times, in seconds."""


class Word(NamedTuple):
    """A word and when it is said, in seconds."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Heard:
    """What a recogniser makes of a clip.

    Args:
        text: without spaces at its ends; empty where nothing was heard.
        language: `en` for English, else the recogniser's own name for it; None where it does not say or is not sure.
        words: with seconds from the clip's beginning; None where the recogniser gives no times.
        cut: whether the text was ended because it grew too long.
    """

    text: str
    language: str | None = None
    words: tuple[Word, ...] | None = None
    cut: bool = False


def language_code(name: str | None) -> str | None:
    """A language as rows have it: `en` for English in any of its spellings, others in lower case."""
    if not name or not name.strip():
        return None
    return "en" if is_english(name) else name.strip().lower()


def pieces(samples: Samples, speech: Segments, longest_s: float) -> list[Segment]:
    """Where to cut an answer for a recogniser that hears so much at once; it depends on the answer alone.

    A short answer stays whole, as SPEARBench's recognisers hear it. A longer one is cut in its pauses, each piece as
    long as fits, and silence between pieces is left out; speech without a pause is cut at its quietest point.

    Args:
        samples: float32 [samples] at 16 kHz.
        speech: of the answer, in seconds; where there is none, all of it counts as speech.
        longest_s: of a piece.

    Returns:
        In seconds, in order, none longer than `longest_s`.
    """
    total_s = samples.size / SAMPLE_RATE_HZ
    if total_s <= longest_s:
        return [Segment(0.0, total_s)]
    room = longest_s - 2 * MARGIN_S
    short = [part for one in speech or [Segment(0.0, total_s)] for part in _split(samples, one, room)]
    return _padded(_grouped(short, room), total_s)


def _grouped(segments: Segments, room: float) -> list[Segment]:
    found: list[Segment] = []
    for one in segments:
        if found and one.end - found[-1].start <= room:
            found[-1] = Segment(found[-1].start, one.end)
        else:
            found.append(one)
    return found


def _padded(segments: Segments, total_s: float) -> list[Segment]:
    """With silence on both sides, but never into another piece's half of the silence between them."""
    found = []
    for place, (start, end) in enumerate(segments):
        before = (segments[place - 1].end + start) / 2 if place else 0.0
        after = (end + segments[place + 1].start) / 2 if place + 1 < len(segments) else total_s
        found.append(Segment(max(before, start - MARGIN_S), min(after, end + MARGIN_S)))
    return found


def _split(samples: Samples, segment: Segment, room: float) -> list[Segment]:
    """A stretch of speech in parts of at most `room` seconds."""
    found, start = [], segment.start
    while segment.end - start > room:
        cut = _quietest(samples, start + room - min(SEARCH_S, room / 2), start + room)
        found.append(Segment(start, cut))
        start = cut
    return [*found, Segment(start, segment.end)]


def _quietest(samples: Samples, start_s: float, end_s: float) -> float:
    """The middle of the step of least energy within a range, in seconds."""
    step = round(STEP_S * SAMPLE_RATE_HZ)
    first = round(start_s * SAMPLE_RATE_HZ)
    count = int((end_s - start_s) * SAMPLE_RATE_HZ) // step
    steps = samples[first : first + count * step].reshape(count, step)
    return start_s + (int((steps**2).sum(axis=1).argmin()) + 0.5) * STEP_S


def cut_out(samples: Samples, piece: Segment) -> Samples:
    """The samples of a piece."""
    start, end = (round(edge * SAMPLE_RATE_HZ) for edge in piece)
    return np.ascontiguousarray(samples[start:end])


def joined(places: Segments, heard: Sequence[Heard]) -> Heard:
    """What was heard of an answer's pieces as one: texts in order, word times from the answer's beginning.

    The language is that of most of the seconds; word times are there where every piece that says something has them.
    """
    spoken = [(place, one) for place, one in zip(places, heard, strict=True) if one.text]
    seconds: dict[str | None, float] = {}
    for place, one in spoken:
        seconds[one.language] = seconds.get(one.language, 0.0) + place.length
    return Heard(
        text=" ".join(one.text for _, one in spoken),
        language=max(seconds, key=lambda name: seconds[name]) if seconds else None,
        words=_all_words(spoken),
        cut=any(one.cut for one in heard),
    )


def _all_words(spoken: Sequence[tuple[Segment, Heard]]) -> tuple[Word, ...] | None:
    found: list[Word] = []
    for place, one in spoken:
        if one.words is None:
            return None
        found += [Word(text, place.start + start, place.start + end) for text, start, end in one.words]
    return tuple(found)


def within_speech(words: Sequence[Word], speech: Segments) -> list[Word]:
    """Words without the silence that their times reach into.

    A recogniser's words follow each other without gaps: each pause is part of the word before or after it. A word is
    cut to the stretch of speech that it shares most time with; one that shares none keeps its times.

    Args:
        words: in order.
        speech: of the same audio, in seconds, in order.

    Returns:
        Times rounded to a millisecond, starts in order.
    """
    edges = np.asarray(speech, dtype=float).reshape(-1, 2)
    found, latest = [], 0.0
    for text, start, end in words:
        shared = np.minimum(edges[:, 1], end) - np.maximum(edges[:, 0], start)
        if shared.size and shared.max() > 0:
            best = edges[int(shared.argmax())]
            start, end = max(start, float(best[0])), min(end, float(best[1]))
        start = max(latest, start)
        found.append(Word(text, round(start, PLACES), round(max(start, end), PLACES)))
        latest = start
    return found
