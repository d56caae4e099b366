"""What a model of voice activity should have foreseen in each frame, and how surprised it was.

Sources: voice activity projection (Ekstedt & Skantze 2022, arXiv 2205.09812) for the 256 classes; DualTurn
(arXiv 2603.08216) for the eight soft targets; TurnNat (arXiv 2607.01345) for both at a model's frame rate.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from spear_ray.errors import ScorerError
from spear_ray.turntaking.tracks import TRACK_RATE_HZ, Track, active_before, at_model_rate
from spear_ray.turntaking.units import Unit

NO_LABEL = -100
"""Class of a frame whose future reaches past the end of the track."""

BIN_EDGES = (0, 10, 30, 60, 100)
"""50 Hz frames: bins of 0.2, 0.4, 0.6 and 0.8 s."""

HORIZON_FRAMES = BIN_EDGES[-1]
CLASSES = 256

NATIVE8_RATE_HZ = 12.5
NATIVE8_FRAME = 4
"""50 Hz frames in a frame of DualTurn."""

NATIVE8_EDGES = (0, 3, 6, 12, 25)
"""DualTurn's frames: bins that end 240, 480, 960 and 2000 ms ahead."""

PROBABILITY_CLIP = 1e-6

BOUNDARY_WEIGHT = 8.0
"""Weight of a frame inside a boundary unit in TurnNat's training loss; other frames weigh 1."""

PUBLISHED_CHUNK_S = 60.0
PUBLISHED_MIN_CHUNK_S = 1.0
"""The published plain-VAP script drops a shorter last chunk."""

Classes = npt.NDArray[np.int16]
Surprise = npt.NDArray[np.float32]


class Native8Targets(NamedTuple):
    """DualTurn's targets.

    Args:
        soft: float32 [frames, 8], share of each bin in which the speaker is active: four bins of channel 0, then of 1.
        valid: bool [frames], whether the whole future is known.
    """

    soft: npt.NDArray[np.float32]
    valid: npt.NDArray[np.bool_]


def vap_classes(track: Track, frames: int, rate_hz: float) -> Classes:
    """The class of each model frame: which of the next 2 s' bins each speaker fills at least half.

    Args:
        track: bool [2, frames at 50 Hz], cleaned.
        frames: number of model frames.
        rate_hz: the model's frame rate, 50 or 12.5.

    Returns:
        int16 [frames]: sum of 2^k over active bins, k = 0-3 for channel 0 and 4-7 for channel 1; `NO_LABEL` for none.
    """
    anchors = np.rint((np.arange(frames) + 1) * (TRACK_RATE_HZ / rate_hz)).astype(np.int64)
    labelled = anchors + HORIZON_FRAMES <= track.shape[1]
    bins = _active_in_bins(track, anchors[labelled], BIN_EDGES)
    filled = 2 * bins >= np.tile(np.diff(BIN_EDGES), len(track))
    classes = np.full(frames, NO_LABEL, dtype=np.int16)
    classes[labelled] = filled @ (1 << np.arange(filled.shape[1]))
    return classes


def native8_targets(track: Track) -> Native8Targets:
    """Soft occupancy of DualTurn's bins, which begin with the next frame.

    Args:
        track: bool [2, frames] at 12.5 Hz. In training it has a frame for each frame of the model
            (`at_model_rate`); for scoring see `native8_scorer_track`.
    """
    frames = track.shape[1]
    known = max(0, frames - NATIVE8_EDGES[-1])
    soft = np.zeros((frames, 2 * (len(NATIVE8_EDGES) - 1)), dtype=np.float32)
    soft[:known] = _active_in_bins(track, np.arange(known) + 1, NATIVE8_EDGES) / np.tile(np.diff(NATIVE8_EDGES), 2)
    return Native8Targets(soft, np.arange(frames) < known)


def native8_scorer_track(track: Track) -> Track:
    """The 12.5 Hz track of DualTurn's published scorer: an incomplete last frame is dropped.

    Args:
        track: bool [2, frames] at 50 Hz, cleaned.
    """
    return at_model_rate(track, track.shape[1] // NATIVE8_FRAME, NATIVE8_RATE_HZ)


def training_weights(units: Iterable[Unit], frames: int, rate_hz: float) -> npt.NDArray[np.float32]:
    """Weight of each frame in TurnNat's training loss: 8 inside a boundary unit, else 1.

    Args:
        units: of the dialogue; training makes them with `min_utterance_s` 0.2.
        frames: number of model frames.
        rate_hz: the model's frame rate.
    """
    weights = np.ones(frames, dtype=np.float32)
    for unit in units:
        first, last = unit.frames(frames, rate_hz)
        weights[first:last] = BOUNDARY_WEIGHT
    return weights


def categorical_nll(logits: npt.NDArray[np.floating], classes: npt.NDArray[np.integer]) -> Surprise:
    """Cross-entropy of each frame in nats, in float32 as published.

    Args:
        logits: [frames, 256], any float type.
        classes: [frames], `NO_LABEL` where there is none.

    Returns:
        float32 [frames]; NaN where there is no label.
    """
    nll = np.full(len(classes), np.nan, dtype=np.float32)
    labelled = np.flatnonzero(classes != NO_LABEL)
    values = logits[labelled].astype(np.float32)
    values -= values.max(axis=1, keepdims=True, initial=-np.inf)
    chosen = values[np.arange(labelled.size), classes[labelled]]
    nll[labelled] = np.log(np.exp(values).sum(axis=1)) - chosen
    return nll


def native8_nll(
    probabilities: npt.NDArray[np.floating], targets: Native8Targets, reduction: Literal["sum", "mean"] = "sum"
) -> Surprise:
    """Bernoulli cross-entropy of each frame in nats, over DualTurn's eight bins.

    Args:
        probabilities: [frames, 8]; the longer of probabilities and targets is cut to the shorter.
        targets: see `native8_targets`.
        reduction: `sum` is the surprise of all eight bins together; `mean` is kept by the published code for old runs.

    Returns:
        float32 [frames]; NaN where the future is not known.
    """
    frames = min(len(probabilities), len(targets.soft))
    likely = np.clip(probabilities[:frames].astype(np.float32), PROBABILITY_CLIP, 1 - PROBABILITY_CLIP)
    soft = targets.soft[:frames]
    bins = -(soft * np.log(likely) + (1 - soft) * np.log(1 - likely))
    nll = bins.sum(axis=1) if reduction == "sum" else bins.mean(axis=1)
    return np.where(targets.valid[:frames], nll, np.float32(np.nan))


def published_chunks(frames: int, chunk_s: float = PUBLISHED_CHUNK_S) -> list[tuple[int, int]]:
    """The [start, end) stretches that the published plain-VAP script scores one by one.

    Args:
        frames: length of the 50 Hz track.
        chunk_s: length of a chunk in seconds.

    Raises:
        ScorerError: a chunk has 1 to 2 s, on which the published script fails.
    """
    size = round(chunk_s * TRACK_RATE_HZ)
    shortest = round(PUBLISHED_MIN_CHUNK_S * TRACK_RATE_HZ)
    chunks = [(start, min(start + size, frames)) for start in range(0, frames, size)]
    kept = [(start, end) for start, end in chunks if end - start >= shortest]
    for start, end in kept:
        if end - start <= HORIZON_FRAMES:
            raise ScorerError(
                f"turn_taking: published chunks: the chunk from {start / TRACK_RATE_HZ:.2f} to"
                f" {end / TRACK_RATE_HZ:.2f} s has no frame with 2 s of future, on which the published script fails;"
                " score it without published chunks"
            )
    return kept


def published_chunk_classes(track: Track, chunk_s: float = PUBLISHED_CHUNK_S) -> Classes:
    """The published plain-VAP script's classes of a long clip, wrong from the second chunk on.

    Each chunk is labelled by itself, so that its last 2 s have no label, and the chunks' classes are strung together:
    all later frames stand 100 frames earlier than the audio they belong to. Only for comparison with published
    numbers; clips of up to 60 s come out as from `vap_classes` without its frames that have no label.

    Args:
        track: bool [2, frames] at 50 Hz, cleaned.
        chunk_s: length of a chunk in seconds.

    Returns:
        int16 [labelled frames]; frame i of the logits of each chunk of `published_chunks` in turn, without their
        last 100 frames, belongs to it.

    Raises:
        ScorerError: see `published_chunks`.
    """
    parts = [np.empty(0, dtype=np.int16)]
    for start, end in published_chunks(track.shape[1], chunk_s):
        parts.append(vap_classes(track[:, start:end], end - start - HORIZON_FRAMES, TRACK_RATE_HZ))
    return np.concatenate(parts)


def _active_in_bins(track: Track, anchors: npt.NDArray[np.int64], edges: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Active frames in each bin ahead of each anchor: [anchors, channels x bins], channel 0's bins first."""
    before = active_before(track)
    counts = [row[anchors + end] - row[anchors + start] for row in before for start, end in pairwise(edges)]
    return np.stack(counts, axis=1)
