"""From audio to the sequence of emotion vectors that TRACE hears: windows, unit vectors, two speakers in turn.

Source: TRACE's published feature extraction and inference (github.com/SathvikNapa/NaturalnessPrediction), as used by
SPEARBench.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spear_ray.errors import ScorerError

WINDOW_SAMPLES = 48_000
"""3 s at 16 kHz (published `win_sec`)."""
HOP_SAMPLES = 16_000
"""1 s at 16 kHz (published `hop_sec`)."""

LEAST_VECTORS = 10
"""Of a speaker in TRACE's own inference (published `MIN_REAL_PAIRS`); SPEARBench is content with 1."""

INFINITE = 1000.0
"""What the published code puts for an infinite value; NaN becomes 0."""
EPSILON = 1e-6
"""Added to a vector's length before it is divided by it."""


def windows(
    samples: int, window: int = WINDOW_SAMPLES, hop: int = HOP_SAMPLES, pad_last: bool = True
) -> list[tuple[int, int]]:
    """Where windows start and truly end.

    Args:
        samples: of the audio.
        window: samples of a whole window.
        hop: samples from one start to the next.
        pad_last: a start gives a window even where the audio ends within it (the caller fills it with zeros).

    Returns:
        [start, end) in samples, `end` at most `samples`.

    >>> windows(64_001)
    [(0, 48000), (16000, 64000), (32000, 64001), (48000, 64001), (64000, 64001)]
    """
    spans = ((start, min(start + window, samples)) for start in range(0, samples, hop))
    return [(start, end) for start, end in spans if pad_last or end - start == window]


def unit_rows(vectors: Sequence[np.ndarray] | np.ndarray, least: int = 1) -> np.ndarray:
    """One speaker's sequence: each vector finite and of length 1 (a zero vector stays zero).

    The published code then clips to +-10, which a vector of length 1 never reaches.

    Args:
        vectors: [width] each, or [frames, width] each: such frames are made unit vectors, then averaged.
        least: how many there must be.

    Returns:
        float32 [vectors, width].

    Raises:
        ScorerError: there are fewer.
    """
    if len(vectors) < least:
        raise ScorerError(f"only {len(vectors)} emotion vectors of a speaker: TRACE needs {least}")
    return np.stack([_unit(np.asarray(vector, dtype=np.float32)) for vector in vectors])


def _unit(vector: np.ndarray) -> np.ndarray:
    finite = np.nan_to_num(vector, nan=0.0, posinf=INFINITE, neginf=-INFINITE)
    unit: np.ndarray = finite / (np.linalg.norm(finite, axis=-1, keepdims=True) + np.float32(EPSILON))
    return unit if unit.ndim == 1 else unit.mean(axis=0)


def interleaved(a: np.ndarray, b: np.ndarray, most: int) -> np.ndarray:
    """Two speakers in turn: A0, B0, A1, B1, ...; who has fewer vectors goes on with zeros.

    Args:
        a: float32 [vectors, width].
        b: float32 [vectors, width].
        most: vectors of a speaker that are used, from the first.

    Returns:
        float32 [2 * longer, width].
    """
    speakers = (a[:most], b[:most])
    out = np.zeros((max(map(len, speakers)), 2, a.shape[1]), dtype=np.float32)
    for place, vectors in enumerate(speakers):
        out[: len(vectors), place] = vectors
    return out.reshape(-1, a.shape[1])


def duplicated(vectors: np.ndarray, most: int) -> np.ndarray:
    """SPEARBench's published sequence: both speakers are given the same vectors, so each stands there twice.

    Args:
        vectors: float32 [vectors, width], question and then answer.
        most: vectors that are used.

    Returns:
        float32 [2 * vectors, width].
    """
    return interleaved(vectors, vectors, most)
