"""Pitch of a voice, frame by frame, by autocorrelation.

Our own implementation of the published method, not Praat's: the values are close to those of Praat's `To Pitch (ac)`,
not equal. It differs in how a peak is refined (the autocorrelation is oversampled, then a parabola, where Praat uses
long sinc sums) and in where frames lie (from the first sample on, where Praat centres them in the audio).

Source: P. Boersma, "Accurate short-term analysis of the fundamental frequency and the harmonics-to-noise ratio of a
sampled sound", IFA Proceedings 17, 1993.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.fft

from spear_ray.acoustics.spectrum import BLOCK_FRAMES, FLOOR_HZ, HOP_S, RATE_HZ, grid

Floats = npt.NDArray[np.floating]

CEILING_HZ = 500.0
"""Highest pitch that is looked for (SPEARBench's ceiling)."""

# Costs and thresholds: Boersma (1993), with the standard values of Praat's manual.
SILENCE_THRESHOLD = 0.03
"""A frame whose peak is below this share of the whole audio's peak tends to be unvoiced."""
VOICING_THRESHOLD = 0.45
"""Strength of the unvoiced candidate."""
OCTAVE_COST = 0.01
"""Per octave, in favour of the higher of two equally good candidates."""
OCTAVE_JUMP_COST = 0.35
"""Per octave between two frames, at a hop of COST_HOP_S."""
VOICED_UNVOICED_COST = 0.14
"""Per change of voicing between two frames, at a hop of COST_HOP_S."""
COST_HOP_S = 0.01
CANDIDATES = 15
"""Per frame, the unvoiced one included."""

OVERSAMPLING = 4
"""Of the autocorrelation: between two samples the peak of a bright voice is too narrow for a parabola."""
LEAST_PEAK = 1e-7
"""Of full scale, below the last bit of 24-bit audio: audio that nowhere goes beyond is silence."""


class Pitch(NamedTuple):
    """A pitch track.

    Args:
        times_s: float64 [frames], centres of the frames in seconds.
        f0_hz: float64 [frames], NaN where unvoiced.
        strength: float64 [frames], normalised autocorrelation at the period, at most 1; 0 where unvoiced.
    """

    times_s: npt.NDArray[np.float64]
    f0_hz: npt.NDArray[np.float64]
    strength: npt.NDArray[np.float64]

    @property
    def voiced(self) -> npt.NDArray[np.bool_]:
        """Which frames are voiced, bool [frames]."""
        return ~np.isnan(self.f0_hz)


def pitch(
    samples: npt.ArrayLike,
    rate_hz: int = RATE_HZ,
    floor_hz: float = FLOOR_HZ,
    ceiling_hz: float = CEILING_HZ,
    hop_s: float = HOP_S,
) -> Pitch:
    """Fundamental frequency and voicing; gain does not change them.

    Args:
        samples: float32 [N]; audio shorter than one frame (three periods of the floor) gives no frames.
        rate_hz: samples per second.
        floor_hz: lowest pitch that is found.
        ceiling_hz: highest pitch that is found.
        hop_s: from one frame to the next.

    Raises:
        ValueError: the limits of the pitch do not fit, or see `spectrum.grid`.

    Source: Boersma (1993); see the module.
    """
    if not 0 < floor_hz < ceiling_hz <= rate_hz / 2:
        raise ValueError(f"floor_hz={floor_hz} < ceiling_hz={ceiling_hz} <= half of {rate_hz} Hz does not hold")
    values = np.asarray(samples, dtype=np.float32)
    frames = grid(values, rate_hz, floor_hz, hop_s)
    peak = _peak(values)
    if not frames.total or peak < LEAST_PEAK:
        return Pitch(frames.times_s, np.full(frames.total, np.nan), np.zeros(frames.total))
    search = _search(frames.frame, rate_hz, floor_hz, ceiling_hz)
    found = [_candidates(block, peak, search) for block in frames.blocks(values)]
    octaves, scores, heights = (np.concatenate(part) for part in zip(*found, strict=True))
    best = _best_path(octaves, scores, COST_HOP_S * rate_hz / frames.hop)[:, None]
    octave, strength = (np.take_along_axis(values, best, axis=1)[:, 0] for values in (octaves, heights))
    return Pitch(frames.times_s, np.clip(2**octave, floor_hz, ceiling_hz), strength)


def _peak(values: Floats) -> float:
    """Largest distance from the mean."""
    if not values.size:
        return 0.0
    mean = values.mean(dtype=np.float64)
    return float(max(values.max() - mean, mean - values.min()))


class _Search(NamedTuple):
    """What is the same for all frames.

    Args:
        window: float32 [frame].
        fft: length of the transform.
        lags: oversampled lags from the period of the ceiling to that of the floor, int [lags], one more on each side.
        window_autocorrelation: float32 [lags].
        bonus: float32 [lags], what the octave cost gives each lag.
        rate_hz: oversampled lags per second.
    """

    window: Floats
    fft: int
    lags: npt.NDArray[np.intp]
    window_autocorrelation: Floats
    bonus: Floats
    rate_hz: float


def _search(frame: int, rate_hz: int, floor_hz: float, ceiling_hz: float) -> _Search:
    window = np.hanning(frame).astype(np.float32)
    fine_hz = float(OVERSAMPLING * rate_hz)
    lags = np.arange(int(fine_hz / ceiling_hz) - 1, int(np.ceil(fine_hz / floor_hz)) + 2)
    # Room for the longest lag, so that the end of a frame does not meet its beginning.
    fft = scipy.fft.next_fast_len(frame + int(lags[-1]) // OVERSAMPLING + 1, real=True)
    bonus = -OCTAVE_COST * np.log2(floor_hz * lags / fine_hz).astype(np.float32)
    return _Search(window, fft, lags, _autocorrelation(window[None], fft, lags), bonus, fine_hz)


def _autocorrelation(windowed: Floats, fft: int, lags: npt.NDArray[np.intp]) -> Floats:
    """Autocorrelation at oversampled lags over that at lag 0, float32 [frames, lags]; 0 where there is no energy."""
    spectrum = scipy.fft.rfft(windowed, fft, axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    # Zeros above the Nyquist frequency make the inverse finer: exact interpolation between the lags.
    fine = scipy.fft.irfft(power, OVERSAMPLING * fft, axis=1)
    energy = fine[:, :1]
    share = np.zeros((len(fine), lags.size), dtype=np.float32)
    np.divide(fine[:, lags[0] : lags[-1] + 1], energy, out=share, where=energy > 0)
    return share


def _candidates(block: Floats, peak: float, search: _Search) -> tuple[Floats, Floats, Floats]:
    """The candidates of each frame; column 0 is the unvoiced one.

    Returns:
        log2 of the frequency in Hz (NaN: unvoiced or none), score (-inf: none) and autocorrelation,
        float64 [frames, CANDIDATES] each.
    """
    centred = (block - block.mean(axis=1, keepdims=True)) / np.float32(peak)
    r = _autocorrelation(centred * search.window, search.fft, search.lags) / search.window_autocorrelation
    shape = (len(block), CANDIDATES)
    octaves, scores, heights = np.full(shape, np.nan), np.full(shape, -np.inf), np.zeros(shape)
    # The middle period alone says how loud the frame is, so that a loud neighbour does not voice a pause.
    third = block.shape[1] // 3
    scores[:, 0] = _unvoiced_score(np.abs(centred[:, third : block.shape[1] - third]).max(axis=1))
    row, at, column = _highest_peaks(r, search.bonus)
    shift, height = _parabola(r[row, at - 1], r[row, at], r[row, at + 1])
    octaves[row, column] = np.log2(search.rate_hz / (search.lags[at] + shift))
    # Dividing by the window's autocorrelation can lead beyond 1; more than periodic is not possible.
    heights[row, column] = np.minimum(height, 1)
    scores[row, column] = heights[row, column] + search.bonus[at]
    return octaves, scores, heights


def _unvoiced_score(relative_peak: Floats) -> Floats:
    """The voicing threshold, more in a frame that is silent beside the whole."""
    loudness = relative_peak * (1 + VOICING_THRESHOLD) / SILENCE_THRESHOLD
    score: Floats = VOICING_THRESHOLD + np.maximum(0, 2 - loudness)
    return score


def _highest_peaks(r: Floats, bonus: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The best local maxima of each frame: their rows, their places in `r`, and columns from 1 on for them."""
    inner = r[:, 1:-1]
    # Below half of the threshold no candidate can win.
    is_peak = (inner > r[:, :-2]) & (inner >= r[:, 2:]) & (inner > VOICING_THRESHOLD / 2)
    merit = np.where(is_peak, inner + bonus[1:-1], -np.inf)
    keep = min(CANDIDATES - 1, merit.shape[1])
    at = np.argpartition(merit, -keep, axis=1)[:, -keep:]
    row, column = np.nonzero(np.isfinite(np.take_along_axis(merit, at, axis=1)))
    return row, at[row, column] + 1, column + 1


def _parabola(left: Floats, middle: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Where a parabola through three equidistant values has its maximum, from the middle one, and how high it is."""
    slope = right - left
    shift = slope / (2 * (2 * middle - left - right))
    return shift, middle + slope * shift / 4


def _best_path(octaves: Floats, scores: Floats, cost_factor: float) -> npt.NDArray[np.intp]:
    """The candidate of each frame on the path with the highest sum of scores less costs (Viterbi), int [frames]."""
    back = np.zeros(scores.shape, dtype=np.intp)
    total = scores[0]
    for start in range(1, len(scores), BLOCK_FRAMES):
        costs = cost_factor * _transition_costs(octaves[start - 1 : start + BLOCK_FRAMES])
        for at, cost in enumerate(costs, start):
            reached = total[:, None] - cost
            back[at] = reached.argmax(axis=0)
            total = reached.max(axis=0) + scores[at]
    path = np.empty(len(scores), dtype=np.intp)
    path[-1] = total.argmax()
    for at in range(len(scores) - 1, 0, -1):
        path[at - 1] = back[at, path[at]]
    return path


def _transition_costs(octaves: Floats) -> Floats:
    """From each candidate of a frame to each of the next one.

    Args:
        octaves: [frames + 1, candidates].

    Returns:
        [frames, from, to].
    """
    jump = OCTAVE_JUMP_COST * np.abs(octaves[1:, None, :] - octaves[:-1, :, None])
    costs = np.where(np.isnan(jump), VOICED_UNVOICED_COST, jump)
    costs[:, 0, 0] = 0
    return costs
