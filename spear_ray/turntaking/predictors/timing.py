"""`timing`: fitted statistics of natural timing; needs no audio model, no download and no GPU."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.turntaking.predictors.base import Assessment, Boundary, Clip, Predictor
from spear_ray.turntaking.timing_model import TimingModel, load_statistics, model_of


class TimingPredictor(Predictor):
    """Surprise of each change of the floor, from who spoke when alone."""

    name = "timing"
    hears_audio = False
    published = False

    @property
    def statistics(self) -> str:
        """Name or file of the population's statistics."""
        return self.config.timing.statistics

    def missing(self) -> PrerequisiteError | None:
        """The statistics must be there."""
        try:
            model_of(load_statistics(self.statistics), self.statistics)
        except ConfigError as error:
            return PrerequisiteError(str(error))
        return None

    def setup(self) -> None:
        """Read the statistics."""
        self.model: TimingModel = model_of(load_statistics(self.statistics), self.statistics)

    @property
    def identity(self) -> Mapping[str, Any]:
        """The content of the statistics, whatever their name."""
        return {"predictor": self.name, "statistics": hashlib.sha256(_text(self.statistics).encode()).hexdigest()}

    def assess(self, clips: Sequence[Clip]) -> list[Assessment | None]:
        """One clip after the other: a batch changes nothing."""
        return [self._assess(clip) for clip in clips]

    def _assess(self, clip: Clip) -> Assessment | None:
        units = self.model.surprises(clip.activity)
        pooled = self.model.pooled(units, clip.activity.seconds)
        if pooled is None:
            return None
        return Assessment(pooled, tuple(Boundary(*unit) for unit in units))


def _text(statistics: str) -> str:
    """Their text; empty where there are none (then `missing` says so)."""
    try:
        return load_statistics(statistics)
    except ConfigError:
        return ""
