"""How fast an answer is spoken and how it pauses: from the times of its words, and from voice activity alone.

The two see different pauses, so their values have different names and are never mixed.

Source: SPEARBench (arXiv 2607.05365), bin/distrib_baselines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spear_ray.timing.segments import Segment, Segments, merged, total

Floats = npt.NDArray[np.float64]

MAX_GAP_S = 1.0
"""Voice activity with shorter gaps, or gaps of just this length, is one stretch (SPEARBench)."""
MIN_PAUSE_S = 0.2
"""A shorter gap between words is articulation, no pause (SPEARBench)."""
ROUNDING_S = 1e-9
"""What differences of decimal seconds lose in binary: 0.3 - 0.1 still is a pause of 0.2 s."""
SECONDS_PER_MINUTE = 60.0


class Word(NamedTuple):
    """A spoken word and when, in seconds from the answer's beginning."""

    text: str
    start_s: float
    end_s: float


def stretches_of(speech: Segments, min_stretch_s: float) -> list[Segment]:
    """Stretches of talk: voice activity with gaps of at most MAX_GAP_S merged.

    Args:
        speech: sorted segments in seconds.
        min_stretch_s: shorter stretches are left out.
    """
    joined = merged(speech, MAX_GAP_S + ROUNDING_S)
    return [stretch for stretch in joined if stretch.length >= min_stretch_s - ROUNDING_S]


def word_metrics(words: Sequence[Word], stretches: Segments) -> dict[str, float]:
    """Rates and pauses within stretches, from word times.

    A word is in the stretch that holds its middle. A pause is a gap of at least MIN_PAUSE_S between two words of one
    stretch. Speech rate counts words per second of stretches, articulation rate leaves the pauses out.

    Args:
        words: in any order.
        stretches: sorted, in seconds.

    Returns:
        `speech_rate_wps`, `speech_rate_wpm`, `articulation_rate_wps`, `articulation_rate_wpm`, `pause_ratio`,
        `pause_count`, `pause_total_s`, and `pause_mean_s` where there is a pause; empty without words or stretches.
    """
    if not words or not stretches:
        return {}
    times = np.array(sorted((word.start_s, word.end_s) for word in words))
    owner = _owners(times.mean(axis=1), stretches)
    count, talk_s = int((owner >= 0).sum()), total(stretches)
    found = {"speech_rate_wps": count / talk_s} | _pauses(times, owner, talk_s)
    if talk_s > found["pause_total_s"]:
        found["articulation_rate_wps"] = count / (talk_s - found["pause_total_s"])
    minutes = {name.replace("_wps", "_wpm"): SECONDS_PER_MINUTE * found[name] for name in found if "_wps" in name}
    return found | minutes


def vad_metrics(speech: Segments, stretches: Segments) -> dict[str, float]:
    """Pauses between voice activity within stretches.

    Args:
        speech: sorted segments in seconds.
        stretches: of that speech.

    Returns:
        `vad_speech_s`, all speech; and where there are stretches `vad_pause_ratio`, `vad_pause_count`,
        `vad_pause_total_s`, and `vad_pause_mean_s` where there is a pause.
    """
    found = {"vad_speech_s": float(total(speech))}
    if not stretches:
        return found
    times = np.array(speech, dtype=np.float64)
    owner = _owners(times.mean(axis=1), stretches)
    return found | {f"vad_{name}": value for name, value in _pauses(times, owner, total(stretches)).items()}


def _owners(middles_s: Floats, stretches: Segments) -> npt.NDArray[np.intp]:
    """The stretch that each time lies in; -1 where in none."""
    starts, ends = np.array(stretches, dtype=np.float64).T
    place = np.searchsorted(starts, middles_s, side="right") - 1
    return np.where((place >= 0) & (middles_s < ends[place]), place, -1)


def _pauses(times: Floats, owner: npt.NDArray[np.intp], talk_s: float) -> dict[str, float]:
    """Gaps between neighbours [items, (start, end)] of one stretch that are long enough."""
    # A word within a longer one ends no gap that begins before the longer one is over.
    gaps = times[1:, 0] - np.maximum.accumulate(times[:-1, 1])
    pauses = gaps[(owner[1:] == owner[:-1]) & (owner[1:] >= 0) & (gaps >= MIN_PAUSE_S - ROUNDING_S)]
    sum_s = float(pauses.sum())
    found = {"pause_ratio": sum_s / talk_s, "pause_count": float(pauses.size), "pause_total_s": sum_s}
    return found | ({"pause_mean_s": sum_s / pauses.size} if pauses.size else {})
