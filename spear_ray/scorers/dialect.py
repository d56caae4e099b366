"""Language of the answer, and the English dialects of question and answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from spear_ray.checkpoints.catalogue import WHISPER
from spear_ray.dialects import labels
from spear_ray.dialects.languages import is_english, stored_code
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.networks.checkpoints import Wanted, missing
from spear_ray.networks.settings import EncoderSettings, check_encoder
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers._dialect_metrics import METRICS
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import answer_clip, check_sides, parts, question_clip, speech_seconds


@dataclass(kw_only=True)
class DialectConfig(EncoderSettings, ScorerConfig):
    """Settings of `dialect`: those of its encoders, and.

    Args:
        language_model: MMS-LID or another classifier of languages, or a multilingual Whisper; `none` takes every answer
            for English.
        dialect_model: VoxLect, or another Vox-Profile model of the sixteen English dialects; `none` stops after
            the language.
        question_side: `asking` hears the asking speaker's channel up to the question's end, `mixed` the mean of both
            channels, as SPEARBench does.
        long_clips: a clip longer than a model hears (15 s; languages 30 s) is cut into the fewest equal `parts` whose
            probabilities are averaged, or only its `first` seconds count, as in the published code.
        min_seconds: shorter clips get no label (SPEARBench: 1 s).
        min_confidence: a language less probable than this is no label (SPEARBench: 0.5).
        min_speech_s: clips with less speech get no label; 0 hears everything, as SPEARBench does.
        speech: of the voice activity detector.
    """

    language_model: str = "hf://facebook/mms-lid-126"
    dialect_model: str = "hf://tiantiaf/voxlect-english-dialect-whisper-large-v3"
    question_side: str = "asking"
    long_clips: str = "parts"
    min_seconds: float = 1.0
    min_confidence: float = 0.5
    min_speech_s: float = 0.25
    speech: SpeechSettings = field(default_factory=SpeechSettings)

    def check(self) -> None:
        """Words must be known, numbers within their limits."""
        check_sides("scorer.dialect", self.question_side, self.long_clips)
        check_encoder("scorer.dialect", self)
        if not 0 <= self.min_confidence <= 1:
            raise ConfigError(f"scorer.dialect.min_confidence={self.min_confidence}: must be in [0, 1]")
        if self.min_seconds < 0 or self.min_speech_s < 0:
            raise ConfigError("scorer.dialect: min_seconds and min_speech_s must not be negative")


class DialectScorer(Scorer[DialectConfig]):
    """MMS-LID on the answer, then VoxLect on both sides where the answer is English.

    Source: SPEARBench (arXiv 2607.05365), bin/language_id.py, bin/dialect_id.py, reports/benchmark_line.py; VoxLect
    (arXiv 2508.01691). Log-probabilities are natural logs of the softmax, for a clip in parts of the mean probability.
    """

    name = "dialect"
    version = "1"
    config_type = DialectConfig
    metrics = METRICS

    @cached_property
    def checkpoints(self) -> dict[str, Wanted]:
        """The two models."""
        return {
            "language_model": Wanted(
                "scorer.dialect.language_model",
                self.config.language_model,
                "spear-ray checkpoints pull mms-lid-126",
                WHISPER,
            ),
            "dialect_model": Wanted(
                "scorer.dialect.dialect_model",
                self.config.dialect_model,
                "spear-ray checkpoints pull voxlect-english-dialect-whisper-large-v3",
            ),
        }

    def missing(self) -> PrerequisiteError | None:
        """Silero and the checkpoints."""
        return Silero.missing() or missing(self.checkpoints)

    def setup(self) -> None:
        """Load the models that are wanted."""
        from spear_ray.networks.language import load_language
        from spear_ray.networks.profile_checkpoint import load_profile
        from spear_ray.networks.settings import placed

        self._silero = Silero()
        language, dialect = self.checkpoints["language_model"], self.checkpoints["dialect_model"]
        self._language = placed(load_language(language.path, language.fetch), self.config) if language.path else None
        self._dialect = placed(load_profile(dialect.path, dialect.fetch), self.config) if dialect.path else None
        if self._dialect is not None:
            check_classes(self._dialect.head.sizes.get("out_layer", 0), str(dialect.path))

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings that change a score, and the checkpoints' content."""
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {
                key: getattr(self.config, key)
                for key in (
                    "question_side", "long_clips", "min_seconds", "min_confidence", "min_speech_s", "precision",
                )
            },
            "speech": vars(self.config.speech),
            "silero_vad": Silero.version(),
            "checkpoints": {key: one.identity for key, one in self.checkpoints.items()},
        }  # fmt: skip

    @property
    def columns(self) -> tuple[str, ...]:
        """Of benchmark.csv, without those of a model that is not wanted."""
        language = ("english_answers_%",) if self.checkpoints["language_model"].is_wanted else ()
        others = tuple(column for column in super().columns if column != "english_answers_%")
        return language + (others if self.checkpoints["dialect_model"].is_wanted else ())

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; each model hears all of its clips in batches of like length."""
        answers = [answer_clip(dialogue) for dialogue in batch]
        rows: list[Score | None] = [
            self._unheard(dialogue, answer) for dialogue, answer in zip(batch, answers, strict=True)
        ]
        heard = [place for place, row in enumerate(rows) if row is None]
        languages = dict(zip(heard, self._languages([answers[place] for place in heard]), strict=True))
        english = [place for place in heard if _is_english(languages[place])]
        questions = [question_clip(batch[place], self._side, with_context=True) for place in english]
        pairs = dict(zip(english, self._pairs(questions, [answers[place] for place in english]), strict=True))
        for place in heard:
            rows[place] = self._row_of(batch[place], languages[place], pairs.get(place))
        return [row for row in rows if row is not None]

    @property
    def _side(self) -> Any:
        return self.config.question_side

    def _unheard(self, dialogue: Dialogue, answer: Samples) -> Score | None:
        """A skipped row where the answer is too short or holds no speech."""
        seconds = answer.size / SAMPLE_RATE_HZ
        if seconds < self.config.min_seconds:
            return self.skipped(dialogue, "too_short", f"the answer has {seconds:.2f} s, a label needs"
                                f" {self.config.min_seconds} s (scorer.dialect.min_seconds)")  # fmt: skip
        if not self._speaks(answer):
            return self.skipped(dialogue, "no_speech", "no speech was found in the answer")
        return None

    def _speaks(self, samples: Samples) -> bool:
        least = self.config.min_speech_s
        return least == 0 or speech_seconds(self._silero.speech(samples, self.config.speech)) >= least

    def _languages(self, clips: Sequence[Samples]) -> list[dict[str, Any] | OutOfGpuMemory]:
        """Label, probability and whether it is English, for each clip."""
        if self._language is None:
            return [{"english": True} for _ in clips]
        found = self._averaged(self._language, clips, lambda outputs: outputs["probabilities"])
        return [one if isinstance(one, OutOfGpuMemory) else self._language_of(one.mean(axis=0)) for one in found]

    def _language_of(self, probabilities: np.ndarray) -> dict[str, Any]:
        best = int(probabilities.argmax())
        label = self._language.labels[best] if self._language else ""
        likely = float(probabilities[best])
        known = likely >= self.config.min_confidence
        return {"language": stored_code(label), "probability": likely, "english": known and is_english(label)}

    def _pairs(self, questions: Sequence[Samples], answers: Sequence[Samples]) -> list[dict[str, Any]]:
        """Log-probabilities [16] of each side by name; a side that has none is absent."""
        if self._dialect is None:
            return [{} for _ in answers]
        spoken = [clip.size >= self.config.min_seconds * SAMPLE_RATE_HZ and self._speaks(clip) for clip in questions]
        asked = [clip for clip, speaks in zip(questions, spoken, strict=True) if speaks]
        found = self._averaged(self._dialect, [*asked, *answers], lambda outputs: outputs["logits"])
        logs = iter([one if isinstance(one, OutOfGpuMemory) else labels.mean_log_probability(one) for one in found])
        first = [next(logs) if speaks else None for speaks in spoken]
        return [
            {side: log for side, log in (("question", question), ("answer", next(logs))) if log is not None}
            for question in first
        ]

    def _averaged(self, model: Any, clips: Sequence[Samples], pick: Any) -> list[Any]:
        """[parts, size] of each clip, or the error of one that does not fit the GPU."""
        cut = [parts(clip, model.longest_s, self.config.long_clips) for clip in clips]  # type: ignore[arg-type]
        outputs = iter(model.read([part for own in cut for part in own]))
        return [_stacked([next(outputs) for _ in own], pick) for own in cut]

    def _row_of(self, dialogue: Dialogue, language: Any, pair: Mapping[str, Any] | None) -> Score:
        for one in (language, *(pair or {}).values()):
            if isinstance(one, OutOfGpuMemory):
                return self.error(dialogue, one.code, str(one))
        metrics: dict[str, float] = {}
        details = {"language": language.get("language"), "notes": list(dialogue.notes)}
        if "probability" in language:
            metrics["language_probability"] = language["probability"]
            if language["probability"] < self.config.min_confidence:
                text = f"the likeliest language, {language['language']}, has p = {language['probability']:.2f}"
                return self.skipped(dialogue, "low_confidence", text, metrics, details)
            metrics["english"] = float(language["english"])
        return self.ok(dialogue, metrics | labels.metrics_of(pair or {}), details | labels.details_of(pair or {}))


def check_classes(found: int, source: str) -> None:
    """Raises PrerequisiteError where a model has other classes than the sixteen dialects."""
    if found != len(labels.DIALECTS):
        raise PrerequisiteError(
            f"{source} tells {found} classes apart, not the {len(labels.DIALECTS)} English dialects"
        )


def _stacked(outputs: Sequence[Any], pick: Any) -> Any:
    failed = [one for one in outputs if isinstance(one, OutOfGpuMemory)]
    return failed[0] if failed else np.stack([pick(one) for one in outputs])


def _is_english(language: dict[str, Any] | OutOfGpuMemory) -> bool:
    return not isinstance(language, OutOfGpuMemory) and bool(language["english"])
