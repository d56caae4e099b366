"""From a population's conversations to statistics that can be shipped: hazards, calibration, facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spear_ray.errors import DataLayoutError
from spear_ray.turntaking.context import columns_of, table_of
from spear_ray.turntaking.density import StateModel
from spear_ray.turntaking.fitting import fit_state
from spear_ray.turntaking.pooling import pool
from spear_ray.turntaking.populations import Conversation, clips
from spear_ray.turntaking.sojourns import State, sojourns
from spear_ray.turntaking.timing_model import Calibration, TimingModel

CHOSEN_GROUPS = ("sequence", "lengths", "listener", "unit")
"""What the shipped statistics condition on; the card says what each group is worth."""

REFERENCE_S = 22.5
"""The length whose scores calibration leaves as they are: the middle of TurnNat's clips of 20 to 25 s."""

LENGTHS_S = (6.0, 8.0, 11.0, 15.0, 22.5, 35.0, 60.0, 120.0, 240.0)
CLIPS_PER_LENGTH = 2000
MIN_CLIPS = 200
"""A length with fewer clips than that is not calibrated: the nearest one that is stands for it."""

MIN_SOJOURNS = 500
"""Of each state; fewer do not carry the model's smooth curves."""


def fit_model(
    conversations: Sequence[Conversation],
    groups: Sequence[str] = CHOSEN_GROUPS,
    seed: int = 0,
    facts: Mapping[str, Any] | None = None,
) -> TimingModel:
    """Fit hazards on clips of 20 to 30 s and calibrate them for length.

    Raises:
        DataLayoutError: too little data.
    """
    rng = np.random.default_rng(seed)
    states = fit_states(conversations, groups, rng)
    bare = TimingModel(tuple(groups), states, Calibration(), {})
    return TimingModel(tuple(groups), states, calibrate(bare, conversations, rng), facts or {})


def fit_states(
    conversations: Sequence[Conversation], groups: Sequence[str], rng: np.random.Generator
) -> tuple[StateModel, StateModel, StateModel]:
    """The hazards of each state."""
    cut = [clip for conversation in conversations for clip in clips(conversation, rng)]
    table = table_of([sojourn for clip in cut for sojourn in sojourns(clip.timeline)])
    models = []
    for state in State:
        rows = table["state"] == state
        if rows.sum() < MIN_SOJOURNS:
            raise DataLayoutError(
                f"{int(rows.sum())} sojourns of the state {state.name} in {len(conversations)} conversations:"
                f" too few to fit, at least {MIN_SOJOURNS} are needed"
            )
        part = {name: column[rows] for name, column in table.items()}
        models.append(fit_state(columns_of(part, groups), part["length_s"], part["end"]))
    solo, none, both = models
    return solo, none, both


def calibrate(model: TimingModel, conversations: Sequence[Conversation], rng: np.random.Generator) -> Calibration:
    """What to add at each length so that natural clips of all lengths have the mean and tail of `REFERENCE_S`."""
    found = {}
    for seconds in LENGTHS_S:
        long = [one for one in conversations if one.timeline.seconds >= seconds]
        pooled = [_random_clip(model, long, seconds, rng) for _ in range(CLIPS_PER_LENGTH)] if long else []
        scored = [values for values in pooled if values is not None]
        if len(scored) >= MIN_CLIPS and len({one.source for one in long}) > 1:
            found[seconds] = np.mean(scored, axis=0)
    if not found:
        return Calibration()
    reference = found[min(found, key=lambda seconds: abs(seconds - REFERENCE_S))]
    mean, tail = zip(*((reference - values).tolist() for values in found.values()), strict=True)
    return Calibration(tuple(found), mean, tail)


def _random_clip(
    model: TimingModel, conversations: Sequence[Conversation], seconds: float, rng: np.random.Generator
) -> tuple[float, float] | None:
    """Mean and tail of a random clip of that length; None where nothing is counted in it."""
    whole = conversations[int(rng.integers(len(conversations)))].timeline
    start_s = float(rng.uniform(0.0, whole.seconds - seconds))
    units = model.surprises(whole.crop(start_s, start_s + seconds))
    if not units:
        return None
    pooled = pool([unit.nll for unit in units])
    return pooled.mean_nll, pooled.tail_nll
