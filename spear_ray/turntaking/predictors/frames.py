"""What predictors with a network have in common: files, devices, and units from frame surprise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from spear_ray.dialogue import SAMPLE_RATE_HZ
from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.files import content_of, local_copy
from spear_ray.turntaking.predictors.base import Assessment, Boundary, Clip, Predictor
from spear_ray.turntaking.scoring import DialogueScore
from spear_ray.turntaking.timeline import Timeline
from spear_ray.turntaking.tracks import Track, clean_track, track_from_timestamps
from spear_ray.turntaking.units import UnitSettings


class FramePredictor(Predictor):
    """A predictor that gives the surprise of frames."""

    hears_audio = True
    published = True
    commands: ClassVar[Mapping[str, str]]
    """For each file that is needed: its key in the predictor's settings, and how to get it."""

    def missing(self) -> PrerequisiteError | None:
        """Each file must be named and be there."""
        try:
            _ = self.files
        except PrerequisiteError as error:
            return error
        return None

    @cached_property
    def files(self) -> dict[str, Path]:
        """The files on this machine's disk.

        Raises:
            CheckpointMissing: one is not named, or not there.
        """
        return {key: self._file(key, command) for key, command in self.commands.items()}

    def _file(self, key: str, command: str) -> Path:
        name = f"scorer.turn_taking.{self.name}.{key}"
        uri = getattr(getattr(self.config, self.name), key)
        if not uri:
            raise CheckpointMissing(f"predictor={self.name} needs {name}: {command}, then {name}=PATH")
        return local_copy(uri, f"{command}, then {name}=PATH")

    @cached_property
    def identity(self) -> Mapping[str, Any]:
        """Settings, and the content of all files, wherever they lie; null where they are missing."""
        return {
            "predictor": self.name,
            "min_utterance_s": self.config.min_utterance_s,
            "settings": self.scoring_settings,
            "files": None if self.missing() else {key: content_of(path) for key, path in self.files.items()},
        }

    @property
    @abstractmethod
    def scoring_settings(self) -> dict[str, Any]:
        """The predictor's own settings that change a score."""

    @property
    def unit_settings(self) -> UnitSettings:
        """How units are made."""
        return UnitSettings(min_utterance_s=self.config.min_utterance_s)


def cleaned_track(activity: Timeline) -> Track:
    """The cleaned 50 Hz track of both sides, bool [2, frames]."""
    samples = round(activity.seconds * SAMPLE_RATE_HZ)
    sides = [[(round(s * SAMPLE_RATE_HZ), round(e * SAMPLE_RATE_HZ)) for s, e in side] for side in activity.sides]
    return clean_track(track_from_timestamps(sides, samples))


def heard(clip: Clip) -> Any:
    """The clip's audio, float32 [2, samples] at 16 kHz.

    Raises:
        ValueError: the clip has only times.
    """
    if clip.audio is None:
        raise ValueError("this predictor hears audio, the clip has only times")
    return clip.audio


def assessment(score: DialogueScore) -> Assessment | None:
    """A dialogue's score in the form that all predictors share; None where nothing could be scored."""
    if score.pooled is None:
        return None
    boundaries = (
        Boundary(
            one.unit.kind,
            -1 if one.unit.speaker is None else one.unit.speaker,
            one.unit.start_s,
            one.unit.end_s,
            one.nll,
        )
        for one in score.units
    )
    return Assessment(score.pooled, tuple(boundaries), (score.fallback,) if score.fallback else ())


def device() -> str:
    """`cuda` where there is one."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
