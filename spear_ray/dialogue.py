"""The types that cross rooms: a Dialogue goes into a scorer, a Score comes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spear_ray.errors import SpearError

SAMPLE_RATE_HZ = 16_000
"""The rate of all audio inside spear_ray."""

HUMAN = "human"
"""The system whose answers are those of the recorded conversation: the people who speak before it, too."""

Samples = npt.NDArray[np.float32]
AnswerChannels = Literal["own", "both"]


class Status(StrEnum):
    """What became of one dialogue in one scorer."""

    OK = "ok"
    SKIPPED = "skipped"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a dialogue could not be read: a stable code and a sentence."""

    code: str
    message: str

    @classmethod
    def of(cls, error: SpearError) -> Problem:
        """Keep an error's code and text."""
        return cls(error.code, str(error))


@dataclass(frozen=True, kw_only=True, eq=False)
class Dialogue:
    """One item to score.

    Args:
        dialogue_id: unique in the run.
        conversation_id: items cut from one conversation share it; intervals resample it.
        system: who answers; the human reference is called `human`.
        split: for instance `test`.
        subset: for instance `improvised`.
        clip: float32 [2, samples] at 16 kHz: channel 0 the side that asks, channel 1 the side that answers.
            The clip that was played to the system, or a whole recording.
        answer: float32 [samples] at 16 kHz, where the answer is a file of its own; else None.
        question_end_s: where the question ends, from the beginning of `clip`.
        context_end_s: where the question's own turn begins (what lies before is context).
        answer_start_s: where the answer starts, relative to `question_end_s`; negative when it starts early;
            None where it is not known (a plain recording).
        answer_channels: `own` puts the answer on the answering side's channel, `both` is SPEARBench's mix.
        question_text: transcript of the clip.
        answer_text: transcript of the answer.
        roles: what is known of the speakers: speakers, relationship, prompts.
        facts: what was measured on the audio files as they came (source rate, peak, ...), per file.
        notes: codes of things worth knowing that do not hinder scoring.
        problem: set when the dialogue could not be read; then `clip` is None.
    """

    dialogue_id: str
    conversation_id: str
    system: str
    split: str
    subset: str
    clip: Samples | None = None
    answer: Samples | None = None
    question_end_s: float | None = None
    context_end_s: float = 0.0
    answer_start_s: float | None = None
    answer_channels: AnswerChannels = "own"
    question_text: str | None = None
    answer_text: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: Problem | None = None

    @property
    def answer_onset_s(self) -> float | None:
        """Where the answer starts on the time line, in seconds from its beginning."""
        if self.question_end_s is None or self.answer_start_s is None:
            return None
        return self.question_end_s + self.answer_start_s

    @cached_property
    def audio(self) -> Samples:
        """The two channels on one time line, float32 [2, samples] at 16 kHz.

        With `answer_channels="own"` channel 1 holds, from the answer's onset on, the answer and nothing else.
        """
        from spear_ray.audio import lay_on_time_line, published_mix

        if self.clip is None:
            raise ValueError(f"dialogue {self.dialogue_id} has no audio: {self.problem}")
        if self.answer is None:
            return self.clip
        onset_s = self.answer_onset_s
        if onset_s is None or self.answer_start_s is None:
            raise ValueError(f"dialogue {self.dialogue_id} has an answer file but no answer start")
        if self.answer_channels == "both":
            return published_mix(self.clip, self.answer, self.answer_start_s, SAMPLE_RATE_HZ)
        return lay_on_time_line(self.clip, self.answer, onset_s)

    @property
    def seconds(self) -> float:
        """Length of the time line in seconds; 0 where there is no audio."""
        if self.clip is None:
            return 0.0
        end = int(self.clip.shape[1])
        if self.answer is not None and self.answer_onset_s is not None:
            end = max(end, round(self.answer_onset_s * SAMPLE_RATE_HZ) + self.answer.size)
        return end / SAMPLE_RATE_HZ


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One row: what one scorer says of one dialogue.

    `metrics` holds only what was measured; a value that does not exist is absent, never 0 and never NaN.
    """

    dialogue_id: str
    conversation_id: str
    system: str
    split: str
    subset: str
    scorer: str
    version: str
    fingerprint: str
    status: Status
    code: str | None = None
    message: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    details: Mapping[str, Any] | None = None
