"""The edits of `perturbations` on two-channel audio: room tone in gaps, crossfades, one gain for both clips of a pair.

Source of the figures: TurnNat's published builder (arXiv 2607.01345).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.timing.segments import Segment
from spear_ray.turntaking.edits import Copy, Cut, Edit, Mute, Open, Operation
from spear_ray.turntaking.timeline import Timeline

CROSSFADE_S = 0.01
SPEECH_MARGIN_S = 0.1
"""Room tone is taken from so far away from speech."""

MIN_TONE_S = 0.1
TARGET_RMS_DBFS = -20.0
MAX_PEAK_DBFS = -1.0


class RoomTone:
    """What a channel sounds like while its side is silent.

    Args:
        channel: float32 [samples] at 16 kHz.
        speech: when the side speaks, in seconds.
        rng: chooses where tone is taken from.
    """

    def __init__(self, channel: Samples, speech: Sequence[Segment], rng: np.random.Generator) -> None:
        self._rng = rng
        self._pieces = _silences(channel, speech)

    @property
    def is_digital_silence(self) -> bool:
        """Whether the channel has no silence to take tone from: zeros stand in."""
        return not self._pieces

    def take(self, samples: int) -> Samples:
        """So much tone, joined from pieces with crossfades; float32 [samples]."""
        tone = np.zeros(0, dtype=np.float32)
        while self._pieces and tone.size < samples:
            piece = self._pieces[int(self._rng.integers(len(self._pieces)))]
            tone = joined(tone, piece) if tone.size else piece
        return tone[:samples] if self._pieces else np.zeros(samples, dtype=np.float32)


def edited_audio(clip: Samples, edit: Edit, session: Samples, activity: Timeline, rng: np.random.Generator) -> Samples:
    """The audio of a clip after an edit.

    Args:
        clip: float32 [2, samples] at 16 kHz.
        edit: its times are relative to the clip, those of copied material to the session.
        session: float32 [2, samples], the whole dialogue that the clip is from.
        activity: who speaks when in the session.
        rng: chooses room tone.

    Returns:
        float32 [2, samples].
    """
    sides = []
    for side, channel in enumerate(clip):
        tone = RoomTone(session[side], activity.sides[side], rng)
        changed = channel
        for one in edit.operations:
            if one.side == side:
                changed = _applied(changed, one, session[side], tone)
        sides.append(changed)
    length = min(side.size for side in sides)
    return np.stack([side[:length] for side in sides])


def same_loudness(natural: Samples, edited: Samples) -> tuple[Samples, Samples, float]:
    """Both clips with one gain: the natural one at -20 dBFS RMS, less where a peak would pass -1 dBFS.

    Args:
        natural: float32 [2, samples].
        edited: float32 [2, samples].

    Returns:
        The clips, and the gain.
    """
    rms = float(np.sqrt(np.mean(np.square(natural, dtype=np.float64))))
    peak = max(float(np.abs(clip).max(initial=0.0)) for clip in (natural, edited))
    if not rms or not peak:
        return natural, edited, 1.0
    gain = min(10 ** (TARGET_RMS_DBFS / 20) / rms, 10 ** (MAX_PEAK_DBFS / 20) / peak)
    return (natural * gain).astype(np.float32), (edited * gain).astype(np.float32), gain


def joined(first: Samples, second: Samples) -> Samples:
    """One after the other without a step: both ends are bent to their common middle, each over 5 ms.

    No sample is lost, so that both channels of a dialogue stay on one time line.
    """
    fade = min(round(CROSSFADE_S * SAMPLE_RATE_HZ), first.size, second.size) // 2
    if not fade:
        return np.concatenate([first, second])
    middle = (first[-1] + second[0]) / 2
    ramp = np.linspace(0.0, 1.0, fade, dtype=np.float32)
    before, after = first.copy(), second.copy()
    before[-fade:] += (middle - first[-1]) * ramp
    after[:fade] += (middle - second[0]) * ramp[::-1]
    return np.concatenate([before, after])


def _applied(channel: Samples, one: Operation, session: Samples, tone: RoomTone) -> Samples:
    if isinstance(one, Open):
        at = _at(one.at_s)
        return joined(joined(channel[:at], tone.take(_at(one.seconds))), channel[at:])
    if isinstance(one, Cut):
        return joined(channel[: _at(one.start_s)], channel[_at(one.start_s) + _at(one.end_s - one.start_s) :])
    if isinstance(one, Mute):
        start, end = max(0, _at(one.start_s)), min(channel.size, _at(one.end_s))
        return joined(joined(channel[:start], tone.take(end - start)), channel[end:])
    return _laid_over(channel, one, session)


def _laid_over(channel: Samples, one: Copy, session: Samples) -> Samples:
    """The channel with a piece of the session added to it, faded in and out."""
    piece = session[_at(one.source_start_s) : _at(one.source_end_s)] * np.float32(one.gain)
    at = _at(one.at_s)
    piece = piece[: max(0, channel.size - at)].copy()
    fade = min(round(CROSSFADE_S * SAMPLE_RATE_HZ), piece.size // 2)
    ramp = np.linspace(0.0, 1.0, fade, dtype=np.float32)
    piece[:fade] *= ramp
    piece[piece.size - fade :] *= ramp[::-1]
    changed = channel.copy()
    changed[at : at + piece.size] += piece
    return changed


def _silences(channel: Samples, speech: Sequence[Segment]) -> list[Samples]:
    """Stretches without speech that are long enough."""
    edges_s = [0.0, *(edge for segment in speech for edge in segment), channel.size / SAMPLE_RATE_HZ]
    found = []
    for start_s, end_s in zip(edges_s[::2], edges_s[1::2], strict=True):
        start, end = _at(start_s + SPEECH_MARGIN_S), _at(end_s - SPEECH_MARGIN_S)
        if end - start >= _at(MIN_TONE_S):
            found.append(channel[start:end])
    return found


def _at(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE_HZ)
