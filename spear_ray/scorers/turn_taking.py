"""Turn-taking naturalness: how surprising is the timing of a dialogue to a model of natural talk?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import PrerequisiteError
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers.base import Metric, Scorer, ScorerConfig
from spear_ray.turntaking.predictors import (
    Assessment,
    Clip,
    Predictor,
    PredictorConfig,
    check_predictor,
    make_predictor,
)
from spear_ray.turntaking.timeline import Timeline


def _turnnat_speech() -> SpeechSettings:
    """TurnNat's voice activity: shorter speech and shorter silences than Silero's defaults."""
    return SpeechSettings(min_speech_ms=100, min_silence_ms=50)


@dataclass(kw_only=True)
class TurnTakingConfig(PredictorConfig, ScorerConfig):
    """Settings of `turn_taking`: those of the predictor, and.

    Args:
        speech: of the voice activity detector, per channel.
    """

    speech: SpeechSettings = field(default_factory=_turnnat_speech)

    def check(self) -> None:
        """The predictor must be one that there is, its numbers within their limits."""
        check_predictor(self)


class TurnTakingScorer(Scorer[TurnTakingConfig]):
    """TurnNat's dialogue score with one of three predictors; rows of different predictors are never mixed.

    Source: TurnNat (arXiv 2607.01345). `dialog_nll` is half the mean surprise of the units (moments at which somebody
    starts or stops) and half that of the most surprising quarter; `nat_score` is its negative.
    """

    name = "turn_taking"
    version = "1"
    config_type = TurnTakingConfig
    metrics = (
        Metric(
            name="nat_score",
            unit="nats",
            direction="higher",
            headline=True,
            about="How natural the timing is to the predictor: the negative of dialog_nll.",
        ),
        Metric(
            name="dialog_nll",
            unit="nats",
            direction="lower",
            about="Surprise of the dialogue's turn boundaries: half mean_nll, half tail_nll.",
        ),
        Metric(name="mean_nll", unit="nats", direction="lower", about="Mean surprise over all units."),
        Metric(
            name="tail_nll",
            unit="nats",
            direction="lower",
            about="Mean surprise of the most surprising quarter of units.",
        ),
        Metric(
            name="units", unit="per dialogue", direction="none", about="Number of turn boundaries that were scored."
        ),
        Metric(
            name="turn_taking_naturalness",
            unit="nats",
            direction="higher",
            column="turn_taking_naturalness",
            about="nat_score where the predictor is one that SPEARBench's column means: vap or dualturn, not timing.",
        ),
    )

    @cached_property
    def predictor(self) -> Predictor:
        """The one that the configuration names."""
        return make_predictor(self.config)

    def missing(self) -> PrerequisiteError | None:
        """Silero, and what the predictor needs."""
        return Silero.missing() or self.predictor.missing()

    def setup(self) -> None:
        """Load Silero and the predictor's model."""
        self._silero = Silero()
        self.predictor.setup()

    @property
    def identity(self) -> dict[str, Any]:
        """Version, voice activity, and what the predictor's scores depend on; others' settings do not count."""
        return {
            "scorer": self.name,
            "version": self.version,
            "speech": vars(self.config.speech),
            "silero_vad": Silero.version(),
            **self.predictor.identity,
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """turn_taking_naturalness, where the predictor is one that the column means."""
        return super().columns if self.predictor.published else ()

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue."""
        clips = [self.clip(dialogue.audio) for dialogue in batch]
        assessments = self.predictor.assess(clips)
        return [self._row_of(*row) for row in zip(batch, clips, assessments, strict=True)]

    def clip(self, audio: Samples, speech: SpeechSettings | None = None) -> Clip:
        """Audio with its voice activity.

        Args:
            audio: float32 [2, samples] at 16 kHz.
            speech: other settings of the detector than the scorer's own.
        """
        channels = np.ascontiguousarray(audio)
        asking, answering = (self._silero.speech(channel, speech or self.config.speech) for channel in channels)
        return Clip(Timeline.of(asking, answering, audio.shape[1] / SAMPLE_RATE_HZ), audio)

    def _row_of(self, dialogue: Dialogue, clip: Clip, found: Assessment | None) -> Score:
        if found is None:
            return self.skipped(
                dialogue, "no_turns", "nobody takes or leaves the floor after the first 3 s: there is nothing to score"
            )
        pooled = found.pooled
        metrics = {
            "nat_score": pooled.nat_score,
            "dialog_nll": pooled.dialog_nll,
            "mean_nll": pooled.mean_nll,
            "tail_nll": pooled.tail_nll,
            "units": float(pooled.units),
        }
        if self.predictor.published:
            metrics["turn_taking_naturalness"] = pooled.nat_score
        return self.ok(dialogue, metrics, self._details(dialogue, clip, found))

    def _details(self, dialogue: Dialogue, clip: Clip, found: Assessment) -> dict[str, Any]:
        asking, answering = ([[round(s, 4), round(e, 4)] for s, e in side] for side in clip.activity.sides)
        return {
            "predictor": self.predictor.name,
            "seconds": clip.activity.seconds,
            "activity": {"asking": asking, "answering": answering},
            "units": [
                [u.kind, u.side, round(u.start_s, 3), round(u.end_s, 3), round(u.nll, 4)] for u in found.boundaries
            ],
            "notes": [*dialogue.notes, *found.notes],
        }
