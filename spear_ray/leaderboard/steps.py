"""Steps between rows and the board that need many rows at once: TRACE's logit shift, and vocal arousal within a voice.

Both are recorded: as notes on the board and under `leaderboard_steps` in run.json. They never change a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spear_ray.affect.vocal_arousal import ranked
from spear_ray.errors import ConfigError
from spear_ray.leaderboard.rows import ScorerRows
from spear_ray.leaderboard.statistics import Floats

EMOTION = "emotion"
LOGIT = "naturalness_logit"
VOCAL = "vocal_arousal"
VOICE = tuple(f"answer_voice_{name}" for name in ("log_f0", "intensity_db", "hf500_db"))

QUANTILE = 0.01
"""Of the human dev logits that the shift brings to just above 0: 99 % count as natural (SPEARBench)."""
EPSILON = 1e-6
"""How far above 0."""


@dataclass(frozen=True, slots=True)
class Shift:
    """TRACE's logit shift.

    Args:
        run: where the dev rows come from.
        by_subset: what is added to every logit of a subset.
        rows: dev rows of the reference system by subset.
    """

    run: str
    by_subset: Mapping[str, float]
    rows: Mapping[str, int]

    def note(self) -> str:
        """For the board."""
        shifts = ", ".join(f"{name} {value:+.4f} ({self.rows[name]} rows)" for name, value in self.by_subset.items())
        return (
            f"Emotional naturalness logits are shifted by subset, so that {100 * (1 - QUANTILE):g} % of the reference's"
            f" dev rows of {self.run} lie above 0: {shifts}."
        )


def naturalness_shift(logits: Floats, quantile: float = QUANTILE, epsilon: float = EPSILON) -> float:
    """What brings a quantile of the human dev logits to just above 0.

    Source: SPEARBench, bin/naturalness/normalize_score.py: minus the (linearly interpolated) quantile, plus 1e-6.

    Args:
        logits: [rows] of the reference system, NaN where absent.
        quantile: for instance 0.01.
        epsilon: added.

    Returns:
        The shift; NaN without rows.
    """
    present = logits[np.isfinite(logits)]
    return float(-np.quantile(present, quantile) + epsilon) if present.size else float("nan")


def shift_from(rows: ScorerRows, run: str, reference: str) -> Shift:
    """The shift for each subset from the dev rows of the reference system.

    Args:
        rows: of `emotion`.
        run: where they come from, for the record.
        reference: the reference system.

    Raises:
        ConfigError: there are no such rows with a logit.
    """
    chosen = rows.where((rows.split == "dev") & (rows.system == reference))
    found: dict[str, float] = {}
    counts: dict[str, int] = {}
    for subset in map(str, np.unique(chosen.subset)):
        logits = chosen.where(chosen.subset == subset).value(LOGIT)
        if np.isfinite(logits).any():
            found[subset] = naturalness_shift(logits)
            counts[subset] = int(np.isfinite(logits).sum())
    if not found:
        raise ConfigError(
            f"leaderboard.naturalness_dev_run: {run} has no rows of split dev and system {reference} with a {LOGIT}"
        )
    return Shift(run, found, counts)


def shifted(rows: ScorerRows, shift: Shift) -> ScorerRows:
    """Rows with the logits of each subset moved by its own shift.

    Raises:
        ConfigError: a subset with logits has no shift.
    """
    logits = rows.value(LOGIT).copy()
    for subset in map(str, np.unique(rows.subset[np.isfinite(logits)])):
        if subset not in shift.by_subset:
            raise ConfigError(
                f"leaderboard.naturalness_dev_run: {shift.run} has no dev rows of the subset '{subset}' that could tell"
                " its logit shift"
            )
        logits[rows.subset == subset] += shift.by_subset[subset]
    return replace(rows, values={**rows.values, LOGIT: logits})


def with_vocal_arousal(rows: ScorerRows, reference: str) -> ScorerRows:
    """Rows with the vocal arousal of answers whose voice has no baseline in its own dialogue.

    A system has one voice: its answers are ranked among its other answers, those of all splits and subsets. People have
    one each, and are only compared with themselves: the reference, and systems with a baseline in at least one of their
    dialogues (recordings), are left as they are.
    """
    if VOICE[0] not in rows.values:
        return rows
    arousal = rows.value(VOCAL).copy()
    features = np.stack([rows.value(key) for key in VOICE], axis=1)
    for system in np.unique(rows.system):
        ours = rows.system == system
        if system != reference and not np.isfinite(arousal[ours]).any():
            arousal[ours] = ranked(features[ours])
    return replace(rows, values={**rows.values, VOCAL: arousal})
