"""How likely is it that a state lasts this long and ends this way? Two competing hazards, smooth in log time.

For each state and each of its two ends k the hazard is h_k(t | x) = exp(sum_jc B_j(log t) theta_kjc x_c): cubic
B-splines B_j of log time, each with a linear predictor on the context columns x. The hazard is taken at fixed nodes
and is linear in time between them, so that its integral, and with it the density, is exact. Source for competing
risks: Kalbfleisch and Prentice, The Statistical Analysis of Failure Time Data, 2nd ed., section 8.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline

from spear_ray.turntaking.context import Floats

NODES_S: Floats = np.geomspace(0.02, 40.0, 56)
"""Where hazards are taken; constant before the first and after the last."""

SPLINE_KNOTS_S = (0.02, 0.08, 0.2, 0.4, 0.7, 1.1, 1.8, 3.0, 5.0, 9.0, 40.0)
DEGREE = 3
ENDS = 2

MAX_LOG_HAZARD = 8.0
"""3,000 per second: keeps the exponential finite while fitting."""

SCALE_OFFSET_S = 0.15
"""Densities are per unit of log(t + 0.15 s): a length counts in ratios where it is long, and differences below a tenth
of a second, which nobody hears as gap or overlap (Heldner 2011: 120 ms), do not count as surprises."""


def _spline_basis() -> Floats:
    log_knots = np.log(SPLINE_KNOTS_S)
    knots = np.r_[[log_knots[0]] * DEGREE, log_knots, [log_knots[-1]] * DEGREE]
    nodes = np.clip(np.log(NODES_S), log_knots[0], log_knots[-1] - 1e-9)
    basis: Floats = BSpline.design_matrix(nodes, knots, DEGREE).toarray()
    return basis


BASIS = _spline_basis()
"""float64 [nodes, splines]: the splines at the nodes."""


def _cumulative() -> Floats:
    """Row i: the weights of the nodes' hazards in the integral from 0 to node i."""
    weights = np.zeros((NODES_S.size, NODES_S.size))
    weights[:, 0] = NODES_S[0]
    for place, step in enumerate(np.diff(NODES_S), start=1):
        weights[place:, place - 1] += step / 2
        weights[place:, place] += step / 2
    return weights


CUMULATIVE = _cumulative()


class Place(NamedTuple):
    """Where lengths lie between the nodes.

    Args:
        node: int [n], the node before (or the first).
        share: float64 [n], how far towards the next one; 0 outside the nodes.
        beyond_s: float64 [n], what lies beyond the last node (or, negative, before the first).
    """

    node: np.ndarray
    share: Floats
    beyond_s: Floats


def place(lengths_s: Floats) -> Place:
    """Find lengths among the nodes."""
    inside = np.clip(lengths_s, NODES_S[0], NODES_S[-1])
    node = np.clip(np.searchsorted(NODES_S, inside, side="right") - 1, 0, NODES_S.size - 2)
    return Place(node, (inside - NODES_S[node]) / (NODES_S[node + 1] - NODES_S[node]), lengths_s - inside)


def interpolation(at: Place) -> Floats:
    """float64 [n, nodes]: weights that give the hazard at each length."""
    weights = np.zeros((at.node.size, NODES_S.size))
    rows = np.arange(at.node.size)
    weights[rows, at.node] = 1 - at.share
    weights[rows, at.node + 1] += at.share
    return weights


def integration(at: Place) -> Floats:
    """float64 [n, nodes]: weights that give the hazard's integral from 0 to each length."""
    weights: Floats = CUMULATIVE[at.node].copy()
    rows = np.arange(at.node.size)
    step = at.share * (NODES_S[at.node + 1] - NODES_S[at.node])
    weights[rows, at.node] += step * (1 - at.share / 2)
    weights[rows, at.node + 1] += step * at.share / 2
    weights += at.beyond_s[:, None] * interpolation(at)
    return weights


@dataclass(frozen=True, slots=True)
class StateModel:
    """The two hazards of one state.

    Args:
        theta: float64 [2 ends, columns, splines].
    """

    theta: Floats

    def hazards(self, columns: Floats) -> Floats:
        """Hazards per second at the nodes, float64 [n, 2, nodes], from context columns [n, columns]."""
        log_hazard = np.einsum("nc,ecj,gj->neg", columns, self.theta, BASIS, optimize=True)
        hazards: Floats = np.exp(np.minimum(log_hazard, MAX_LOG_HAZARD))
        return hazards

    def nll(self, columns: Floats, lengths_s: Floats, ends: Floats) -> Floats:
        """Negative log density in nats per unit of log(t + SCALE_OFFSET_S), float64 [n].

        A sojourn that is cut off (end -1) has the negative log probability of lasting at least that long.

        Args:
            columns: float64 [n, columns].
            lengths_s: float64 [n].
            ends: [n], 0, 1 or -1.
        """
        hazards = self.hazards(columns)
        at = place(lengths_s)
        surprise: Floats = (hazards.sum(axis=1) * integration(at)).sum(axis=1)
        ended = np.flatnonzero(ends >= 0)
        here = (hazards[ended, ends[ended].astype(int)] * interpolation(at)[ended]).sum(axis=1)
        surprise[ended] -= np.log(here) + np.log(lengths_s[ended] + SCALE_OFFSET_S)
        return surprise
