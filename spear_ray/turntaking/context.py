"""Sojourns as numbers: the columns from which the timing model predicts how a state ends and when.

Lengths enter as piecewise-linear functions of their logarithm (hats between knots), so that the effect of each is
smooth and needs no bins; groups of columns can be left out to see what they are worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spear_ray.turntaking.sojourns import Sojourn, State

Floats = npt.NDArray[np.float64]

SHORTEST_S = 0.03
"""Lengths below are not told apart: three frames of 10 ms, the grain of word alignments."""

TYPICAL_GAP_S, TYPICAL_PAUSE_S, TYPICAL_UNIT_S = 0.4, 0.45, 1.2
"""Centres of the running means (medians of English telephone talk); they only shift the model's constants."""

DOUBT = 2.0
"""A running mean of n values counts n / (n + DOUBT)."""

Table = dict[str, Floats]
Group = Callable[[Table], list[Floats]]


class Knots(NamedTuple):
    """Knots in seconds of each length's hats."""

    previous_s: tuple[float, ...] = (0.05, 0.3, 0.8, 2.0, 6.0)
    turn_s: tuple[float, ...] = (0.05, 0.5, 1.5, 4.0, 12.0)
    listener_silent_s: tuple[float, ...] = (0.05, 0.3, 1.0, 3.0, 10.0)
    listener_unit_s: tuple[float, ...] = (0.1, 0.4, 1.0, 3.0)
    unit_s: tuple[float, ...] = (0.05, 0.4, 1.0, 3.0, 8.0)


KNOTS = Knots()


def table_of(chain: Sequence[Sojourn]) -> Table:
    """One array for each field of `Sojourn`."""
    columns = np.array(chain, dtype=np.float64).reshape(-1, len(Sojourn._fields)).T
    return dict(zip(Sojourn._fields, columns, strict=True))


def columns_of(table: Table, groups: Sequence[str]) -> Floats:
    """The model's columns.

    Args:
        table: sojourns as `table_of` gives them.
        groups: names from `GROUPS`; the constant comes first in any case.

    Returns:
        float64 [sojourns, columns].
    """
    constant = np.ones_like(table["state"])
    return np.stack([constant, *(column for name in groups for column in GROUPS[name](table))], axis=1)


def log_s(seconds: Floats) -> Floats:
    """Natural logarithm of a length in seconds, from `SHORTEST_S` on."""
    return np.log(np.maximum(seconds, SHORTEST_S))


def hats(values: Floats, knots: Sequence[float]) -> list[Floats]:
    """Piecewise-linear basis on sorted knots, without the first hat (the constant stands for it)."""
    return [np.interp(values, knots, np.eye(len(knots))[place]) for place in range(1, len(knots))]


def _sequence(table: Table) -> list[Floats]:
    overlap, new = table["after_overlap"], table["new_turn"]
    before = [(table["before_previous"] == state).astype(np.float64) for state in State]
    return [overlap, new, overlap * new, *before]


def _lengths(table: Table) -> list[Floats]:
    return [*_hats(table, "previous_s"), *_hats(table, "turn_s")]


def _listener(table: Table) -> list[Floats]:
    return [*_hats(table, "listener_silent_s"), *_hats(table, "listener_unit_s")]


def _unit(table: Table) -> list[Floats]:
    return _hats(table, "unit_s")


def _tempo(table: Table) -> list[Floats]:
    means = (("gap_s", "gaps", TYPICAL_GAP_S), ("pause_s", "pauses", TYPICAL_PAUSE_S))
    return [_tendency(table, *mean) for mean in means]


def _rate(table: Table) -> list[Floats]:
    return [_tendency(table, "units_s", "units", TYPICAL_UNIT_S)]


def _hats(table: Table, name: str) -> list[Floats]:
    return hats(log_s(table[name]), np.log(getattr(KNOTS, name)).tolist())


def _tendency(table: Table, mean: str, count: str, typical_s: float) -> Floats:
    """Logarithm of a running mean against the typical value, trusted by how many values it has."""
    n = table[count]
    tendency: Floats = n / (n + DOUBT) * (log_s(table[mean]) - np.log(typical_s))
    return tendency


GROUPS: dict[str, Group] = {
    "sequence": _sequence,
    "lengths": _lengths,
    "listener": _listener,
    "unit": _unit,
    "tempo": _tempo,
    "rate": _rate,
}
"""Groups of columns by name: the order of states; how long the last sojourn and the turn so far; what the listener did;
the speaker's unit; this pair's pauses and gaps so far; how long the speaker's units are (the timing that is left of
speech rate when there are no words)."""
