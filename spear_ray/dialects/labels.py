"""The sixteen English dialects of VoxLect and Vox-Profile's narrow accents, in the order of their logits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DIALECTS = (
    "East Asia",
    "English",
    "Germanic",
    "Irish",
    "North America",
    "Northern Irish",
    "Oceania",
    "Other",
    "Romance",
    "Scottish",
    "Semitic",
    "Slavic",
    "South African",
    "Southeast Asia",
    "South Asia",
    "Welsh",
)
"""Label of each logit (VoxLect, src/model/dialect; Vox-Profile, narrow accents)."""

NORTH_AMERICA = DIALECTS.index("North America")

SLUGS = tuple(name.lower().replace(" ", "_") for name in DIALECTS)
"""The dialects as parts of metric keys."""


def keys(side: str) -> tuple[str, ...]:
    """Metric keys of one side's log-probabilities, in the order of `DIALECTS`.

    Args:
        side: `question` or `answer`.
    """
    return tuple(f"{side}_log_p_{slug}" for slug in SLUGS)


def log_softmax(logits: Floats) -> Floats:
    """Natural log of the softmax over the last axis, without underflow."""
    centred = logits - logits.max(axis=-1, keepdims=True)
    result: Floats = centred - np.log(np.exp(centred).sum(axis=-1, keepdims=True))
    return result


def mean_log_probability(logits: Floats) -> Floats:
    """Log of the mean probability over the parts of a clip.

    Args:
        logits: [parts, dialects].

    Returns:
        [dialects], the log of a distribution.
    """
    parts = log_softmax(np.asarray(logits, dtype=np.float64))
    highest = parts.max(axis=0)
    result: Floats = highest + np.log(np.exp(parts - highest).mean(axis=0))
    return result


def log_odds(log_probability: Floats) -> Floats:
    """log(p / (1 - p)) of each class of a distribution, exact where p is next to 1.

    1 - p is summed over the other classes and never taken as a difference.

    Args:
        log_probability: [..., classes], logs of distributions.

    Returns:
        The same shape.
    """
    classes = log_probability.shape[-1]
    others = np.where(np.eye(classes, dtype=bool), -np.inf, log_probability[..., None, :])
    highest = others.max(axis=-1, keepdims=True)
    rest = highest[..., 0] + np.log(np.exp(others - highest).sum(axis=-1))
    result: Floats = log_probability - rest
    return result


def metrics_of(pair: Mapping[str, Floats]) -> dict[str, float]:
    """Metrics of the sides that have a dialect.

    Args:
        pair: `question` and `answer` to log-probabilities [16].
    """
    found: dict[str, float] = {}
    for side, logs in pair.items():
        found[f"{side}_dialect"] = float(logs.argmax())
        for place, slug in enumerate(SLUGS):
            found[f"{side}_log_p_{slug}"] = float(logs[place])
    if "answer" in pair:
        found["north_american"] = float(found["answer_dialect"] == NORTH_AMERICA)
    if "question" in pair:
        found["question_north_american"] = float(found["question_dialect"] == NORTH_AMERICA)
    if len(pair) == 2:
        found["same_dialect"] = float(found["question_dialect"] == found["answer_dialect"])
    return found


def details_of(pair: Mapping[str, Floats]) -> dict[str, Any]:
    """Names of the dialects and all probabilities, for the row's details."""
    return {
        f"{side}_dialect": {
            "label": DIALECTS[int(logs.argmax())],
            "probabilities": {name: round(float(p), 6) for name, p in zip(DIALECTS, np.exp(logs), strict=True)},
        }
        for side, logs in pair.items()
    }
