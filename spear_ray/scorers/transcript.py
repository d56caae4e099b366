"""What an answer says, heard by a speech recogniser, and how far that is from the text that was meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Protocol

from spear_ray.checkpoints.catalogue import RECOGNISER, pull_command
from spear_ray.checkpoints.hub import SCHEME
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Problem, Samples, Score
from spear_ray.errors import CheckpointMissing, ConfigError, PrerequisiteError
from spear_ray.networks.checkpoints import Wanted, missing
from spear_ray.networks.settings import EncoderSettings, check_encoder
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.remote import check_server, missing_key
from spear_ray.scorers._transcript_metrics import METRICS
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import answer_clip, speech_seconds
from spear_ray.timing.segments import Segment
from spear_ray.transcripts.endpoint import Endpoint, EndpointSettings
from spear_ray.transcripts.errors_of import Comparison
from spear_ray.transcripts.words import Heard, cut_out, joined, pieces, within_speech

HERE = "scorer.transcript"
ENGINES = ("transformers", "endpoint")
LANGUAGES = ("en", "any")
TOKENIZER = "tokenizer.json"
LONGEST_S = 30.0
"""Of a request to an endpoint."""

CUT_NOTE = "asr_cut"
"""The recogniser did not come to an end by itself: it may have repeated itself."""


class Recogniser(Protocol):
    """What hears."""

    def transcribe(self, clips: Sequence[Samples]) -> list[Heard | Problem]:
        """What is said in each clip, or why that cannot be told."""


@dataclass(kw_only=True)
class TranscriptConfig(EncoderSettings, ScorerConfig):
    """Settings of `transcript`: those of its encoder, and.

    Args:
        engine: `transformers` runs `model` here, `endpoint` asks an OpenAI-compatible server.
        model: Whisper of any size, or Qwen3-ASR in transformers' layout (a repository ending in -hf).
        endpoint: the server's settings.
        language: `en` leaves out answers that are heard in another language, `any` measures all of them.
        min_confidence: Whisper's language counts only where it is as probable as this; else the answer is written as
            English.
        min_seconds: shorter answers are not heard.
        min_speech_s: answers with less speech are not heard; 0 hears everything, as SPEARBench does.
        speech: of the voice activity detector.
        batch_clips: pieces of up to 30 s in one batch on a GPU: Whisper's encoder fills all to 30 s.
    """

    engine: str = "transformers"
    model: str = "hf://openai/whisper-large-v3"
    endpoint: EndpointSettings = field(default_factory=EndpointSettings)
    language: str = "en"
    min_confidence: float = 0.5
    min_seconds: float = 0.3
    min_speech_s: float = 0.25
    speech: SpeechSettings = field(default_factory=SpeechSettings)
    batch_clips: int = 16

    def check(self) -> None:
        """Words must be known, numbers within their limits."""
        for key, value, allowed in (("engine", self.engine, ENGINES), ("language", self.language, LANGUAGES)):
            if value not in allowed:
                raise ConfigError(f"{HERE}.{key}={value}: must be one of {', '.join(allowed)}")
        check_encoder(HERE, self)
        if not 0 <= self.min_confidence <= 1:
            raise ConfigError(f"{HERE}.min_confidence={self.min_confidence}: must be in [0, 1]")
        if self.min_seconds < 0 or self.min_speech_s < 0:
            raise ConfigError(f"{HERE}: min_seconds and min_speech_s must not be negative")
        if self.engine == "endpoint":
            check_server(f"{HERE}.endpoint", self.endpoint)


class TranscriptScorer(Scorer[TranscriptConfig]):
    """One recogniser on the answer; its text against `answer_text`, its word times for the scorer `prosody`.

    SPEARBench's table pools the rows of two recognisers (Whisper large-v3 and Qwen3-ASR 0.6B); a run here has one, and
    two runs can be compared.

    Details: `text`; `words`, each [word, start in s, end in s] from the answer's beginning, or null; `language`, `en`
    or the recogniser's own name of another, or null; `notes`.

    Source: SPEARBench (arXiv 2607.05365), bin/base_metrics.py; Whisper (arXiv 2212.04356); Qwen3-ASR (arXiv
    2601.21337).
    """

    name = "transcript"
    version = "1"
    config_type = TranscriptConfig
    metrics = METRICS

    @property
    def _is_local(self) -> bool:
        return self.config.engine == "transformers"

    @cached_property
    def checkpoints(self) -> dict[str, Wanted]:
        """The recogniser, where it runs here."""
        fetch = "spear-ray checkpoints pull whisper-large-v3"
        return {"model": Wanted(f"{HERE}.model", self.config.model, fetch, RECOGNISER)} if self._is_local else {}

    def missing(self) -> PrerequisiteError | None:
        """Silero, jiwer, and the checkpoint or the server's key."""
        if (lacks := Silero.missing() or Comparison.missing()) is not None:
            return lacks
        if not self._is_local:
            return missing_key(f"{HERE}.endpoint", self.config.endpoint)
        if not self.checkpoints["model"].is_wanted:
            return PrerequisiteError(f"{HERE}.model=none: without a recogniser there is nothing to score")
        return missing(self.checkpoints) or self._without_tokens()

    def _without_tokens(self) -> PrerequisiteError | None:
        """A Whisper that was fetched as a language identifier only lacks the file that turns tokens into text."""
        wanted = self.checkpoints["model"]
        if wanted.path is None or (wanted.path / TOKENIZER).is_file():
            return None
        remedy = pull_command(wanted.uri) if wanted.uri.startswith(SCHEME) else "it comes with every recogniser"
        return CheckpointMissing(f"{wanted.path / TOKENIZER} does not exist: {remedy}")

    def setup(self) -> None:
        """Load the recogniser, or get ready to ask for it."""
        self._silero = Silero()
        self._recogniser: Recogniser
        self._longest_s = LONGEST_S
        spellings: dict[str, str] = {}
        if self._is_local:
            spellings = self._load()
        else:
            self._recogniser = Endpoint(self.config.endpoint)
        self._comparison = Comparison(spellings)

    def _load(self) -> dict[str, str]:
        """The local recogniser; returns the spellings that come with it."""
        from spear_ray.networks.asr import load_recogniser
        from spear_ray.networks.recogniser import read_spellings
        from spear_ray.networks.settings import placed

        wanted = self.checkpoints["model"]
        if wanted.path is None:
            raise missing(self.checkpoints) or PrerequisiteError(f"{HERE}.model is not set")
        model = placed(load_recogniser(wanted.path, wanted.fetch), self.config)
        model.min_confidence = self.config.min_confidence
        self._recogniser, self._longest_s = model, model.longest_s
        return read_spellings(wanted.path, wanted.fetch)

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings that change a score, and the checkpoint's content or the server's names; never a key."""
        config = self.config
        keys = ("engine", "language", "min_seconds", "min_speech_s")
        own = ("min_confidence", "precision") if self._is_local else ()
        asked = {key: getattr(config.endpoint, key) for key in ("base_url", "model", "words")}
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {key: getattr(config, key) for key in (*keys, *own)},
            "speech": asdict(config.speech),
            "silero_vad": Silero.version(),
            "jiwer": Comparison.version(),
            "checkpoints": {key: one.identity for key, one in self.checkpoints.items()},
            "endpoint": None if self._is_local else asked,
        }

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; the recogniser hears the pieces of all answers in batches of like length."""
        answers = [answer_clip(dialogue) for dialogue in batch]
        speech = [self._silero.speech(answer, self.config.speech) for answer in answers]
        rows = [self._unheard(*each) for each in zip(batch, answers, speech, strict=True)]
        places = [
            pieces(answer, spoken, self._longest_s) if row is None else []
            for answer, spoken, row in zip(answers, speech, rows, strict=True)
        ]
        clips = [cut_out(answer, piece) for answer, own in zip(answers, places, strict=True) for piece in own]
        heard = iter(self._recogniser.transcribe(clips))
        return [
            row or self._row_of(dialogue, own, [next(heard) for _ in own], spoken)
            for dialogue, own, spoken, row in zip(batch, places, speech, rows, strict=True)
        ]

    def _unheard(self, dialogue: Dialogue, answer: Samples, speech: Sequence[Segment]) -> Score | None:
        """A skipped row where the answer is too short or holds no speech."""
        seconds, least = answer.size / SAMPLE_RATE_HZ, self.config.min_seconds
        if not answer.size or seconds < least:
            text = f"the answer has {seconds:.2f} s, {least} s are needed ({HERE}.min_seconds)"
            return self.skipped(dialogue, "too_short", text)
        if speech_seconds(speech) < self.config.min_speech_s:
            return self.skipped(dialogue, "no_speech", "no speech was found in the answer")
        return None

    def _row_of(
        self, dialogue: Dialogue, places: Sequence[Segment], found: Sequence[Heard | Problem], speech: Sequence[Segment]
    ) -> Score:
        failed = next((one for one in found if isinstance(one, Problem)), None)
        if failed is not None:
            return self.error(dialogue, failed.code, failed.message)
        heard = joined(places, [one for one in found if isinstance(one, Heard)])
        words = None if heard.words is None else [list(word) for word in within_speech(heard.words, speech)]
        notes = [*dialogue.notes, *([CUT_NOTE] if heard.cut else [])]
        details = {"text": heard.text, "words": words, "language": heard.language, "notes": notes}
        if not heard.text:
            return self.skipped(dialogue, "asr_empty", "the recogniser heard no words", details=details)
        if self.config.language == "en" and heard.language not in ("en", None):
            text = f"the answer is heard as '{heard.language}' ({HERE}.language=any measures it all the same)"
            return self.skipped(dialogue, "not_english", text, details=details)
        rates = self._comparison.rates(dialogue.answer_text, heard.text)
        metrics = {**rates.metrics, "words": float(len(heard.text.split()))}
        return self.ok(dialogue, metrics, details | {"notes": [*notes, *rates.notes]})
