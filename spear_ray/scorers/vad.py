"""Two-channel timing from Silero's voice activity: latency, overlap, interaction events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import PrerequisiteError
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers.base import Metric, Scorer, ScorerConfig
from spear_ray.timing.events import Kind, Side, Thresholds, counts, interaction_events, speech_of
from spear_ray.timing.latency import (
    answer_speech,
    published_latency_s,
    published_overlap,
    response_latency_s,
)
from spear_ray.timing.segments import Segment, total


@dataclass(kw_only=True)
class EventSettings:
    """Thresholds of the interaction events, in seconds; see `spear_ray.timing.events.Thresholds`."""

    ipu_gap_s: float = 0.2
    backchannel_s: float = 1.0
    overlap_s: float = 0.2
    pause_s: float = 0.2
    gap_s: float = 0.0


@dataclass(kw_only=True)
class VadConfig(ScorerConfig):
    """Settings of `vad`.

    Args:
        speech: applies to our own metrics, per channel.
        events: thresholds of the interaction events.
        published_grid: round the segments behind the SPEARBench metrics to 0.1 s, as the published code does.
    """

    speech: SpeechSettings = field(default_factory=SpeechSettings)
    events: EventSettings = field(default_factory=EventSettings)
    published_grid: bool = False


PUBLISHED_SPEECH = SpeechSettings()
"""Silero's defaults, which SPEARBench uses."""


def _event_metrics() -> tuple[Metric, ...]:
    meaning = {
        Kind.TURN_INITIATION: "takes the floor while the other side is silent",
        Kind.INTERRUPTION: "starts while the other side speaks and keeps talking",
        Kind.BACKCHANNEL: "says something short inside the other side's turn",
        Kind.PAUSE: "falls silent inside its own turn",
        Kind.GAP: "takes the floor after a joint silence",
    }
    return tuple(
        Metric(
            name=f"{side}_{kind}s",
            unit="per dialogue",
            direction="human",
            about=f"How often the {side} side {meaning[kind]}.",
        )
        for side in Side
        for kind in Kind
    )


class VadScorer(Scorer[VadConfig]):
    """Silero on each channel at 16 kHz, sample-exact, by its sequence model (one ONNX call per 16 s of audio)."""

    name = "vad"
    version = "1"
    config_type = VadConfig
    metrics = (
        Metric(
            name="answered",
            unit="%",
            direction="human",
            scale=100.0,
            headline=True,
            about="Share of answers that hold any speech.",
        ),
        Metric(
            name="latency_ms",
            unit="ms",
            direction="human",
            headline=True,
            about="First speech of the answer minus end of the question's speech; negative when it comes early.",
        ),
        Metric(
            name="latency_median_ms",
            unit="ms",
            direction="human",
            key="latency_ms",
            reducer="median",
            about="The middle latency, which single late answers do not move.",
        ),
        Metric(
            name="spear_latency_ms",
            unit="ms",
            direction="human",
            column="latency_ms",
            about="SPEARBench's latency: never negative, and not absent when the answer is silent.",
        ),
        Metric(
            name="overlap_ms",
            unit="ms",
            direction="human",
            column="interrupted_time_ms",
            about="Answer speech over question speech (SPEARBench's interrupted time, zeros included).",
        ),
        Metric(
            name="interrupted",
            unit="%",
            direction="human",
            scale=100.0,
            headline=True,
            column="interruptions_%",
            about="Share of answers that talk over the question at all.",
        ),
        Metric(
            name="interruption_segments",
            unit="per dialogue",
            direction="human",
            about="Number of answer segments that talk over the question.",
        ),
        Metric(
            name="answer_speech_s",
            unit="s",
            direction="human",
            about="Speech in the answer, silences left out.",
        ),
        *_event_metrics(),
    )

    def missing(self) -> PrerequisiteError | None:
        """Silero and onnxruntime must be installed."""
        return Silero.missing()

    def setup(self) -> None:
        """Load the ONNX model that ships with silero-vad."""
        self._silero = Silero()

    @property
    def identity(self) -> dict[str, Any]:
        """Settings, and the version of the package that holds the model."""
        return {**super().identity, "silero_vad": Silero.version()}

    def speech(self, samples: Samples, settings: SpeechSettings, grid: bool = False) -> list[Segment]:
        """Speech segments of one channel in seconds; see `Silero.speech`."""
        return self._silero.speech(samples, settings, grid)

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; each is scored by itself, so a batch changes nothing."""
        return [self._measure(dialogue) for dialogue in batch]

    def _measure(self, dialogue: Dialogue) -> Score:
        if dialogue.question_end_s is None:
            return self.error(dialogue, "field_missing", "where the question ends is not known: question_end_s")
        asking, answering = (self.speech(channel, self.config.speech) for channel in dialogue.audio)
        end_s, onset_s = dialogue.question_end_s, dialogue.answer_onset_s
        answer = answer_speech(answering, end_s, onset_s)
        latency_s = response_latency_s(asking, answering, end_s, onset_s)
        events = interaction_events(asking, answering, Thresholds(**vars(self.config.events)))
        metrics: dict[str, float] = {
            "answered": float(bool(answer)),
            "answer_speech_s": total(answer),
            **counts(events),
            **self._published(dialogue),
        }
        if latency_s is not None:
            metrics["latency_ms"] = 1000 * latency_s
        details = {
            "question_segments": speech_of(asking),
            "answer_segments": speech_of(answering),
            "events": [[event.kind, event.side, event.start, event.end] for event in events],
            "audio": dict(dialogue.facts),
            "notes": _notes(dialogue, asking, answer),
        }
        return self.ok(dialogue, metrics, details)

    def _published(self, dialogue: Dialogue) -> dict[str, float]:
        """SPEARBench's own values; absent where the answer's start is not known."""
        clips = _clips(dialogue)
        if clips is None or dialogue.question_end_s is None or dialogue.answer_start_s is None:
            return {}
        question_clip, answer_clip = clips
        end_s, start_s = dialogue.question_end_s, dialogue.answer_start_s
        grid = self.config.published_grid
        question = self.speech(question_clip, PUBLISHED_SPEECH, grid)
        answer = self.speech(answer_clip, PUBLISHED_SPEECH, grid)
        early = int(max(0.0, -start_s) * SAMPLE_RATE_HZ)
        trimmed = self.speech(answer_clip[early:], PUBLISHED_SPEECH, grid) if early else answer
        overlap = published_overlap(question, answer, dialogue.context_end_s, end_s, start_s)
        return {
            "spear_latency_ms": 1000 * published_latency_s(question, trimmed, end_s, start_s),
            "overlap_ms": 1000 * overlap.seconds,
            "interrupted": float(overlap.interrupted),
            "interruption_segments": float(overlap.segments),
        }


def _clips(dialogue: Dialogue) -> tuple[Samples, Samples] | None:
    """Question clip (channel mean) and answer clip, float32 [samples], as SPEARBench sees them."""
    clip, onset_s = dialogue.clip, dialogue.answer_onset_s
    if clip is None or onset_s is None or dialogue.question_end_s is None:
        return None
    if dialogue.answer is not None:
        return clip.mean(axis=0, dtype=np.float32), dialogue.answer
    question_end = round(dialogue.question_end_s * SAMPLE_RATE_HZ)
    return clip[:, :question_end].mean(axis=0, dtype=np.float32), clip[1, round(onset_s * SAMPLE_RATE_HZ) :]


def _notes(dialogue: Dialogue, asking: Sequence[Segment], answer: Sequence[Segment]) -> list[str]:
    notes = list(dialogue.notes)
    if not asking:
        notes.append("question_silent")
    if not answer:
        notes.append("answer_silent")
    return notes
