import numpy as np
import pytest

from spear_ray.judging.reward import (
    accuracy_reward,
    format_reward,
    group_advantages,
    linear_reward,
    reference_divergence,
)

GOOD = "<think>The words fit.\nThe voice does not.</think><score>3</score>"


@pytest.mark.parametrize(("sigma", "rewards"), [(1.0, (10, 1.35335, 0.00335463)), (2.0, (10, 6.06531, 1.35335))])
def test_accuracy_reward_is_the_bell_of_the_paper(sigma, rewards):
    assert [accuracy_reward(1 + d, 1, sigma) for d in (0, 2, 4)] == pytest.approx(rewards, rel=1e-5)
    assert accuracy_reward(5, 1, sigma) == accuracy_reward(1, 5, sigma)


def test_accuracy_reward_ends_at_four():
    assert accuracy_reward(5.01, 1, 100.0) == 0.0


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan")])
def test_width_must_be_positive(sigma):
    with pytest.raises(ValueError, match="sigma"):
        accuracy_reward(1, 1, sigma)


def test_linear_reward_is_all_or_nothing():
    assert [linear_reward(p, 3) for p in (1, 3, 5)] == [0, 5, 0]


@pytest.mark.parametrize("text", [GOOD, f"\n {GOOD} \n", "<think></think> <score>5.0</score>"])
def test_demanded_form_is_rewarded(text):
    assert format_reward(text) == 5.0


@pytest.mark.parametrize(
    "text",
    [
        "<score>3</score>",
        "<think>a</think><score>2</score>",
        GOOD + "!",
        "So: " + GOOD,
        "<think>a</think><think>b</think><score>3</score>",
        GOOD + "<score>3</score>",
        "<think>a<score>3</score>",
    ],
)
def test_other_forms_are_not(text):
    assert format_reward(text) == 0.0


def test_advantages_have_mean_0_and_deviation_1_and_equal_rewards_none():
    advantages = group_advantages(np.array([15.0, 6.35, 5.0, 0.0]))
    assert np.mean(advantages) == pytest.approx(0, abs=1e-12)
    assert np.std(advantages) == pytest.approx(1)
    assert group_advantages(np.full(4, 7.0)).tolist() == [0, 0, 0, 0]


def test_divergence_estimates_kl():
    generator = np.random.default_rng(0)
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.5, 0.25, 0.25])
    tokens = generator.choice(3, size=200_000, p=p)
    estimated = reference_divergence(np.log(p[tokens]), np.log(q[tokens]))
    assert estimated.min() >= 0
    assert estimated.mean() == pytest.approx(np.sum(p * np.log(p / q)), abs=0.003)
