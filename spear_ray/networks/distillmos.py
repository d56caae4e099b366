"""DistillMOS: an estimate of how listeners rate speech quality, from the weights that its package ships.

What it is not: a measure of naturalness in conversation. Human telephone and field recordings score lower than clean
synthetic speech. Source: Stahl and Gamper 2025 (arXiv 2502.05356), package `distillmos` (MIT).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from spear_ray.dialogue import Samples
from spear_ray.errors import OutOfGpuMemory
from spear_ray.networks.batching import best_device, padded, run_halving

SEGMENT = 122_880
"""Samples that the network hears at once: 7.68 s (package, SEQ_LEN)."""
LONGEST_HOP = 16_000
"""Samples from one segment to the next at most: 1 s (package, MAX_HOP_LEN)."""
ON_A_GPU = 64
"""Segments in one batch on a GPU; a CPU takes one after the other, so that none depends on its neighbours' rounding."""


class DistillMos:
    """The package's network; cutting into segments is done here, so that all clips' segments share batches."""

    def __init__(self) -> None:
        from distillmos import ConvTransformerSQAModel

        # The package says on standard output where its weights are; it reads them with weights_only.
        with contextlib.redirect_stdout(io.StringIO()):
            model = ConvTransformerSQAModel(segmenting_in_forward=False)
        self._device = best_device()
        self._model: Any = model.eval().to(self._device)

    def scores(self, clips: Sequence[Samples]) -> list[float | OutOfGpuMemory]:
        """Mean opinion score of each clip, 1 to 5: the mean over its segments.

        Args:
            clips: float32 [samples] at 16 kHz each.

        Returns:
            In the clips' order; the error of a clip of which one segment does not fit the GPU.
        """
        cut = [segments(clip) for clip in clips]
        step = ON_A_GPU if self._device == "cuda" else 1
        flat = [segment for own in cut for segment in own]
        found: list[float | OutOfGpuMemory] = []
        for first in range(0, len(flat), step):
            found += run_halving(self._run, flat[first : first + step])
        rest = iter(found)
        return [_mean([next(rest) for _ in own]) for own in cut]

    def _run(self, batch: Sequence[Samples]) -> list[float]:
        with torch.inference_mode():
            scores = self._model(padded(batch, SEGMENT, self._device))
        return [float(score) for score in scores.flatten().cpu()]


def segments(clip: Samples) -> list[Samples]:
    """A clip as the package cuts it: overlapping segments that begin at its first and end at its last sample.

    A shorter clip is one segment, which is continued with zeros.
    """
    beyond = max(0, clip.size - SEGMENT)
    hops = int(np.ceil(beyond / LONGEST_HOP)) + 1
    starts = [int(place * beyond) for place in np.linspace(0, 1, hops)]
    return [clip[start : start + SEGMENT] for start in starts]


def _mean(scores: Sequence[float | OutOfGpuMemory]) -> float | OutOfGpuMemory:
    failed = next((one for one in scores if isinstance(one, OutOfGpuMemory)), None)
    return failed if failed is not None else float(np.mean([one for one in scores if isinstance(one, float)]))
