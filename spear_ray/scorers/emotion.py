"""Arousal, valence and dominance of question and answer, TRACE's naturalness, and vocal arousal without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from spear_ray.affect.exchange import Side, check_sequence, naturalness_inputs, vocal_metrics
from spear_ray.checkpoints.catalogue import MODEL, TOKENIZER
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.networks.checkpoints import Wanted, missing
from spear_ray.networks.settings import EncoderSettings, check_encoder
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers._emotion_metrics import DIMENSIONS, METRICS, NATURALNESS
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import answer_clip, check_sides, earlier_clips, parts, question_clip, speech_seconds

TRACE_FETCH = "get last_model.pt from the Google Drive folder that github.com/SathvikNapa/NaturalnessPrediction names"


@dataclass(kw_only=True)
class TraceSettings:
    """Settings of TRACE.

    Args:
        checkpoint: last_model.pt; `none` does without.
        text_model: MiniLM, which turns texts into vectors; `none` takes TRACE's deterministic random vectors instead,
            as its published code does for a text without a vector.
        sequence: `two_speakers` gives TRACE the question's vectors as one speaker and the answer's as the other;
            `published` is SPEARBench's sequence, in which both speakers are question and answer together.
        min_windows: windows of a side at least (SPEARBench: 1; TRACE's own inference: 10).
    """

    checkpoint: str = ""
    text_model: str = "hf://sentence-transformers/all-MiniLM-L6-v2"
    sequence: str = "two_speakers"
    min_windows: int = 1


@dataclass(kw_only=True)
class EmotionConfig(EncoderSettings, ScorerConfig):
    """Settings of `emotion`: those of its encoders, and.

    Args:
        dimensions_model: of arousal, valence and dominance: Vox-Profile's (on Whisper or WavLM), audeering's or
            3loi's; `none` does without, and without TRACE, whose vectors come from Vox-Profile's on Whisper.
        trace: TRACE's settings.
        question_side: `asking` hears the asking speaker's channel, `mixed` the mean of both, as SPEARBench does.
        long_clips: a turn longer than the model hears (15 s) is cut into the fewest equal `parts`, whose values are
            averaged, or only its `first` seconds count, as in the published code.
        min_seconds: shorter turns are not measured (SPEARBench: 1 s).
        min_speech_s: turns with less speech are not measured; 0 hears everything, as SPEARBench does.
        speech: of the voice activity detector.
    """

    dimensions_model: str = "hf://tiantiaf/whisper-large-v3-msp-podcast-emotion-dim"
    trace: TraceSettings = field(default_factory=TraceSettings)
    question_side: str = "asking"
    long_clips: str = "parts"
    min_seconds: float = 1.0
    min_speech_s: float = 0.25
    speech: SpeechSettings = field(default_factory=SpeechSettings)

    def check(self) -> None:
        """Words must be known, numbers within their limits."""
        check_sides("scorer.emotion", self.question_side, self.long_clips)
        check_encoder("scorer.emotion", self)
        check_sequence(self.trace.sequence)
        if self.min_seconds < 0 or self.min_speech_s < 0 or self.trace.min_windows < 1:
            raise ConfigError("scorer.emotion: min_seconds, min_speech_s: not negative; trace.min_windows: at least 1")


class EmotionScorer(Scorer[EmotionConfig]):
    """A published head on a speech encoder, TRACE on its vectors, and rules on pitch, level and spectrum.

    Source: SPEARBench (arXiv 2607.05365), bin/naturalness; TRACE (arXiv 2606.30543); Vox-Profile (arXiv 2505.14648);
    vocal arousal: see `spear_ray.affect.vocal_arousal`. Without checkpoints the rows are skipped and hold what the
    rules measured.
    """

    name = "emotion"
    version = "1"
    config_type = EmotionConfig
    metrics = METRICS

    @cached_property
    def checkpoints(self) -> dict[str, Wanted]:
        """The three models; without the first there is no TRACE, without TRACE no texts."""
        config, here = self.config, "scorer.emotion"
        dimensions = Wanted(
            f"{here}.dimensions_model", config.dimensions_model,
            "spear-ray checkpoints pull whisper-large-v3-msp-podcast-emotion-dim",
        )  # fmt: skip
        trace = Wanted(f"{here}.trace.checkpoint", config.trace.checkpoint, TRACE_FETCH)
        texts = Wanted(
            f"{here}.trace.text_model",
            config.trace.text_model,
            "spear-ray checkpoints pull all-MiniLM-L6-v2",
            (*MODEL, *TOKENIZER),
        )
        found = {"dimensions_model": dimensions}
        if dimensions.is_wanted and trace.is_wanted:
            found |= {"trace": trace, "text_model": texts}
        return found

    def missing(self) -> PrerequisiteError | None:
        """Silero and the checkpoints."""
        return Silero.missing() or missing(self.checkpoints)

    @property
    def partial(self) -> bool:
        """Vocal arousal needs Silero only."""
        return Silero.missing() is None

    def setup(self) -> None:
        """Load what is wanted and there."""
        from spear_ray.networks.dimensions import load_dimensions
        from spear_ray.networks.settings import placed

        self._silero = Silero()
        self._reason = missing(self.checkpoints)
        first = self.checkpoints["dimensions_model"]
        self._model: Any = placed(load_dimensions(first.path, first.fetch), self.config) if first.path else None
        self._trace: Any = None
        self._texts: Any = None
        if self._has_trace:
            self._trace, self._texts = self._load_trace()

    @property
    def _has_trace(self) -> bool:
        """Whether all that TRACE needs is here."""
        wanted = [
            self.checkpoints[key] for key in ("dimensions_model", "trace", "text_model") if key in self.checkpoints
        ]
        return "trace" in self.checkpoints and all(one.path or not one.is_wanted for one in wanted)

    def _load_trace(self) -> tuple[Any, Any]:
        from spear_ray.networks.batching import best_device
        from spear_ray.networks.sentences import Sentences
        from spear_ray.networks.trace_checkpoint import load_trace
        from spear_ray.networks.whisper_profile import WhisperProfile

        path, texts = self.checkpoints["trace"].path, self.checkpoints["text_model"].path
        trace = load_trace(str(path)).to(best_device())
        if not isinstance(self._model, WhisperProfile) or self._model.vector_width != trace.width:
            raise PrerequisiteError(
                f"{path} hears vectors of {trace.width} values from Vox-Profile's model on Whisper;"
                " scorer.emotion.dimensions_model is another one. Take that, or trace.checkpoint=none"
            )
        words = Sentences.load(texts).to(best_device()) if texts else None
        widths = {trace.context_width, trace.relation_width} - {0}
        if words is not None and widths - {words.width}:
            raise PrerequisiteError(f"{path} reads texts of {sorted(widths)} values, {texts} gives {words.width}")
        return trace, words

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings that change a score, and the checkpoints' content."""
        config = self.config
        keys = ("question_side", "long_clips", "min_seconds", "min_speech_s", "precision")
        trace = {"sequence": config.trace.sequence, "min_windows": config.trace.min_windows}
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {key: getattr(config, key) for key in keys} | {"trace": trace},
            "speech": asdict(config.speech),
            "silero_vad": Silero.version(),
            "checkpoints": {key: one.identity for key, one in self.checkpoints.items()},
        }

    @property
    def columns(self) -> tuple[str, ...]:
        """Of benchmark.csv: those whose models are here."""
        found = [f"{name}_question_answer_corr" for name in DIMENSIONS if self.checkpoints["dimensions_model"].path]
        return tuple([*found, "emotional_naturalness_logit"] if self._has_trace else found)

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; the models hear the clips of all of them in batches of like length."""
        sides = [self._sides(dialogue) for dialogue in batch]
        clips = [side for question, answer in sides for side in (question, answer) if side.code is None]
        found = self._dimensions([side.samples for side in clips])
        heard = dict(zip(map(id, clips), found, strict=True))
        logits = self._naturalness(batch, sides)
        return [
            self._row_of(dialogue, question, answer, heard, logit)
            for dialogue, (question, answer), logit in zip(batch, sides, logits, strict=True)
        ]

    def _sides(self, dialogue: Dialogue) -> tuple[Side, Side]:
        question: Any = self.config.question_side
        asked, answered = earlier_clips(dialogue)
        return (
            self._side(question_clip(dialogue, question, with_context=False), asked),
            self._side(answer_clip(dialogue), answered),
        )

    def _side(self, samples: Samples, earlier: Samples | None) -> Side:
        seconds = samples.size / SAMPLE_RATE_HZ
        if seconds < self.config.min_seconds:
            return Side(
                samples, [], None, [], "too_short", f"has {seconds:.2f} s, {self.config.min_seconds} s are needed"
            )
        speech = self._silero.speech(samples, self.config.speech)
        if speech_seconds(speech) < self.config.min_speech_s:
            return Side(samples, speech, None, [], "no_speech", "holds no speech")
        before = [] if earlier is None else self._silero.speech(earlier, self.config.speech)
        return Side(samples, speech, earlier, before)

    def _dimensions(self, clips: Sequence[Samples]) -> list[dict[str, float] | OutOfGpuMemory]:
        """Arousal, valence and dominance of each clip, averaged over its parts; empty without a model."""
        if self._model is None:
            return [{} for _ in clips]
        mode: Any = self.config.long_clips
        # Vox-Profile hears 15 s; the other models were trained on turns of like length, and attention is square.
        cut = [parts(clip, self._model.longest_s or LONGEST_S, mode) for clip in clips]
        outputs = iter(self._model.read([part for own in cut for part in own]))
        return [_averaged([next(outputs) for _ in own]) for own in cut]

    def _naturalness(
        self, batch: Sequence[Dialogue], sides: Sequence[tuple[Side, Side]]
    ) -> list[float | OutOfGpuMemory | None]:
        """TRACE's logit for each dialogue with both sides; None for the others."""
        found: list[float | OutOfGpuMemory | None] = [None] * len(batch)
        if self._trace is None or self._model is None:
            return found
        ready = [place for place, pair in enumerate(sides) if all(side.code is None for side in pair)]
        inputs = naturalness_inputs(
            [batch[place] for place in ready], [sides[place] for place in ready], self._model, self._trace, self._texts,
            self.config.trace.sequence, self.config.trace.min_windows,
        )  # fmt: skip
        for place, one in zip(ready, inputs, strict=True):
            if one is None or isinstance(one, OutOfGpuMemory):
                found[place] = one
            else:
                # One at a time: sequences are short, and a logit never depends on its neighbours.
                found[place] = float(self._trace.logits([one.sequence], one.context, one.relation)[0])
        return found

    def _row_of(self, dialogue: Dialogue, question: Side, answer: Side, heard: Mapping[int, Any], logit: Any) -> Score:
        if answer.code is not None:
            return self.skipped(dialogue, answer.code, f"the answer {answer.message}")
        found = {"question": heard.get(id(question), {}), "answer": heard[id(answer)]}
        for one in (*found.values(), logit):
            if isinstance(one, OutOfGpuMemory):
                return self.error(dialogue, one.code, str(one))
        metrics = {f"{side}_{name}": value for side, values in found.items() for name, value in values.items()}
        if logit is not None:
            metrics |= {NATURALNESS: logit, "naturalness_probability": float(1 / (1 + np.exp(-logit)))}
        metrics |= vocal_metrics(question, answer)
        notes = [*dialogue.notes, *([f"question_{question.code}"] if question.code else [])]
        details = {"seconds": {"question": question.seconds, "answer": answer.seconds}, "notes": notes}
        if self._reason is not None:
            return self.skipped(dialogue, self._reason.code, str(self._reason), metrics, details)
        return self.ok(dialogue, metrics, details)


LONGEST_S = 15.0
"""Of a part, for models that would hear any length."""


def _averaged(outputs: Sequence[Any]) -> dict[str, float] | OutOfGpuMemory:
    failed = [one for one in outputs if isinstance(one, OutOfGpuMemory)]
    if failed:
        return failed[0]
    return {name: float(np.mean([float(one[name][0]) for one in outputs])) for name in DIMENSIONS}
