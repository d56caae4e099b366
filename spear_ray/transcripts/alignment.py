"""When each token was said, from the attention that a recogniser paid to the audio while it wrote.

Source: Whisper's reference code (timing.py), as in transformers: attention of chosen heads, normalised over tokens,
smoothed over time, averaged, and a monotonic path of least cost through it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Floats = npt.NDArray[np.floating]

FRAME_S = 0.02
"""Of Whisper's encoder: two spectrogram frames of 10 ms."""

_DIAGONAL, _DOWN, _RIGHT = 0, 1, 2


def token_starts(attention: Floats, width: int) -> npt.NDArray[np.float64]:
    """Where each row begins, in seconds.

    Args:
        attention: [heads, rows, frames]: what each row's token attended to when it predicted the next one; the first
            row is the last token of the prompt, so row k belongs to the k-th token that was written.
        width: of the median filter over frames, odd.

    Returns:
        [rows]; the token of row k lasts until row k + 1 begins.
    """
    weights = attention.astype(np.float64)
    spread = weights.std(axis=1, keepdims=True)
    scaled = (weights - weights.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    rows, frames = monotonic_path(-_smoothed(scaled, width).mean(axis=0))
    return np.asarray(frames[np.flatnonzero(np.diff(rows, prepend=-1))] * FRAME_S, dtype=np.float64)


def _smoothed(weights: Floats, width: int) -> Floats:
    """Running median over the last axis, the edges mirrored; too short an axis stays as it is."""
    half = width // 2
    if weights.shape[-1] <= half:
        return weights
    mirrored = np.pad(weights, ((0, 0), (0, 0), (half, half)), mode="reflect")
    return np.asarray(np.median(sliding_window_view(mirrored, width, axis=-1), axis=-1))


def monotonic_path(cost: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The path of least total cost from the first to the last cell, one step right, down or both at a time.

    Args:
        cost: [rows, columns].

    Returns:
        Rows and columns of the path's cells, in order. Where steps cost the same, to the right is preferred.
    """
    total = np.full((cost.shape[0] + 1, cost.shape[1] + 1), np.inf)
    step = np.full(total.shape, _RIGHT, dtype=np.int8)
    total[0, 0] = 0.0
    step[1:, 0] = _DOWN
    # Cells of one anti-diagonal do not depend on each other.
    for diagonal in range(2, sum(cost.shape) + 1):
        i = np.arange(max(1, diagonal - cost.shape[1]), min(cost.shape[0], diagonal - 1) + 1)
        j = diagonal - i
        both, down, right = total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]
        chosen = np.where((both < down) & (both < right), _DIAGONAL, _RIGHT)
        step[i, j] = np.where((down < both) & (down < right), _DOWN, chosen)
        total[i, j] = cost[i - 1, j - 1] + np.choose(step[i, j], (both, down, right))
    return _traced(step)


def _traced(step: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    i, j = step.shape[0] - 1, step.shape[1] - 1
    cells = []
    while i > 0 or j > 0:
        cells.append((i - 1, j - 1))
        taken = step[i, j]
        i, j = i - (taken != _RIGHT), j - (taken != _DOWN)
    path = np.asarray(cells[::-1], dtype=np.intp)
    return path[:, 0], path[:, 1]
