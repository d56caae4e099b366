"""The stretches of a dialogue that are scored: utterances of each speaker and the moments around their ends.

Times are float64 seconds, frame / rate, and go back to frames through floor and ceil, as in the published code: whole
frames would give other edges (a gap of 50 frames is longer than 1.0 s at some places and not at others).
Source: TurnNat (arXiv 2607.01345), turn-boundary units.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from spear_ray.turntaking.pooling import MEAN_WEIGHT, TAIL_SHARE
from spear_ray.turntaking.tracks import Track, active_before, runs_of

UTTERANCE_START = "utterance_start"
UTTERANCE_END = "utterance_end"
UTTERANCE_SPAN = "utterance_span"

_SAME_UNIT_DIGITS = 2
"""Units of one kind and speaker whose ends agree to 0.01 s are one."""


class UnitMode(StrEnum):
    """What an utterance gives: a unit before each of its ends, one that spans it, or all three."""

    BOUNDARIES = "boundaries"
    SPANS = "spans"
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitSettings:
    """How units are made of voice activity and scored.

    Args:
        context_s: frames before this time never count: the model has heard too little.
        pre_s: a unit begins this long before its boundary.
        post_s: and ends this long after it.
        min_utterance_s: shorter utterances give no unit: 0.5 as SPEARBench runs it, 0.2 as the released scorer does.
        min_frames: a unit needs this many frames that have a surprise: 5, for DualTurn's own head 3.
        tail_share: share of the units in the tail (gamma).
        mean_weight: weight of the mean (lambda).
        mode: which units an utterance gives.
        merge_gap_s: speech of one speaker over a longer gap is two utterances.
        merge_other_share: and so it is where the other one is active in more than this share of the gap.
    """

    context_s: float = 3.0
    pre_s: float = 2.0
    post_s: float = 0.0
    min_utterance_s: float = 0.5
    min_frames: int = 5
    tail_share: float = TAIL_SHARE
    mean_weight: float = MEAN_WEIGHT
    mode: UnitMode = UnitMode.BOUNDARIES
    merge_gap_s: float = 1.0
    merge_other_share: float = 0.2


@dataclass(frozen=True, slots=True)
class Utterance:
    """Speech of one speaker.

    Args:
        speaker: channel.
        start_frame: first frame of the track.
        end_frame: frame after the last.
        start_s: seconds.
        end_s: seconds.
        duration_s: seconds.
        merged_from: of how many runs of the track it was made.
        internal_gap_s: silence between them.
        max_other_share: the other speaker's largest share of such a gap; None where there is no gap.
    """

    speaker: int
    start_frame: int
    end_frame: int
    start_s: float
    end_s: float
    duration_s: float
    merged_from: int = 1
    internal_gap_s: float = 0.0
    max_other_share: float | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A stretch whose frames are averaged.

    Args:
        kind: `utterance_start`, `utterance_end`, `utterance_span`, or a fallback's name.
        start_s: seconds.
        end_s: seconds.
        speaker: channel; None for a fallback.
    """

    kind: str
    start_s: float
    end_s: float
    speaker: int | None

    def frames(self, total: int, rate_hz: float, context_s: float = 0.0) -> tuple[int, int]:
        """Its [first, last + 1) of a model's `total` frames after the context; empty where first >= last + 1."""
        first = max(math.ceil(context_s * rate_hz), math.floor(self.start_s * rate_hz))
        return first, min(total, math.ceil(self.end_s * rate_hz))


def speech_runs(track: Track, rate_hz: float) -> list[Utterance]:
    """Each run of the track as an utterance of its own, by time.

    Args:
        track: bool [2, frames], cleaned.
        rate_hz: its frame rate.
    """
    runs = [
        Utterance(speaker, start, end, start / rate_hz, end / rate_hz, (end - start) / rate_hz)
        for speaker, row in enumerate(track)
        for start, end in runs_of(row).tolist()
    ]
    return sorted(runs, key=_time_order)


def merged_utterances(track: Track, rate_hz: float, settings: UnitSettings) -> list[Utterance]:
    """Utterances by time: a speaker's runs, joined over short gaps in which the other one is mostly silent.

    Args:
        track: bool [2, frames], cleaned.
        rate_hz: its frame rate.
        settings: `merge_gap_s` and `merge_other_share`.
    """
    runs = speech_runs(track, rate_hz)
    share = _Shares(track, rate_hz)
    merged = [
        utterance
        for speaker in range(len(track))
        for utterance in _merged([run for run in runs if run.speaker == speaker], share, settings)
    ]
    return sorted(merged, key=_time_order)


def boundary_units(track: Track, rate_hz: float, duration_s: float, settings: UnitSettings) -> list[Unit]:
    """Units of all utterances that are long enough, by time; what lies outside the dialogue is cut off.

    Args:
        track: bool [2, frames], cleaned.
        rate_hz: its frame rate.
        duration_s: of the audio; may end within a frame.
        settings: how units are made.
    """
    units: dict[tuple[str, float, float, int], Unit] = {}
    for utterance in merged_utterances(track, rate_hz, settings):
        if utterance.duration_s < settings.min_utterance_s:
            continue
        for kind, first_s, last_s in _boundaries(utterance, settings.mode):
            start_s, end_s = max(0.0, first_s - settings.pre_s), min(duration_s, last_s + settings.post_s)
            key = (kind, round(start_s, _SAME_UNIT_DIGITS), round(end_s, _SAME_UNIT_DIGITS), utterance.speaker)
            if end_s > start_s:
                units.setdefault(key, Unit(kind, start_s, end_s, utterance.speaker))
    return sorted(units.values(), key=lambda unit: (unit.start_s, unit.end_s, unit.kind, unit.speaker))


class _Shares:
    """A speaker's share of any stretch of time."""

    def __init__(self, track: Track, rate_hz: float) -> None:
        self._before = active_before(track)
        self._frames = track.shape[1]
        self._rate_hz = rate_hz

    def of(self, speaker: int, start_s: float, end_s: float) -> float:
        """0 where the stretch is empty."""
        first = max(0, math.floor(start_s * self._rate_hz))
        last = min(self._frames, math.ceil(end_s * self._rate_hz))
        if last <= first:
            return 0.0
        share: float = (self._before[speaker, last] - self._before[speaker, first]) / (last - first)
        return share


def _merged(runs: Sequence[Utterance], shares: _Shares, settings: UnitSettings) -> list[Utterance]:
    """One speaker's runs, joined."""
    out: list[Utterance] = []
    for run in runs:
        if out:
            last, other = out[-1], 1 - run.speaker
            other_share = shares.of(other, last.end_s, run.start_s)
            if run.start_s - last.end_s <= settings.merge_gap_s and other_share <= settings.merge_other_share:
                out[-1] = _joined(last, run, other_share)
                continue
        out.append(run)
    return out


def _joined(first: Utterance, second: Utterance, other_share: float) -> Utterance:
    return replace(
        first,
        end_frame=second.end_frame,
        end_s=second.end_s,
        duration_s=second.end_s - first.start_s,
        merged_from=first.merged_from + second.merged_from,
        internal_gap_s=first.internal_gap_s + max(0.0, second.start_s - first.end_s),
        max_other_share=max(first.max_other_share or 0.0, other_share),
    )


def _boundaries(utterance: Utterance, mode: UnitMode) -> Iterator[tuple[str, float, float]]:
    """Kind, first and last moment of what an utterance gives."""
    if mode != UnitMode.SPANS:
        yield UTTERANCE_START, utterance.start_s, utterance.start_s
        yield UTTERANCE_END, utterance.end_s, utterance.end_s
    if mode != UnitMode.BOUNDARIES:
        yield UTTERANCE_SPAN, utterance.start_s, utterance.end_s


def _time_order(utterance: Utterance) -> tuple[float, float, int]:
    return utterance.start_s, utterance.end_s, utterance.speaker
