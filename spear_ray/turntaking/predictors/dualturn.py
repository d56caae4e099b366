"""`dualturn`: TurnNat's released model on DualTurn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from spear_ray.audio import resampled
from spear_ray.dialogue import SAMPLE_RATE_HZ
from spear_ray.turntaking import labels
from spear_ray.turntaking.predictors.base import Assessment, Clip
from spear_ray.turntaking.predictors.frames import FramePredictor, assessment, cleaned_track, device, heard
from spear_ray.turntaking.scoring import NATIVE8_SETTINGS, score_dialogue, score_native8
from spear_ray.turntaking.units import UnitSettings

MODEL_RATE_HZ = 24_000
FRAME_HZ = 12.5


class DualTurnPredictor(FramePredictor):
    """Batched by length on a GPU; on a CPU one dialogue at a time, so that its score does not depend on the others.

    Dialogues are 16 kHz inside spear_ray and are resampled to 24 kHz: what lies above 8 kHz is not heard, as in
    SPEARBench, whose clips are 16 kHz files.
    """

    name = "dualturn"
    commands: ClassVar[Mapping[str, str]] = {
        "checkpoint": "get turnnat-dualturn-fvad256.pt from https://figshare.com/s/65e5bf5290085220ee88",
        "backbone": "spear-ray checkpoints pull Qwen2.5-0.5B (it is hf://Qwen/Qwen2.5-0.5B)",
        "mimi": "spear-ray checkpoints pull mimi (it is hf://kyutai/mimi)",
    }

    def setup(self) -> None:
        """Load the network."""
        from spear_ray.networks.dualturn_checkpoint import load_dualturn

        files, settings = self.files, self.config.dualturn
        network = load_dualturn(files["checkpoint"], files["backbone"], files["mimi"], settings.sliding_window)
        self._device = device()
        self._network = network.to(self._device)

    @property
    def scoring_settings(self) -> dict[str, Any]:
        """Head and attention window."""
        return {"head": self.config.dualturn.head, "sliding_window": self.config.dualturn.sliding_window}

    @property
    def _native(self) -> bool:
        return self.config.dualturn.head == "native8"

    def assess(self, clips: Sequence[Clip]) -> list[Assessment | None]:
        """In batches of like length."""
        found: dict[int, Assessment | None] = {}
        for places in self._batches([clip.activity.seconds for clip in clips]):
            audio = [resampled(heard(clips[place]), SAMPLE_RATE_HZ, MODEL_RATE_HZ) for place in places]
            logits = self._network.frame_logits(audio, native=self._native)
            found |= {place: self._assess(clips[place], rows) for place, rows in zip(places, logits, strict=True)}
        return [found[place] for place in range(len(clips))]

    def _batches(self, seconds: Sequence[float]) -> Iterator[list[int]]:
        """Places in order of length; a batch holds at most `batch_seconds` of padded audio, or one dialogue."""
        limit = self.config.dualturn.batch_seconds if self._device == "cuda" else 0.0
        batch: list[int] = []
        for place in np.argsort(seconds, kind="stable").tolist():
            if batch and (len(batch) + 1) * seconds[place] > limit:
                yield batch
                batch = []
            batch.append(place)
        if batch:
            yield batch

    def _assess(self, clip: Clip, logits: np.ndarray[Any, np.dtype[np.float32]]) -> Assessment | None:
        track, seconds = cleaned_track(clip.activity), clip.activity.seconds
        if self._native:
            probabilities = 1 / (1 + np.exp(-logits))
            nll = labels.native8_nll(probabilities, labels.native8_targets(labels.native8_scorer_track(track)))
            return assessment(score_native8(nll, track, seconds, self.unit_settings))
        nll = labels.categorical_nll(logits, labels.vap_classes(track, len(logits), FRAME_HZ))
        return assessment(score_dialogue(nll, track, seconds, FRAME_HZ, self.unit_settings))

    @property
    def unit_settings(self) -> UnitSettings:
        """DualTurn's own head needs three frames in a unit, TurnNat's five."""
        plain = super().unit_settings
        fewest = NATIVE8_SETTINGS.min_frames if self._native else plain.min_frames
        return UnitSettings(min_utterance_s=plain.min_utterance_s, min_frames=fewest)
