"""`vap`: TurnNat's score from a Voice Activity Projection checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import ScorerError
from spear_ray.turntaking import labels
from spear_ray.turntaking.predictors.base import Assessment, Clip
from spear_ray.turntaking.predictors.frames import FramePredictor, assessment, cleaned_track, device, heard
from spear_ray.turntaking.scoring import score_dialogue
from spear_ray.turntaking.tracks import FRAME_SAMPLES, TRACK_RATE_HZ, Track


class VapPredictor(FramePredictor):
    """One dialogue at a time, in windows: of any length, in bounded memory, exact."""

    name = "vap"
    commands: ClassVar[Mapping[str, str]] = {
        "checkpoint": "get VAP_state_dict.pt from https://github.com/ErikEkstedt/VAP (example/checkpoints)",
    }

    def setup(self) -> None:
        """Load the network."""
        from spear_ray.networks.vap_checkpoint import load_vap

        self._network = load_vap(self.files["checkpoint"], self.config.vap.frame_hz).to(device())

    @property
    def scoring_settings(self) -> dict[str, Any]:
        """Frame rate, and whether the published script's chunks are imitated; windows change no score."""
        return {"frame_hz": self.config.vap.frame_hz, "published_chunks": self.config.vap.published_chunks}

    def assess(self, clips: Sequence[Clip]) -> list[Assessment | None]:
        """Each by itself."""
        return [self._assess(clip) for clip in clips]

    def _assess(self, clip: Clip) -> Assessment | None:
        track, rate_hz = cleaned_track(clip.activity), float(self._network.frame_hz)
        nll = self._chunked(heard(clip), track) if self.config.vap.published_chunks else self._whole(heard(clip), track)
        return assessment(score_dialogue(nll, track, clip.activity.seconds, rate_hz, self.unit_settings))

    def _whole(self, audio: Samples, track: Track) -> labels.Surprise:
        logits = self._logits(audio)
        return labels.categorical_nll(logits, labels.vap_classes(track, len(logits), float(self._network.frame_hz)))

    def _chunked(self, audio: Samples, track: Track) -> labels.Surprise:
        """Frame by frame as the published script has it: each chunk by itself, without its last two seconds."""
        if self._network.frame_hz != TRACK_RATE_HZ:
            raise ScorerError(f"vap.published_chunks needs a model of 50 Hz, this one has {self._network.frame_hz}")
        chunks = labels.published_chunks(track.shape[1])
        logits = [
            self._logits(audio[:, start * FRAME_SAMPLES : end * FRAME_SAMPLES])[: end - start - labels.HORIZON_FRAMES]
            for start, end in chunks
        ]
        said = np.concatenate(logits) if logits else np.zeros((0, labels.CLASSES), dtype=np.float32)
        return labels.categorical_nll(said, labels.published_chunk_classes(track))

    def _logits(self, audio: Samples) -> Any:
        window = round(self.config.vap.window_s * SAMPLE_RATE_HZ)
        return self._network.stream(audio, window).cpu().numpy()
