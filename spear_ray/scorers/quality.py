"""Estimated listening quality of the answer, with the weights that packages ship."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version as package_version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.networks.checkpoints import NONE, Wanted, missing
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers._quality_metrics import METRICS
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import answer_clip, speech_seconds

if TYPE_CHECKING:
    from spear_ray.networks.utmos import Utmos

HERE = "scorer.quality"
FETCH_UTMOS = "get utmos22_strong_step7459_v1.pt from the releases of github.com/tarepan/SpeechMOS"


@dataclass(kw_only=True)
class QualityConfig(ScorerConfig):
    """Settings of `quality`.

    Args:
        distillmos: whether DistillMOS is measured: the slower of the two, by far, on a CPU.
        dnsmos: whether DNSMOS is measured.
        dnsmos_threads: of ONNX Runtime; changes no score.
        utmos: UTMOS22's published file, which no package ships, as a path or s3://; `none` leaves it out.
        min_seconds: shorter answers are not measured.
        min_speech_s: answers with less speech are not measured; 0 measures everything.
        speech: of the voice activity detector.
    """

    distillmos: bool = True
    dnsmos: bool = True
    dnsmos_threads: int = 1
    utmos: str = NONE
    min_seconds: float = 0.3
    min_speech_s: float = 0.25
    speech: SpeechSettings = field(default_factory=SpeechSettings)

    def check(self) -> None:
        """One of the three must be wanted, numbers must be within their limits."""
        if not (self.distillmos or self.dnsmos or self.utmos != NONE):
            raise ConfigError("scorer.quality: distillmos, dnsmos and utmos are off; leave the scorer out instead")
        if self.dnsmos_threads < 1:
            raise ConfigError(f"scorer.quality.dnsmos_threads={self.dnsmos_threads}: must be at least 1")
        if self.min_seconds <= 0 or self.min_speech_s < 0:
            raise ConfigError("scorer.quality: min_seconds must be positive, min_speech_s not negative")


class QualityScorer(Scorer[QualityConfig]):
    """DistillMOS, DNSMOS and UTMOS22 of the answer: each clip gets what the packages give it alone.

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

    @cached_property
    def checkpoints(self) -> dict[str, Wanted]:
        """UTMOS22's file."""
        return {"utmos": Wanted(f"{HERE}.utmos", self.config.utmos, FETCH_UTMOS)}

    def missing(self) -> PrerequisiteError | None:
        """Silero, the packages that are wanted, and UTMOS22's file."""
        lacking = [name for name, version in self.packages.items() if not version]
        reason = f"quality needs {', '.join(lacking)}: pip install {' '.join(lacking)}"
        return Silero.missing() or (PrerequisiteError(reason) if lacking else None) or missing(self.checkpoints)

    @property
    def columns(self) -> tuple[str, ...]:
        """UTMOS, where its file is given."""
        return super().columns if self.checkpoints["utmos"].is_wanted else ()

    def setup(self) -> None:
        """Load the models that are wanted."""
        from spear_ray.networks.distillmos import DistillMos
        from spear_ray.networks.dnsmos import Dnsmos

        self._silero = Silero()
        self._distillmos = DistillMos() if self.config.distillmos else None
        self._dnsmos = Dnsmos(self.config.dnsmos_threads) if self.config.dnsmos else None
        self._utmos = self._load_utmos()

    def _load_utmos(self) -> Utmos | None:
        wanted = self.checkpoints["utmos"]
        if not wanted.is_wanted:
            return None
        from spear_ray.networks.utmos import Utmos

        if wanted.path is None:
            raise missing(self.checkpoints) or PrerequisiteError(f"{HERE}.utmos is not set")
        return Utmos(wanted.path)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings that change a score, and the packages whose weights are used."""
        config, utmos = self.config, self.checkpoints["utmos"]
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {"min_seconds": config.min_seconds, "min_speech_s": config.min_speech_s},
            "speech": asdict(config.speech),
            "silero_vad": Silero.version(),
            "packages": self.packages,
            **({"utmos": utmos.identity} if utmos.is_wanted else {}),
        }

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue."""
        answers = [answer_clip(dialogue) for dialogue in batch]
        rows = [self._unheard(dialogue, answer) for dialogue, answer in zip(batch, answers, strict=True)]
        heard = [place for place, row in enumerate(rows) if row is None]
        clips = [answers[place] for place in heard]
        networks = {"distillmos": self._distillmos, "utmos": self._utmos}
        found = {name: network.scores(clips) for name, network in networks.items() if network is not None}
        for number, place in enumerate(heard):
            own = {name: scores[number] for name, scores in found.items()}
            rows[place] = self._row_of(batch[place], answers[place], own)
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

    def _row_of(self, dialogue: Dialogue, answer: Samples, found: Mapping[str, float | OutOfGpuMemory]) -> Score:
        metrics: dict[str, float] = {}
        for name, mos in found.items():
            if isinstance(mos, OutOfGpuMemory):
                return self.error(dialogue, mos.code, f"{name}: {mos}")
            metrics[name] = mos
        notes = list(dialogue.notes)
        if self._dnsmos is not None:
            # Resampling may overshoot full scale a little, which the package refuses.
            if np.abs(answer).max() > 1.0:
                notes.append("clipped_to_full_scale")
            metrics |= {f"dnsmos_{key}": value for key, value in self._dnsmos.scores(np.clip(answer, -1, 1)).items()}
        return self.ok(dialogue, metrics, {"notes": notes})
