"""The timing model: how surprising is each change of the floor, to one who knows a population's timing?

It hears no words and no voices. Fitted statistics ship with the package (`statistics/`, each with a card beside it).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from spear_ray.errors import ConfigError
from spear_ray.turntaking.context import GROUPS, Floats, Table, columns_of, table_of
from spear_ray.turntaking.density import StateModel
from spear_ray.turntaking.pooling import Pooled, pool
from spear_ray.turntaking.sojourns import Sojourn, State, sojourns
from spear_ray.turntaking.timeline import Timeline

FORMAT = "spear_ray timing statistics 1"
CONTEXT_S = 3.0
"""What ends earlier is not counted: nothing is known of what was before (TurnNat's rule)."""

BOUNDARIES = {
    (State.SOLO, 0): "falls_silent",
    (State.SOLO, 1): "other_joins_in",
    (State.NONE, 0): "goes_on",
    (State.NONE, 1): "other_begins",
    (State.BOTH, 0): "other_falls_silent",
    (State.BOTH, 1): "gives_up_the_floor",
}
"""What the end of a sojourn is called; the subject is the holder of the floor, unless it says `other`."""


class Surprise(NamedTuple):
    """One counted unit of a dialogue.

    Args:
        kind: what happened, as in `BOUNDARIES`; `clip_ends` where nothing did.
        holder: side that held the floor.
        start_s: where the state began.
        end_s: where it ended: the boundary.
        nll: nats.
    """

    kind: str
    holder: int
    start_s: float
    end_s: float
    nll: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is added to a dialogue's mean and tail so that natural dialogues of any length score alike.

    Args:
        seconds: lengths of dialogues, ascending, at least one.
        mean: nats to add to `mean_nll` at these lengths; linear in log seconds between them.
        tail: the same for `tail_nll`.
    """

    seconds: tuple[float, ...] = (20.0,)
    mean: tuple[float, ...] = (0.0,)
    tail: tuple[float, ...] = (0.0,)

    def apply(self, pooled: Pooled, seconds: float) -> Pooled:
        """The calibrated score of a dialogue of that length."""
        at, nodes = np.log(max(seconds, self.seconds[0])), np.log(self.seconds)
        mean_nll = pooled.mean_nll + float(np.interp(at, nodes, self.mean))
        tail_nll = pooled.tail_nll + float(np.interp(at, nodes, self.tail))
        return Pooled(mean_nll, tail_nll, (mean_nll + tail_nll) / 2, pooled.units, pooled.tail_k)


@dataclass(frozen=True, slots=True)
class TimingModel:
    """Fitted statistics of one population.

    Args:
        groups: of context columns, see `context.GROUPS`.
        states: the hazards of each `State`.
        calibration: for length.
        facts: where it comes from: data, conversations, date, measured accuracy.
    """

    groups: tuple[str, ...]
    states: tuple[StateModel, StateModel, StateModel]
    calibration: Calibration
    facts: Mapping[str, Any]

    def nll(self, table: Table) -> Floats:
        """Surprise of sojourns in nats, float64 [sojourns]."""
        surprise = np.zeros_like(table["state"])
        for state, model in zip(State, self.states, strict=True):
            rows = np.flatnonzero(table["state"] == state)
            if rows.size:
                part = {name: column[rows] for name, column in table.items()}
                surprise[rows] = model.nll(columns_of(part, self.groups), part["length_s"], part["end"])
        return surprise

    def surprises(self, timeline: Timeline) -> list[Surprise]:
        """The counted units of a dialogue, in order: those that end after its first 3 s."""
        chain = sojourns(timeline.as_units())
        if not chain:
            return []
        pairs = zip(chain, self.nll(table_of(chain)).tolist(), strict=True)
        return [_surprise(one, nll) for one, nll in pairs if one.start_s + one.length_s >= CONTEXT_S]

    def score(self, timeline: Timeline) -> Pooled | None:
        """A dialogue's calibrated score; None where nothing is counted."""
        return self.pooled(self.surprises(timeline), timeline.seconds)

    def pooled(self, units: Sequence[Surprise], seconds: float) -> Pooled | None:
        """The calibrated score from a dialogue's units."""
        if not units:
            return None
        return self.calibration.apply(pool([unit.nll for unit in units]), seconds)

    def as_json(self) -> str:
        """The statistics as text; numbers keep four decimals."""
        plain = {
            "format": FORMAT,
            "facts": dict(self.facts),
            "groups": list(self.groups),
            "calibration": {
                "seconds": list(self.calibration.seconds),
                "mean": np.round(self.calibration.mean, 4).tolist(),
                "tail": np.round(self.calibration.tail, 4).tolist(),
            },
            "theta": {
                state.name: np.round(model.theta, 4).tolist() for state, model in zip(State, self.states, strict=True)
            },
        }
        return json.dumps(plain, separators=(",", ":")) + "\n"


def _surprise(sojourn: Sojourn, nll: float) -> Surprise:
    kind = BOUNDARIES[State(sojourn.state), sojourn.end] if sojourn.end >= 0 else "clip_ends"
    return Surprise(kind, sojourn.holder, sojourn.start_s, sojourn.start_s + sojourn.length_s, nll)


def model_of(text: str, name: str) -> TimingModel:
    """Statistics from their JSON text.

    Raises:
        ConfigError: this is not a file of statistics, or of another version.
    """
    try:
        plain = json.loads(text)
        found = plain["format"]
        if found != FORMAT:
            raise ConfigError(f"{name}: format is '{found}', must be '{FORMAT}'; fit it again: jobs/fit_timing.py")
        groups = tuple(plain["groups"])
        unknown = [group for group in groups if group not in GROUPS]
        if unknown:
            raise ConfigError(f"{name}: unknown groups of columns: {', '.join(unknown)}")
        solo, none, both = (StateModel(np.array(plain["theta"][state.name], dtype=np.float64)) for state in State)
        calibration = Calibration(**{key: tuple(values) for key, values in plain["calibration"].items()})
        return TimingModel(groups, (solo, none, both), calibration, plain["facts"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{name}: not timing statistics of spear_ray ({type(error).__name__}: {error})") from error


def shipped_names() -> list[str]:
    """Populations whose statistics ship with the package."""
    folder = files("spear_ray.turntaking") / "statistics"
    return sorted(path.name.removesuffix(".json") for path in folder.iterdir() if path.name.endswith(".json"))


@cache
def load_statistics(name: str) -> str:
    """The JSON text of shipped statistics by name, or of a file (local or s3://).

    Raises:
        ConfigError: there is no such population and no such file.
    """
    if name in shipped_names():
        return (files("spear_ray.turntaking") / "statistics" / f"{name}.json").read_text(encoding="utf-8")
    from spear_ray.store import split_file

    store, path = split_file(name)
    try:
        return store.read(path).decode("utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"timing statistics '{name}': no such file; those that ship: {', '.join(shipped_names())}"
        ) from error
