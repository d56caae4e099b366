"""Fitting the timing model: penalised maximum likelihood, convex, so that the result does not depend on luck."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from spear_ray.turntaking.context import Floats
from spear_ray.turntaking.density import (
    BASIS,
    ENDS,
    MAX_LOG_HAZARD,
    StateModel,
    integration,
    interpolation,
    place,
)

RIDGE = 1.0
"""Penalty on squared effects of the context, in nats; the constant is free."""

ROUGHNESS = 5.0
"""Penalty on squared second differences along log time, in nats."""

ITERATIONS = 150


def fit_state(columns: Floats, lengths_s: Floats, ends: Floats) -> StateModel:
    """Fit one state's two hazards.

    Args:
        columns: float64 [n, columns]; the first is the constant.
        lengths_s: float64 [n].
        ends: [n], 0, 1 or -1 (cut off).
    """
    at = place(lengths_s)
    exposure, here = integration(at), interpolation(at) @ BASIS
    theta = [_fit_end(columns, exposure, here[ends == end], columns[ends == end]) for end in range(ENDS)]
    return StateModel(np.stack(theta))


def _fit_end(columns: Floats, exposure: Floats, at_end: Floats, ended: Floats) -> Floats:
    """Theta [columns, splines] of one end: minimise integral of the hazard minus log hazard where it ended so."""
    shape = (columns.shape[1], BASIS.shape[1])
    observed = ended.T @ at_end
    bend = np.diff(np.eye(shape[1]), n=2, axis=0)
    penalty = bend.T @ bend * ROUGHNESS
    count = len(columns)

    def loss(flat: Floats) -> tuple[float, Floats]:
        theta = flat.reshape(shape)
        log_hazard = np.minimum((columns @ theta) @ BASIS.T, MAX_LOG_HAZARD)
        expected = exposure * np.exp(log_hazard)
        held = theta.copy()
        held[0] = 0.0
        value = expected.sum() - (theta * observed).sum() + RIDGE * (held**2).sum() + (theta @ penalty * theta).sum()
        slope = columns.T @ (expected @ BASIS) - observed + 2 * RIDGE * held + 2 * theta @ penalty
        return float(value / count), slope.ravel() / count

    start = np.zeros(shape)
    start[0] = np.log((len(ended) + 1) / exposure.sum())
    found = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS, "maxcor": 20})
    solution: Floats = found.x.reshape(shape)
    return solution
