"""What a scorer is: a name, a version, its metrics, and `score(batch)`.

A scorer knows nothing of Ray, files or HTTP. A new one is one module in this package with one subclass of
`Scorer`, one file in `conf/scorer/` and one test.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar

from spear_ray.dialogue import Dialogue, Score, Status
from spear_ray.errors import PrerequisiteError, ScorerError
from spear_ray.serving.settings import Serving

Reducer = Literal[
    "mean", "median", "pearson", "flattened_slope", "mean_spearman", "total_variance", "largest_share",
    "normalised_deviation",
]  # fmt: skip
"""How rows become a system's value; see `spear_ray.leaderboard.moments` for those that are no mean of rows."""

Direction = Literal["higher", "lower", "human", "none"]
"""Which way is better: `human` means the nearer to the human system's value, `none` that neither is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A system-level value on the leaderboard and how it comes out of the rows.

    Args:
        name: as in leaderboard.csv.
        unit: `ms`, `s`, `%`, `count`, ...
        direction: which way is better.
        about: one sentence for the report.
        key: the key in `Score.metrics`; the name where empty.
        keys: several keys, for reducers that read more than one value of a row; rows that have all of them count.
        transform: `log_odds` turns `keys`, log-probabilities of 16 dialects for each side, into log-odds first.
        reducer: over the rows that have the key.
        scale: factor from the rows' unit to `unit` (100 for a share in %).
        headline: counts for the ranking and is shown first.
        column: the column of benchmark.csv that this value fills, if any.
    """

    name: str
    unit: str
    direction: Direction
    about: str
    key: str = ""
    keys: tuple[str, ...] = ()
    transform: Literal["none", "log_odds"] = "none"
    reducer: Reducer = "mean"
    scale: float = 1.0
    headline: bool = False
    column: str | None = None

    @property
    def sources(self) -> tuple[str, ...]:
        """The keys in `Score.metrics`."""
        return self.keys or (self.key or self.name,)

    @property
    def of_rows(self) -> bool:
        """Whether each row has a value of its own, which tests over rows can compare."""
        return self.reducer in ("mean", "median")


@dataclass(kw_only=True)
class Resources:
    """What one actor of a scorer needs, and how many actors there may be.

    `concurrency` is [min, max] actors; empty means: share the machine's cores.
    """

    concurrency: list[int] = field(default_factory=list)
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    memory_bytes: int | None = None


@dataclass(kw_only=True)
class ScorerConfig:
    """Base of every scorer's configuration: `resources` and `serving` say where it runs, and change no score."""

    resources: Resources = field(default_factory=Resources)
    serving: Serving = field(default_factory=Serving)

    def check(self) -> None:
        """Look at the values, once the configuration is complete. Called for every scorer, whether it runs or not.

        Raises:
            ConfigError: one cannot be used.
        """


ConfigT = TypeVar("ConfigT", bound=ScorerConfig)


class Scorer(ABC, Generic[ConfigT]):
    """Loads one model, scores batches of dialogues.

    A score must not depend on what else is in the batch.
    """

    name: ClassVar[str]
    version: ClassVar[str]
    config_type: ClassVar[type[ScorerConfig]]
    metrics: ClassVar[tuple[Metric, ...]]

    def __init__(self, config: ConfigT) -> None:
        self.config = config

    def missing(self) -> PrerequisiteError | None:
        """What this scorer lacks to run here, or None. Cheap: loads no model."""
        return None

    @property
    def partial(self) -> bool:
        """Whether something can be measured without what `missing` names.

        Its rows are then skipped with that reason, and hold what was measured.
        """
        return False

    @property
    def shares(self) -> str:
        """Scorers that name the same thing here run in one process and hold it once; empty for none."""
        return ""

    def setup(self) -> None:
        """Load the model. Heavy imports belong here."""

    @abstractmethod
    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """Score dialogues that have audio; one Score for each, in their order."""

    def score(self, batch: Sequence[Dialogue]) -> list[Score]:
        """Score a batch: one row for each dialogue, in order; unreadable dialogues become error rows."""
        readable = [dialogue for dialogue in batch if dialogue.problem is None]
        rows = self.measure(readable) if readable else []
        if len(rows) != len(readable):
            raise ScorerError(f"{self.name} returned {len(rows)} rows for {len(readable)} dialogues")
        measured = iter(rows)
        return [
            next(measured) if dialogue.problem is None else self.error(dialogue, *_problem(dialogue))
            for dialogue in batch
        ]

    @property
    def identity(self) -> Mapping[str, Any]:
        """All that a score depends on besides the audio: version, settings, checkpoint, prompt."""
        settings = asdict(self.config)
        settings.pop("resources")
        settings.pop("serving")
        return {"scorer": self.name, "version": self.version, "settings": settings}

    @cached_property
    def fingerprint(self) -> str:
        """16 hex digits of the SHA-256 of `identity`: rows with the same one are comparable."""
        text = json.dumps(self.identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of benchmark.csv that this scorer, as it is configured, fills."""
        return tuple(metric.column for metric in self.metrics if metric.column is not None)

    def ok(self, dialogue: Dialogue, metrics: Mapping[str, float], details: Mapping[str, Any] | None = None) -> Score:
        """A measured row."""
        return self._row(dialogue, Status.OK, metrics=metrics, details=details)

    def skipped(
        self,
        dialogue: Dialogue,
        code: str,
        message: str,
        metrics: Mapping[str, float] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Score:
        """A row that is left out, wholly or in part, for a declared reason; `metrics` is what was measured."""
        return self._row(dialogue, Status.SKIPPED, code=code, message=message, metrics=metrics or {}, details=details)

    def error(self, dialogue: Dialogue, code: str, message: str, details: Mapping[str, Any] | None = None) -> Score:
        """A row that could not be scored."""
        return self._row(dialogue, Status.ERROR, code=code, message=message, details=details)

    def _row(self, dialogue: Dialogue, status: Status, **rest: Any) -> Score:
        return Score(
            dialogue_id=dialogue.dialogue_id,
            conversation_id=dialogue.conversation_id,
            system=dialogue.system,
            split=dialogue.split,
            subset=dialogue.subset,
            scorer=self.name,
            version=self.version,
            fingerprint=self.fingerprint,
            status=status,
            **rest,
        )


def _problem(dialogue: Dialogue) -> tuple[str, str]:
    problem = dialogue.problem
    return (problem.code, problem.message) if problem else ("", "")
