"""Estimated listening quality of the answer, with the weights that packages ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version as package_version
from importlib.util import find_spec
from typing import Any

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers._quality_metrics import METRICS
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import answer_clip, speech_seconds


@dataclass(kw_only=True)
class QualityConfig(ScorerConfig):
    """Settings of `quality`.

    Args:
        distillmos: whether DistillMOS is measured: the slower of the two, by far, on a CPU.
        dnsmos: whether DNSMOS is measured.
        dnsmos_threads: of ONNX Runtime; changes no score.
        min_seconds: shorter answers are not measured.
        min_speech_s: answers with less speech are not measured; 0 measures everything.
        speech: of the voice activity detector.
    """

    distillmos: bool = True
    dnsmos: bool = True
    dnsmos_threads: int = 1
    min_seconds: float = 0.3
    min_speech_s: float = 0.25
    speech: SpeechSettings = field(default_factory=SpeechSettings)

    def check(self) -> None:
        """One of both must be wanted, numbers must be within their limits."""
        if not (self.distillmos or self.dnsmos):
            raise ConfigError("scorer.quality: distillmos and dnsmos are both false; leave the scorer out instead")
        if self.dnsmos_threads < 1:
            raise ConfigError(f"scorer.quality.dnsmos_threads={self.dnsmos_threads}: must be at least 1")
        if self.min_seconds <= 0 or self.min_speech_s < 0:
            raise ConfigError("scorer.quality: min_seconds must be positive, min_speech_s not negative")


class QualityScorer(Scorer[QualityConfig]):
    """DistillMOS and DNSMOS of the answer: each clip gets what the packages give it alone.

    What they are not: measures of naturalness. They were trained on ratings of processed speech; recorded people score
    lower than clean synthetic voices (UTMOS 2.2 against 3.7 to 4.4 in SPEARBench's table).
    """

    name = "quality"
    version = "1"
    config_type = QualityConfig
    metrics = METRICS

    @property
    def packages(self) -> dict[str, str]:
        """What must be installed, and the versions of what is: the weights are the packages' own."""
        config = self.config
        wanted = [*(["distillmos"] if config.distillmos else []), *(["speechmos", "librosa"] if config.dnsmos else [])]
        return {name: package_version(name) if find_spec(name) else "" for name in wanted}

    def missing(self) -> PrerequisiteError | None:
        """Silero and the packages that are wanted."""
        lacking = [name for name, version in self.packages.items() if not version]
        reason = f"quality needs {', '.join(lacking)}: pip install {' '.join(lacking)}"
        return Silero.missing() or (PrerequisiteError(reason) if lacking else None)

    def setup(self) -> None:
        """Load the models that are wanted."""
        from spear_ray.networks.distillmos import DistillMos
        from spear_ray.networks.dnsmos import Dnsmos

        self._silero = Silero()
        self._distillmos = DistillMos() if self.config.distillmos else None
        self._dnsmos = Dnsmos(self.config.dnsmos_threads) if self.config.dnsmos else None

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings that change a score, and the packages whose weights are used."""
        config = self.config
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {"min_seconds": config.min_seconds, "min_speech_s": config.min_speech_s},
            "speech": asdict(config.speech),
            "silero_vad": Silero.version(),
            "packages": self.packages,
        }

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue."""
        answers = [answer_clip(dialogue) for dialogue in batch]
        rows = [self._unheard(dialogue, answer) for dialogue, answer in zip(batch, answers, strict=True)]
        heard = [place for place, row in enumerate(rows) if row is None]
        found: Sequence[float | OutOfGpuMemory | None] = [None] * len(heard)
        if self._distillmos is not None:
            found = self._distillmos.scores([answers[place] for place in heard])
        for place, mos in zip(heard, found, strict=True):
            rows[place] = self._row_of(batch[place], answers[place], mos)
        return [row for row in rows if row is not None]

    def _unheard(self, dialogue: Dialogue, answer: Samples) -> Score | None:
        """A skipped row where there is nothing to rate."""
        seconds = answer.size / SAMPLE_RATE_HZ
        if seconds < self.config.min_seconds:
            text = (
                f"the answer has {seconds:.2f} s, {self.config.min_seconds} s are needed (scorer.quality.min_seconds)"
            )
            return self.skipped(dialogue, "too_short", text)
        least = self.config.min_speech_s
        if least and speech_seconds(self._silero.speech(answer, self.config.speech)) < least:
            return self.skipped(dialogue, "no_speech", "the answer holds no speech: silence has no quality")
        return None

    def _row_of(self, dialogue: Dialogue, answer: Samples, mos: float | OutOfGpuMemory | None) -> Score:
        if isinstance(mos, OutOfGpuMemory):
            return self.error(dialogue, mos.code, str(mos))
        metrics = {} if mos is None else {"distillmos": mos}
        notes = list(dialogue.notes)
        if self._dnsmos is not None:
            # Resampling may overshoot full scale a little, which the package refuses.
            if np.abs(answer).max() > 1.0:
                notes.append("clipped_to_full_scale")
            metrics |= {f"dnsmos_{key}": value for key, value in self._dnsmos.scores(np.clip(answer, -1, 1)).items()}
        return self.ok(dialogue, metrics, {"notes": notes})
