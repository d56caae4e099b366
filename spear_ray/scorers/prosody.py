"""Pitch, level, brightness, pauses, rate and vocabulary of the answer: SPEARBench's explainable features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from spear_ray.acoustics import praat
from spear_ray.acoustics.pitch import Pitch, pitch
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.prosody.f0 import answered_speaker, f0_metrics, loudness_metrics, speaker_number
from spear_ray.prosody.lexical import lexical_metrics
from spear_ray.prosody.temporal import stretches_of, vad_metrics, word_metrics
from spear_ray.prosody.words import Transcript, Transcripts
from spear_ray.scorers._prosody_metrics import DURATION, METRICS, SPEAKER
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import answer_clip, speech_seconds
from spear_ray.timing.segments import Segment

OWN, PRAAT = "own", "praat"


@dataclass(kw_only=True)
class ProsodyConfig(ScorerConfig):
    """Settings of `prosody`.

    Args:
        f0: pitch tracker: `own`, or `praat` through parselmouth as in SPEARBench (GPL, an extra of the install).
        words: `run.uri` of a finished run with `transcript` rows, whose texts and word times count; empty: the data's
            own transcripts of answers count for lexical features, and there are no rates of words.
        min_seconds: shorter answers are not measured.
        min_speech_s: answers with less speech are not measured; 0 hears everything, as SPEARBench does.
        min_stretch_s: shorter stretches of talk have no rates and pauses. SPEARBench has 12.1, which most answers do
            not reach.
        speech: of the voice activity detector.
    """

    f0: str = OWN
    words: str = ""
    min_seconds: float = 0.3
    min_speech_s: float = 0.25
    min_stretch_s: float = 2.0
    speech: SpeechSettings = field(default_factory=SpeechSettings)

    def check(self) -> None:
        """The tracker must be known, numbers within their limits."""
        if self.f0 not in (OWN, PRAAT):
            raise ConfigError(f"scorer.prosody.f0={self.f0}: must be one of {OWN}, {PRAAT}")
        if self.min_seconds < 0 or self.min_speech_s < 0:
            raise ConfigError("scorer.prosody: min_seconds, min_speech_s: must not be negative")
        if not self.min_stretch_s > 0:
            raise ConfigError(f"scorer.prosody.min_stretch_s={self.min_stretch_s}: must be positive")


class ProsodyScorer(Scorer[ProsodyConfig]):
    """Acoustic, temporal and lexical features of the answer, by rules; no checkpoint is needed.

    Lexical features come from one source in all rows: the transcripts of the run that `words` names, else the data's
    own. Content density, which SPEARBench has, needs spaCy and is left out.

    Source: SPEARBench (arXiv 2607.05365), bin/distrib_baselines.
    """

    name = "prosody"
    version = "1"
    config_type = ProsodyConfig
    metrics = METRICS

    @cached_property
    def transcripts(self) -> Transcripts | None:
        """Those that the configuration names."""
        return Transcripts(self.config.words, "scorer.prosody.words") if self.config.words.strip() else None

    def missing(self) -> PrerequisiteError | None:
        """Silero, Praat where it is wanted, the run with the words."""
        wanted = praat.missing() if self.config.f0 == PRAAT else None
        return Silero.missing() or wanted or (self.transcripts.missing if self.transcripts else None)

    def setup(self) -> None:
        """Load Silero."""
        self._silero = Silero()

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings, the tracker with its version, and the fingerprint of the words, wherever they lie."""
        config = self.config
        keys = ("min_seconds", "min_speech_s", "min_stretch_s")
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {key: getattr(config, key) for key in keys},
            "f0": {"tracker": config.f0, "parselmouth": praat.version() if config.f0 == PRAAT else None},
            "words": self.transcripts.fingerprint if self.transcripts else None,
            "speech": asdict(config.speech),
            "silero_vad": Silero.version(),
        }

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; transcripts are read for all of them."""
        said = self.transcripts.of([dialogue.dialogue_id for dialogue in batch]) if self.transcripts else {}
        return [self._row_of(dialogue, said.get(dialogue.dialogue_id)) for dialogue in batch]

    def _row_of(self, dialogue: Dialogue, said: Transcript | None) -> Score:
        answer, config = answer_clip(dialogue), self.config
        seconds = answer.size / SAMPLE_RATE_HZ
        if seconds < config.min_seconds:
            return self.skipped(
                dialogue, "too_short", f"the answer has {seconds:.2f} s, {config.min_seconds} s are needed"
            )
        speech = self._silero.speech(answer, config.speech)
        if speech_seconds(speech) < config.min_speech_s:
            return self.skipped(dialogue, "no_speech", "the answer holds no speech")
        metrics, details = self._voice(answer, speech)
        metrics |= {DURATION: seconds, SPEAKER: speaker_number(_speaker(dialogue))}
        stretches = stretches_of(speech, config.min_stretch_s)
        words = said.words if said and said.words else ()
        metrics |= vad_metrics(speech, stretches) | word_metrics(words, stretches)
        text = said.text if said else dialogue.answer_text if self.transcripts is None else None
        metrics |= lexical_metrics(text or "")
        notes = ["no_words"] if self.transcripts and not words else []
        details |= {"stretches": [[round(start, 3), round(end, 3)] for start, end in stretches]}
        return self.ok(dialogue, metrics, details | {"notes": [*dialogue.notes, *notes]})

    def _voice(self, answer: Samples, speech: Sequence[Segment]) -> tuple[dict[str, float], dict[str, Any]]:
        track = self._track(answer)
        metrics, status = f0_metrics(track)
        details = {"f0_status": status, "frames": track.f0_hz.size, "voiced_frames": int(track.voiced.sum())}
        return metrics | loudness_metrics(answer, speech), details

    def _track(self, answer: Samples) -> Pitch:
        return praat.praat_pitch(answer) if self.config.f0 == PRAAT else pitch(answer)


def _speaker(dialogue: Dialogue) -> str:
    """Whom the answer answers, within the subset: SPEARBench normalises each subset's file by itself."""
    return f"{dialogue.subset}/{answered_speaker(dialogue.question_text)}"
