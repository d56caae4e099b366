"""How aroused a voice sounds beside its own usual self: pitch, intensity and brightness, ranked; no model.

What it is not: not valence (anger and joy score alike), not a trained model, not comparable between speakers unless
each is held against a baseline of their own, and undefined without a baseline. Intensity is taken as recorded: a
change of gain or of distance to the microphone within the baseline reads as a change of arousal.

Source: D. Bone, C.-C. Lee and S. Narayanan, "Robust Unsupervised Arousal Rating: A Rule-Based Framework with
Knowledge-Inspired Vocal Features", IEEE Transactions on Affective Computing 5(2), 2014. The pitch tracker and the
upper limit of HF500 are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from spear_ray.acoustics.pitch import pitch
from spear_ray.acoustics.spectrum import band_ratio_db, level_db

LEAST_VOICED_FRAMES = 20
"""0.2 s: one or two syllables; below, a median says little about an utterance (our choice)."""
MIN_BASELINE = 5
"""Utterances of a baseline; with fewer a score has fewer than six values (our choice)."""

Weights = tuple[float, float, float]
EQUAL: Weights = (1 / 3, 1 / 3, 1 / 3)


class VoiceFeatures(NamedTuple):
    """Medians over the voiced frames of one utterance.

    Args:
        log_f0: natural logarithm of the pitch in Hz.
        intensity_db: level in dB re full scale.
        hf500_db: energy above 500 Hz over energy from 80 to 500 Hz, in dB.
    """

    log_f0: float
    intensity_db: float
    hf500_db: float


def voice_features(samples: npt.ArrayLike, speech: Sequence[tuple[float, float]] | None = None) -> VoiceFeatures | None:
    """What one utterance sounds like.

    Args:
        samples: float32 [N] at 16 kHz, one voice.
        speech: where that voice speaks, (start, end) in seconds; None: anywhere.

    Returns:
        None where fewer than LEAST_VOICED_FRAMES are voiced: silence, noise, too short.

    Raises:
        ValueError: not one channel.
    """
    track = pitch(samples)
    voiced = track.voiced & _within(track.times_s, speech)
    if voiced.sum() < LEAST_VOICED_FRAMES:
        return None
    frames = np.log(track.f0_hz), level_db(samples), band_ratio_db(samples)
    return VoiceFeatures(*(float(np.median(values[voiced])) for values in frames))


def _within(times_s: npt.NDArray[np.float64], speech: Sequence[tuple[float, float]] | None) -> npt.NDArray[np.bool_]:
    if speech is None:
        return np.ones(times_s.size, dtype=np.bool_)
    inside = np.zeros(times_s.size, dtype=np.bool_)
    for span in speech:
        first, last = np.searchsorted(times_s, span)
        inside[first:last] = True
    return inside


def arousal(
    utterance: VoiceFeatures, baseline: Sequence[VoiceFeatures], weights: Sequence[float] = EQUAL
) -> float | None:
    """How aroused an utterance sounds beside others of the same voice.

    Each feature scores 2 * (share of the baseline below it, ties half) - 1; the weighted mean of the three counts.

    Args:
        utterance: what is rated.
        baseline: other utterances of the same voice, recorded alike.
        weights: of pitch, intensity and HF500; see `fusion_weights`.

    Returns:
        -1 (below the whole baseline) to 1 (above it); None where the baseline has fewer than MIN_BASELINE.

    Source: Bone, Lee and Narayanan (2014).
    """
    if len(baseline) < MIN_BASELINE:
        return None
    others, own = np.asarray(baseline, dtype=np.float64), np.asarray(utterance, dtype=np.float64)
    # Below counts 1 and a tie 0, so their mean is 2 * (share below, ties half) - 1.
    return float(np.average(np.sign(own - others).mean(axis=0), weights=weights))


def fusion_weights(scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """How much each feature should count, without knowing the true arousal: how well it agrees with all three.

    Spearman's correlation of each feature's scores with the mean of the three, negative ones set to 0, over their
    sum. A feature that never changes has no correlation and counts 0.

    Args:
        scores: float [utterances, 3], in [-1, 1].

    Returns:
        float64 [3], sum 1; EQUAL where no feature has a positive correlation.

    Source: Bone, Lee and Narayanan (2014).
    """
    values = np.asarray(scores, dtype=np.float64)
    if len(values) < 2:
        return np.array(EQUAL)
    agreement = np.maximum(_spearman(values, values.mean(axis=1)), 0)
    return agreement / agreement.sum() if agreement.any() else np.array(EQUAL)


def _spearman(columns: npt.NDArray[np.float64], target: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Spearman's correlation of each column with the target, float64 [columns]; 0 where one of both is constant."""
    # Averages of equal scores differ in their last bit, which must not make ranks of ties.
    ranks = rankdata(np.column_stack([columns, target]).round(12), axis=0)
    ranks -= ranks.mean(axis=0)
    lengths = np.sqrt((ranks**2).sum(axis=0))
    scale = lengths[:-1] * lengths[-1]
    agreement = np.zeros(columns.shape[1])
    np.divide(ranks[:, :-1].T @ ranks[:, -1], scale, out=agreement, where=scale > 0)
    return agreement


def ranked(features: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The arousal of every utterance of a voice beside all the others, weighted by `fusion_weights`.

    Args:
        features: float64 [rows, 3], VoiceFeatures of one voice; a row with a value that is not finite is left out.

    Returns:
        float64 [rows] in [-1, 1]; NaN for rows left out, and everywhere with fewer than MIN_BASELINE others.

    Raises:
        ValueError: not three columns.

    Source: Bone, Lee and Narayanan (2014); the leave-one-out baseline is ours.
    """
    values = np.asarray(features, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] != len(EQUAL):
        raise ValueError(f"features of shape {values.shape}: give [rows, {len(EQUAL)}]")
    result = np.full(len(values), np.nan)
    known = np.isfinite(values).all(axis=1)
    others = int(known.sum()) - 1
    if others >= MIN_BASELINE:
        # A mean rank from 0 on is the number of the others below, ties half.
        scores = 2 * (rankdata(values[known], axis=0) - 1) / others - 1
        result[known] = np.average(scores, axis=1, weights=fusion_weights(scores))
    return result
