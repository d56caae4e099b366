"""The frames that all measurements share, and how loud and how bright each one is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.fft

RATE_HZ = 16_000
FLOOR_HZ = 75.0
"""Lowest pitch that a frame can show (Praat's usual floor, also SPEARBench's)."""
HOP_S = 0.01

PERIODS_PER_FRAME = 3
"""Periods of the floor in one frame: what a Hanning window needs (Boersma 1993)."""

BLOCK_FRAMES = 512
"""Frames measured together: enough to be quick, few enough that long audio stays out of memory."""

SILENCE_DB = -120.0
"""Lower bound of a level, below anything that 16-bit audio holds; digital silence has it."""

SPLIT_HZ = 500.0
"""Between the low and the high band of HF500 (Bone, Lee and Narayanan 2014)."""
LOW_HZ = 80.0
"""Where the low band begins (likewise): hum and rumble lie below."""
HIGH_HZ = 5_000.0
"""Where the high band ends; our choice: voiced sounds hold little above, and recordings differ most there."""


class Grid(NamedTuple):
    """Where frames lie: frame `i` covers the samples from `i * hop` on.

    Args:
        frame: samples of one frame.
        hop: samples from one start to the next.
        total: how many whole frames there are.
        rate_hz: samples per second.
    """

    frame: int
    hop: int
    total: int
    rate_hz: int

    @property
    def times_s(self) -> npt.NDArray[np.float64]:
        """Centres of the frames in seconds, float64 [frames]."""
        return (np.arange(self.total) * self.hop + self.frame / 2) / self.rate_hz

    def blocks(self, samples: npt.ArrayLike) -> Iterator[npt.NDArray[np.float32]]:
        """The frames of `samples` in order, float32 [up to BLOCK_FRAMES, frame] at a time; views, not copies."""
        values = np.asarray(samples, dtype=np.float32)
        if not self.total:
            return
        frames = np.lib.stride_tricks.sliding_window_view(values, self.frame)[:: self.hop]
        for start in range(0, self.total, BLOCK_FRAMES):
            yield frames[start : start + BLOCK_FRAMES]


def grid(samples: npt.ArrayLike, rate_hz: int = RATE_HZ, floor_hz: float = FLOOR_HZ, hop_s: float = HOP_S) -> Grid:
    """The frames that fit into audio: three periods of the pitch floor each, none padded.

    Args:
        samples: float32 [N].
        rate_hz: samples per second.
        floor_hz: lowest pitch; sets the length of a frame.
        hop_s: from one frame to the next, rounded to whole samples.

    Raises:
        ValueError: not one channel, or a frame or a hop of no sample.
    """
    shape = np.shape(samples)
    if len(shape) != 1:
        raise ValueError(f"samples of shape {shape}: give one channel, [N]")
    hop = round(hop_s * rate_hz)
    if hop < 1 or not 0 < floor_hz < rate_hz:
        raise ValueError(f"no frames with hop_s={hop_s}, floor_hz={floor_hz} at {rate_hz} Hz")
    frame = round(PERIODS_PER_FRAME * rate_hz / floor_hz)
    return Grid(frame, hop, max(0, (shape[0] - frame) // hop + 1), rate_hz)


def level_db(
    samples: npt.ArrayLike, rate_hz: int = RATE_HZ, floor_hz: float = FLOOR_HZ, hop_s: float = HOP_S
) -> npt.NDArray[np.float64]:
    """How loud each frame is: its RMS in dB re full scale, at least SILENCE_DB.

    A sample of 1 is full scale, so a full-scale square wave has 0 dB and a full-scale sine -3 dB.

    Args:
        samples: float32 [N].
        rate_hz: samples per second.
        floor_hz: see `grid`.
        hop_s: see `grid`.

    Returns:
        float64 [frames].

    Raises:
        ValueError: see `grid`.
    """
    frames = grid(samples, rate_hz, floor_hz, hop_s)
    # The sum in double precision: a long frame of small squares must not lose digits.
    power = [np.einsum("ij,ij->i", block, block, dtype=np.float64) for block in frames.blocks(samples)]
    least = 10 ** (SILENCE_DB / 10)
    return 10 * np.log10(np.maximum(_joined(power) / frames.frame, least))


def band_ratio_db(
    samples: npt.ArrayLike,
    rate_hz: int = RATE_HZ,
    split_hz: float = SPLIT_HZ,
    floor_hz: float = FLOOR_HZ,
    hop_s: float = HOP_S,
) -> npt.NDArray[np.float64]:
    """How bright each frame is: energy from the split to HIGH_HZ over energy from LOW_HZ to the split, in dB.

    The high band ends at the Nyquist frequency where that is lower than HIGH_HZ.

    Args:
        samples: float32 [N].
        rate_hz: samples per second.
        split_hz: between the two bands; 500 gives HF500.
        floor_hz: see `grid`.
        hop_s: see `grid`.

    Returns:
        float64 [frames]; NaN where a band holds no energy (silence).

    Raises:
        ValueError: see `grid`, or `split_hz` leaves no band.

    Source: HF500 of Bone, Lee and Narayanan (2014); the upper limit is ours.
    """
    if not LOW_HZ < split_hz < min(HIGH_HZ, rate_hz / 2):
        raise ValueError(f"split_hz={split_hz} must lie between {LOW_HZ} and {min(HIGH_HZ, rate_hz / 2)} Hz")
    frames = grid(samples, rate_hz, floor_hz, hop_s)
    window = np.hanning(frames.frame).astype(np.float32)
    fft = scipy.fft.next_fast_len(frames.frame, real=True)
    edges = np.searchsorted(np.fft.rfftfreq(fft, 1 / rate_hz), (LOW_HZ, split_hz, HIGH_HZ))
    return _joined([_ratio_db(block * window, fft, edges) for block in frames.blocks(samples)])


def _ratio_db(windowed: npt.NDArray[np.float32], fft: int, edges: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
    power = np.abs(scipy.fft.rfft(windowed, fft, axis=1)).astype(np.float64) ** 2
    low, high = (power[:, start:end].sum(axis=1) for start, end in pairwise(edges))
    heard = (low > 0) & (high > 0)
    ratio_db = np.full(len(power), np.nan)
    ratio_db[heard] = 10 * np.log10(high[heard] / low[heard])
    return ratio_db


def _joined(parts: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.empty(0)
