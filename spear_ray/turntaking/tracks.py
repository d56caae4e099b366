"""Who is speaking in which frame: binary tracks at 50 Hz, cleaned and brought to a model's frame rate.

A track is bool [channels, frames]. Source of all numbers: TurnNat (arXiv 2607.01345), labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from spear_ray.dialogue import SAMPLE_RATE_HZ

Track = npt.NDArray[np.bool_]
Runs = npt.NDArray[np.int64]

TRACK_RATE_HZ = 50
FRAME_SAMPLES = SAMPLE_RATE_HZ // TRACK_RATE_HZ
"""20 ms at 16 kHz."""

FRAME_MS = 1000 / TRACK_RATE_HZ

MIN_SPEECH_MS = 150
MIN_SILENCE_MS = 150
"""Cleaning removes shorter speech, then fills shorter silence: less than int(150 / 20) = 7 frames."""

RMS_THRESHOLD = 0.015
"""Frames this loud are speech to the RMS detector; full scale is 1."""

_RMS_FLOOR = 1e-5


def track_from_timestamps(channels: Sequence[Iterable[Sequence[int]]], samples: int) -> Track:
    """Voice activity as Silero reports it, at 50 Hz; both ends are rounded down to a frame.

    Args:
        channels: for each channel its [start, end) pairs in samples at 16 kHz.
        samples: length of the audio; a last incomplete frame is dropped.

    Returns:
        bool [channels, samples // 320].
    """
    frames = samples // FRAME_SAMPLES
    in_frames = ([(start // FRAME_SAMPLES, end // FRAME_SAMPLES) for start, end in pairs] for pairs in channels)
    return np.stack([row_from_runs(pairs, frames) for pairs in in_frames])


def rms_track(audio: npt.NDArray[np.floating], threshold: float = RMS_THRESHOLD) -> Track:
    """Voice activity by loudness alone; the last frame is filled up with silence.

    Args:
        audio: float32 [channels, samples] at 16 kHz.
        threshold: root mean square from which a frame is speech.

    Returns:
        bool [channels, ceil(samples / 320)].
    """
    missing = -audio.shape[1] % FRAME_SAMPLES
    padded = np.pad(audio.astype(np.float32, copy=False), ((0, 0), (0, missing)))
    power = np.square(padded.reshape(len(audio), -1, FRAME_SAMPLES)).mean(axis=2)
    loud: Track = np.sqrt(np.maximum(power, np.float32(_RMS_FLOOR**2))) >= np.float32(threshold)
    return loud


def runs_of(row: Track) -> Runs:
    """Runs of ones.

    Args:
        row: bool [frames].

    Returns:
        int64 [runs, 2] of [start, end) frames.
    """
    changes = np.flatnonzero(np.diff(row.astype(np.int8), prepend=0, append=0))
    return changes.reshape(-1, 2)


def row_from_runs(runs: Iterable[Sequence[int]], frames: int) -> Track:
    """The row of a track that has ones in the given [start, end) runs; bool [frames]."""
    row = np.zeros(frames, dtype=np.bool_)
    for start, end in runs:
        row[start:end] = True
    return row


def clean_track(track: Track, min_speech_ms: float = MIN_SPEECH_MS, min_silence_ms: float = MIN_SILENCE_MS) -> Track:
    """Short speech is removed, then short silence is filled; what lasts to the last frame stays as it is.

    A short silence before the first speech counts as silence and is filled too, as in the published code.

    Args:
        track: bool [channels, frames] at 50 Hz.
        min_speech_ms: shorter speech goes.
        min_silence_ms: shorter silence goes.
    """
    cleaned = np.zeros_like(track)
    for channel, row in enumerate(track):
        spoken = row & ~_short_runs(row, int(min_speech_ms / FRAME_MS))
        cleaned[channel] = spoken | _short_runs(~spoken, int(min_silence_ms / FRAME_MS))
    return cleaned


def active_before(track: Track) -> npt.NDArray[np.int64]:
    """Number of active frames before each frame: int64 [channels, frames + 1]; differences count any stretch."""
    counts = np.zeros((len(track), track.shape[1] + 1), dtype=np.int64)
    np.cumsum(track, axis=1, out=counts[:, 1:])
    return counts


def at_model_rate(track: Track, frames: int, rate_hz: float) -> Track:
    """A track on a model's frames: active where at least half of the 50 Hz frames within are.

    DualTurn's own scorer takes whole frames only, `frames = track.shape[1] // 4` at 12.5 Hz. TurnNat's training and
    evaluator take all frames of the model: the last may be judged by fewer 50 Hz frames, later ones are silence.

    Args:
        track: bool [channels, frames at 50 Hz].
        frames: how many model frames to give.
        rate_hz: frame rate of the model, at most 50.

    Returns:
        bool [channels, frames].
    """
    index = np.arange(frames + 1)
    edges = np.minimum(np.floor(index * float(TRACK_RATE_HZ) / rate_hz).astype(np.int64), track.shape[1])
    active = np.diff(active_before(track)[:, edges], axis=1)
    width = np.diff(edges)
    speaks: Track = (2 * active >= width) & (width > 0)
    return speaks


def _short_runs(row: Track, min_frames: int) -> Track:
    """Ones where a run is shorter than `min_frames` and ends before the last frame."""
    runs = runs_of(row)
    short = (runs[:, 1] - runs[:, 0] < min_frames) & (runs[:, 1] < row.size)
    return row_from_runs(runs[short], row.size)
