"""From the surprise of frames to that of a dialogue: units, what stands in where there is none, and pooling.

Source: TurnNat (arXiv 2607.01345), turn-boundary units and dialogue score.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spear_ray.turntaking.labels import NATIVE8_RATE_HZ, native8_scorer_track
from spear_ray.turntaking.pooling import Pooled, pool
from spear_ray.turntaking.tracks import TRACK_RATE_HZ, Track, at_model_rate
from spear_ray.turntaking.units import Unit, UnitSettings, boundary_units

FALLBACK_VAD_BOUNDARIES = "fallback_vad_boundaries"
FALLBACK_ALL_VALID = "fallback_all_valid"

FALLBACK_WINDOW_S = 2.0
"""Frames within this distance of a change of voice activity stand in for units."""

NATIVE8_SETTINGS = UnitSettings(min_frames=3)
"""The defaults of DualTurn's own scorer."""

Surprise = npt.NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class ScoredUnit:
    """A unit with its surprise.

    Args:
        unit: the stretch.
        nll: mean over its frames, nats.
        frames: how many frames that have a surprise it holds after the context.
    """

    unit: Unit
    nll: float
    frames: int


@dataclass(frozen=True, slots=True)
class DialogueScore:
    """A dialogue's surprise.

    Args:
        pooled: over its units; None where no frame after the context has a surprise, for instance in a clip of less
            than 5 s: then there is no score, and `units` is empty.
        units: what was pooled, by time: boundary units, or one that stands in for them.
        num_nll_frames: frames of the dialogue that have a surprise, the context included.
        fallback: name of what stands in where no boundary unit was left, or None.
    """

    pooled: Pooled | None
    units: tuple[ScoredUnit, ...]
    num_nll_frames: int
    fallback: str | None


def score_dialogue(
    nll: Surprise, track: Track, duration_s: float, rate_hz: float, settings: UnitSettings
) -> DialogueScore:
    """Score a dialogue from its frames, as TurnNat does with a categorical head.

    Where no unit has enough frames, all frames near a change of voice activity stand in, or else all frames.

    Args:
        nll: float [frames], nats, NaN where there is no label. float32 is averaged in float32, as published.
        track: bool [2, frames at 50 Hz], cleaned.
        duration_s: of the audio that the model heard; may end within a frame.
        rate_hz: frame rate of `nll`, 50 or 12.5.
        settings: how units are made and pooled.
    """
    scored = scored_units(nll, boundary_units(track, TRACK_RATE_HZ, duration_s, settings), rate_hz, settings)
    if scored:
        return _result(scored, nll, settings)
    near = _near_changes(at_model_rate(track, nll.size, rate_hz), rate_hz) & _after_context(nll.size, rate_hz, settings)
    stand_in = _stand_in(FALLBACK_VAD_BOUNDARIES, nll, near, rate_hz)
    if stand_in is None or stand_in.frames < settings.min_frames:
        stand_in = _stand_in(FALLBACK_ALL_VALID, nll, _after_context(nll.size, rate_hz, settings), rate_hz)
    return _result([stand_in] if stand_in else [], nll, settings)


def score_native8(
    nll: Surprise, track: Track, duration_s: float, settings: UnitSettings = NATIVE8_SETTINGS
) -> DialogueScore:
    """Score a dialogue from its frames, as the published scorer of DualTurn's own head does.

    It makes units on the 12.5 Hz track, and where none has enough frames all frames that have a surprise stand in.

    Args:
        nll: float [frames] at 12.5 Hz, nats, NaN where there is no label; see `native8_nll`.
        track: bool [2, frames at 50 Hz], cleaned.
        duration_s: of the audio that the model heard.
        settings: how units are made and pooled.
    """
    own_track = native8_scorer_track(track)[:, : nll.size]
    units = boundary_units(own_track, NATIVE8_RATE_HZ, duration_s, settings)
    scored = scored_units(nll, units, NATIVE8_RATE_HZ, settings)
    if not scored:
        known = np.isfinite(nll) & _after_context(nll.size, NATIVE8_RATE_HZ, settings)
        stand_in = _stand_in(FALLBACK_ALL_VALID, nll, known, NATIVE8_RATE_HZ)
        scored = [stand_in] if stand_in else []
    return _result(scored, nll, settings)


def scored_units(nll: Surprise, units: Iterable[Unit], rate_hz: float, settings: UnitSettings) -> list[ScoredUnit]:
    """The units that have enough frames, with their mean surprise.

    Args:
        nll: float [frames], nats, NaN where there is no label.
        units: see `boundary_units`.
        rate_hz: frame rate of `nll`.
        settings: `context_s` and `min_frames`.
    """
    return list(_scored(nll, units, rate_hz, settings))


def _scored(nll: Surprise, units: Iterable[Unit], rate_hz: float, settings: UnitSettings) -> Iterator[ScoredUnit]:
    for unit in units:
        first, last = unit.frames(nll.size, rate_hz, settings.context_s)
        values = _finite(nll[first : max(first, last)])
        if values.size >= max(1, settings.min_frames):
            yield ScoredUnit(unit, float(values.mean()), values.size)


def _stand_in(kind: str, nll: Surprise, chosen: npt.NDArray[np.bool_], rate_hz: float) -> ScoredUnit | None:
    """One unit of the chosen frames, from the first to the last; None where none of them has a surprise."""
    values = _finite(nll[chosen])
    if not values.size:
        return None
    places = np.flatnonzero(chosen)
    unit = Unit(kind, float(places[0] / rate_hz), float((places[-1] + 1) / rate_hz), None)
    return ScoredUnit(unit, float(values.mean()), values.size)


def _near_changes(track: Track, rate_hz: float) -> npt.NDArray[np.bool_]:
    """Frames within the window around a frame in which either side begins or stops, both ends included."""
    frames = track.shape[1]
    window = round(FALLBACK_WINDOW_S * rate_hz)
    changes = np.flatnonzero((track[:, 1:] != track[:, :-1]).any(axis=0)) + 1
    near = np.zeros(frames, dtype=np.bool_)
    for change in changes.tolist():
        near[max(0, change - window) : change + window + 1] = True
    return near


def _after_context(frames: int, rate_hz: float, settings: UnitSettings) -> npt.NDArray[np.bool_]:
    return np.arange(frames) >= math.ceil(settings.context_s * rate_hz)


def _finite(values: Surprise) -> Surprise:
    return values[np.isfinite(values)]


def _result(scored: list[ScoredUnit], nll: Surprise, settings: UnitSettings) -> DialogueScore:
    kinds = {one.unit.kind for one in scored} & {FALLBACK_VAD_BOUNDARIES, FALLBACK_ALL_VALID}
    values = [one.nll for one in scored]
    pooled = pool(values, settings.tail_share, settings.mean_weight) if values else None
    return DialogueScore(pooled, tuple(scored), int(np.isfinite(nll).sum()), next(iter(kinds), None))
