"""What requests and replies hold: the schema of the API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from spear_ray.dialogue import Score
from spear_ray.sources.base import ROLES

Seconds = Annotated[float, Field(ge=-86_400, le=86_400, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Text = Annotated[str, Field(max_length=20_000)]
RoleName = Literal[ROLES]  # type: ignore[valid-type]


class Closed(BaseModel):
    """A field that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class ScoreRequest(Closed):
    """Who and what is scored, beside the audio.

    Times are in seconds. `question_end_s` counts from the beginning of the question's audio, `answer_start_s` from
    `question_end_s` (negative where the answer starts early), `context_end_s` is where the question's own turn begins.
    """

    id: Name = "request"
    conversation_id: Name | None = None
    system: Name = "request"
    split: Name = "request"
    subset: Name = "request"
    question_end_s: Seconds | None = Field(None, description="needed with `audio`; else the question's length")
    answer_start_s: Seconds | None = Field(None, description="needed with `question` and `answer`")
    context_end_s: Seconds = 0.0
    question_text: Text | None = None
    answer_text: Text | None = None
    roles: dict[RoleName, Text] = Field(default_factory=dict, description="who speaks, what they were told and act")
    scorers: list[Name] | None = Field(None, description="all that are served where it is absent", max_length=32)
    deadline_s: Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)] | None = None

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"id": "d1", "question_end_s": 5.2, "scorers": ["vad", "turn_taking"]},
                {"id": "d2", "question_end_s": 5.2, "answer_start_s": 0.4, "context_end_s": 1.5, "answer_text": "Yes."},
            ]
        },
    )


class BatchItem(ScoreRequest):
    """One dialogue of a batch: its files are named by their place among the request's `files`."""

    audio: int | None = Field(None, ge=0, description="place of a two-channel file")
    question: int | None = Field(None, ge=0)
    answer: int | None = Field(None, ge=0)


class BatchRequest(Closed):
    """Several dialogues."""

    items: list[BatchItem] = Field(min_length=1)


class Row(Closed):
    """One scorer's row of one dialogue: the columns of `scores/<scorer>/*.parquet`."""

    dialogue_id: str
    conversation_id: str
    system: str
    split: str
    subset: str
    scorer: str
    version: str
    fingerprint: str
    status: Literal["ok", "skipped", "error"]
    code: str | None = None
    message: str | None = None
    metrics: dict[str, float] = Field(default_factory=dict)
    details: dict[str, Any] | None = None


class ScoreReply(Closed):
    """The rows of one dialogue, in the order of the scorers."""

    request_id: str
    rows: list[Row]


class Problem(Closed):
    """A stable code and a sentence."""

    code: str
    message: str


class ErrorReply(Closed):
    """Why there are no rows."""

    error: Problem


class BatchLine(Closed):
    """One line of a batch's answer: the rows of an item, or why there are none."""

    id: str
    rows: list[Row] | None = None
    error: Problem | None = None


class MetricInfo(Closed):
    """What a number means."""

    name: str
    key: str
    unit: str
    direction: Literal["higher", "lower", "human", "none"]
    about: str


class ScorerInfo(Closed):
    """A scorer that is served, or why it is not."""

    name: str
    version: str
    fingerprint: str
    status: Literal["ok", "partial", "missing"]
    message: str = ""
    metrics: list[MetricInfo]


class ScorersReply(Closed):
    """All scorers."""

    scorers: list[ScorerInfo]


class Health(Closed):
    """Whether rows can be had."""

    status: Literal["ok"]


def row_of(score: Score) -> Row:
    """A score as it is sent."""
    return Row(
        dialogue_id=score.dialogue_id,
        conversation_id=score.conversation_id,
        system=score.system,
        split=score.split,
        subset=score.subset,
        scorer=score.scorer,
        version=score.version,
        fingerprint=score.fingerprint,
        status=str(score.status),  # type: ignore[arg-type]
        code=score.code,
        message=score.message,
        metrics=dict(score.metrics),
        details=dict(score.details) if score.details is not None else None,
    )
