"""What a voice is like: the distribution of its pitch, its level and its brightness; and whom it answers."""

from __future__ import annotations

import re
import zlib

import numpy as np
import numpy.typing as npt

from spear_ray.acoustics.pitch import Pitch
from spear_ray.acoustics.spectrum import band_ratio_db, grid, level_db
from spear_ray.timing.segments import Segments

Floats = npt.NDArray[np.float64]

LEAST_VOICED_RATIO = 0.05
"""Below, a pitch distribution is that of a few frames (SPEARBench)."""
OK = "OK"
LOW_VOICED_RATIO = "LOW_VOICED_RATIO"

TRIMS = ((10, 90), (25, 75))
"""Percentiles between which trimmed values lie (SPEARBench)."""

NORMALISED = ("f0_min_raw", "f0_p10", "f0_p25", "f0_median_raw", "f0_p75", "f0_p90", "f0_max_raw")
"""What SPEARBench divides by the answered speaker's mean and averages the spread of."""
TRIMMED = tuple(f"f0_{name}_p{low}_p{high}" for low, high in TRIMS for name in ("mean", "std", "range"))

SPEAKER_TAG = re.compile(r"(\w+):")


def f0_metrics(track: Pitch) -> tuple[dict[str, float], str]:
    """Statistics of the voiced frames of a pitch track.

    Standard deviations divide by n. Trimmed ones are over the frames within the two percentiles, both included, and
    absent where there is none. Percentiles are interpolated linearly.

    Args:
        track: of one voice.

    Returns:
        `voiced_ratio`, the share of frames that are voiced, and statistics in Hz; and OK, or LOW_VOICED_RATIO where
        too few frames are voiced: then there is the ratio only.

    Source: SPEARBench (arXiv 2607.05365), bin/distrib_baselines. Whether its deviations divide by n is not known.
    """
    f0_hz = track.f0_hz[track.voiced]
    ratio = f0_hz.size / max(1, track.f0_hz.size)
    found = {"voiced_ratio": float(ratio)}
    if ratio < LEAST_VOICED_RATIO:
        return found, LOW_VOICED_RATIO
    found |= _raw(f0_hz)
    for low, high in TRIMS:
        found |= _trimmed(f0_hz, low, high)
    return found, OK


def _raw(f0_hz: Floats) -> dict[str, float]:
    whole = {"mean": f0_hz.mean(), "median": np.median(f0_hz), "std": f0_hz.std(), "range": np.ptp(f0_hz)}
    whole |= {"min": f0_hz.min(), "max": f0_hz.max()}
    return {f"f0_{name}_raw": float(value) for name, value in whole.items()}


def _trimmed(f0_hz: Floats, low: int, high: int) -> dict[str, float]:
    least, most = (float(value) for value in np.percentile(f0_hz, (low, high)))
    end = f"p{low}_p{high}"
    found = {f"f0_p{low}": least, f"f0_p{high}": most, f"f0_range_{end}": most - least}
    inside = f0_hz[(f0_hz >= least) & (f0_hz <= most)]
    if inside.size:
        found |= {f"f0_mean_{end}": float(inside.mean()), f"f0_std_{end}": float(inside.std())}
    return found


def loudness_metrics(samples: npt.ArrayLike, speech: Segments) -> dict[str, float]:
    """Medians over the frames whose centres lie in speech; over all frames where none does.

    Args:
        samples: float32 [N] at 16 kHz.
        speech: sorted segments in seconds.

    Returns:
        `energy_db`, RMS level in dB re full scale, and `hf500_db`, energy above 500 Hz over energy below in dB; what no
        frame has is absent.
    """
    times_s = grid(samples).times_s
    # Edges alternate between start and end: an odd number of them lies before a time within a segment.
    inside = np.searchsorted(np.ravel(speech), times_s, side="right") % 2 == 1
    heard = inside if inside.any() else np.ones(times_s.size, dtype=np.bool_)
    frames = {"energy_db": level_db(samples)[heard], "hf500_db": band_ratio_db(samples)[heard]}
    return {name: float(np.nanmedian(values)) for name, values in frames.items() if np.isfinite(values).any()}


def answered_speaker(question_text: str | None) -> str:
    """The last `word:` in the question's transcript, which SPEARBench takes for the speaker who is answered.

    So "meet at 10:30" names the speaker 10. Empty where there is no such word.
    """
    tags = SPEAKER_TAG.findall(question_text or "")
    return str(tags[-1]) if tags else ""


def speaker_number(tag: str) -> float:
    """A number that stands for the speaker, no measurement: the CRC-32 of the tag, 0 without one."""
    return float(zlib.crc32(tag.encode()))
