"""Praat's own pitch track, through parselmouth. It is optional, for its licence is the GPL.

Nothing else imports it; it is imported when a track is asked for.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as package_version
from importlib.util import find_spec

import numpy as np
import numpy.typing as npt

from spear_ray.acoustics.pitch import CEILING_HZ, Pitch
from spear_ray.acoustics.spectrum import FLOOR_HZ, PERIODS_PER_FRAME, RATE_HZ
from spear_ray.errors import PrerequisiteError

MODULE = "parselmouth"
PACKAGE = "praat-parselmouth"


def missing() -> PrerequisiteError | None:
    """What is not installed, if anything."""
    if find_spec(MODULE) is None:
        return PrerequisiteError(f"Praat's pitch tracker needs {PACKAGE}: pip install 'spear_ray[praat]'")
    return None


def version() -> str | None:
    """Of parselmouth, and so of Praat; None where it is not installed."""
    return None if missing() else package_version(PACKAGE)


def praat_pitch(
    samples: npt.ArrayLike, rate_hz: int = RATE_HZ, floor_hz: float = FLOOR_HZ, ceiling_hz: float = CEILING_HZ
) -> Pitch:
    """The track of Praat's `To Pitch (ac)` with its standard costs and its own step (0.75 / floor, 0.01 s).

    Args:
        samples: float32 [N], one channel; audio shorter than three periods of the floor gives no frames.
        rate_hz: samples per second.
        floor_hz: lowest pitch (SPEARBench: 75).
        ceiling_hz: highest pitch (SPEARBench: 500).

    Raises:
        PrerequisiteError: parselmouth is not installed.
    """
    reason = missing()
    if reason is not None:
        raise reason
    values = np.asarray(samples, dtype=np.float64)
    if values.size <= PERIODS_PER_FRAME * rate_hz / floor_hz:
        return Pitch(np.empty(0), np.empty(0), np.empty(0))
    sound = import_module(MODULE).Sound(values, sampling_frequency=rate_hz)
    track = sound.to_pitch_ac(pitch_floor=floor_hz, pitch_ceiling=ceiling_hz)
    f0_hz, strength = (np.asarray(track.selected_array[name]) for name in ("frequency", "strength"))
    voiced = f0_hz > 0
    return Pitch(np.asarray(track.xs()), np.where(voiced, f0_hz, np.nan), np.where(voiced, strength, 0.0))
