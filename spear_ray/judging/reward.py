"""WavReward's reward, for people who train such a judge: pure functions, the published arithmetic.

Source: WavReward (arXiv 2505.09558), section 3.1 and equation 3; GRPO (arXiv 2402.03300).
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BEST = 10.0
FORMAT_REWARD = 5.0
LINEAR_REWARD = 5.0
FURTHEST = 4.0
"""The largest difference of two scores in 1 to 5."""

FORM = re.compile(r"\s*<think>(?P<thoughts>.*)</think>\s*<score>\s*(?:[135](?:\.0+)?)\s*</score>\s*", re.DOTALL)


def accuracy_reward(predicted: float, reference: float, sigma: float) -> float:
    """The nonlinear reward: 10 for the reference score, less the further away, 0 beyond 4.

    Args:
        predicted: the judge's score.
        reference: the true one, 1 to 5.
        sigma: width of the bell, in scores; the paper does not tell its own.

    Raises:
        ValueError: sigma is not positive.
    """
    if not sigma > 0:
        raise ValueError(f"sigma={sigma}: must be positive")
    distance = abs(predicted - reference)
    return BEST * math.exp(-(distance**2) / (2 * sigma**2)) if distance <= FURTHEST else 0.0


def linear_reward(predicted: float, reference: float) -> float:
    """The ablated reward: 5 for the reference score, else 0."""
    return LINEAR_REWARD if predicted == reference else 0.0


def format_reward(text: str) -> float:
    """5 where a text is thoughts and a score of 1, 3 or 5 in the demanded tags, each once, and nothing else; else 0."""
    found = FORM.fullmatch(text)
    return FORMAT_REWARD if found and "think>" not in found["thoughts"] else 0.0


def group_advantages(rewards: Floats) -> Floats:
    """How much better each answer of a group is than the group.

    Args:
        rewards: [answers] to one question.

    Returns:
        [answers], (reward - mean) / standard deviation (of the population); zeros where all are equal.
    """
    spread = float(np.std(rewards))
    return np.zeros_like(rewards) if spread == 0 else (rewards - np.mean(rewards)) / spread


def reference_divergence(log_probabilities: Floats, reference: Floats) -> Floats:
    """The estimate of the KL divergence to the reference policy, ratio - log ratio - 1, of each token.

    Args:
        log_probabilities: [tokens] of the policy.
        reference: [tokens] of the reference policy.

    Returns:
        [tokens], never negative. Source: Schulman's k3 estimator.
    """
    log_ratio = reference - log_probabilities
    return np.exp(log_ratio) - log_ratio - 1
