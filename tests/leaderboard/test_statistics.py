import numpy as np
import pytest

from spear_ray.leaderboard import statistics
from spear_ray.leaderboard.statistics import draw_weights, interval, percentile_interval, resampled

SETTINGS = {"resamples": 2000, "confidence": 0.95, "seed": 7}


def normal(conversations: int, seed: int = 1) -> tuple[np.ndarray, list[str]]:
    values = np.random.default_rng(seed).normal(500, 100, conversations)
    return values, [f"c{index:04d}" for index in range(conversations)]


def test_each_resample_draws_as_many_conversations_as_there_are():
    weights = draw_weights(37, 500, 3)
    assert weights.shape == (500, 37)
    assert set(weights.sum(axis=1).tolist()) == {37}


def test_rows_repeated_within_a_conversation_do_not_shrink_the_interval():
    values, conversations = normal(60)
    once = interval(values, conversations, "mean", **SETTINGS)
    ten_times = interval(np.repeat(values, 10), np.repeat(conversations, 10).tolist(), "mean", **SETTINGS)
    as_if_independent = interval(np.repeat(values, 10), [f"r{index}" for index in range(600)], "mean", **SETTINGS)
    assert ten_times == pytest.approx(once)
    assert np.ptp(as_if_independent) < 0.5 * np.ptp(once)


def test_interval_of_a_mean_has_the_width_of_the_normal_theory():
    values, conversations = normal(400)
    low, high = interval(values, conversations, "mean", **SETTINGS)
    expected = 2 * 1.96 * np.std(values, ddof=1) / np.sqrt(400)
    assert high - low == pytest.approx(expected, rel=0.08)
    assert low < np.mean(values) < high


@pytest.mark.parametrize("reducer", ["mean", "median"])
def test_interval_covers_the_truth_about_as_often_as_it_says(reducer):
    settings = {"resamples": 400, "confidence": 0.9, "seed": 5}
    hits = 0
    for seed in range(200):
        values, conversations = normal(60, seed)
        low, high = interval(values, conversations, reducer, **settings)
        hits += low <= 500 <= high
    assert 0.82 <= hits / 200 <= 0.97


def test_result_does_not_depend_on_the_order_of_rows():
    values, conversations = normal(50)
    order = np.random.default_rng(0).permutation(50)
    shuffled = [conversations[index] for index in order]
    expected = interval(values, conversations, "median", **SETTINGS)
    assert interval(values[order], shuffled, "median", **SETTINGS) == expected


def test_same_seed_gives_the_same_interval_and_another_seed_another():
    values, conversations = normal(50)
    first = interval(values, conversations, "mean", **SETTINGS)
    draw_weights.cache_clear()
    assert interval(values, conversations, "mean", **SETTINGS) == first
    assert interval(values, conversations, "mean", **SETTINGS | {"seed": 8}) != first


@pytest.mark.parametrize("reducer", ["mean", "median"])
def test_resampled_estimate_equals_the_estimate_on_repeated_rows(reducer):
    generator = np.random.default_rng(2)
    values = np.round(generator.normal(size=40), 1)
    values[[3, 9]] = np.nan
    conversation = generator.integers(0, 9, 40)
    weights = draw_weights(9, 50, 1)
    expected = [statistics.estimate(np.repeat(values, drawn[conversation].astype(int)), reducer) for drawn in weights]
    np.testing.assert_allclose(resampled(weights, values, conversation, reducer), expected, atol=1e-12)


def test_median_is_the_same_in_small_chunks(monkeypatch):
    values, _ = normal(30)
    conversation = np.arange(30)
    weights = draw_weights(30, 100, 1)
    whole = resampled(weights, values, conversation, "median")
    monkeypatch.setattr(statistics, "CELLS_PER_CHUNK", 70)
    np.testing.assert_array_equal(resampled(weights, values, conversation, "median"), whole)


def test_one_conversation_has_no_interval():
    values = np.array([1.0, 2.0, np.nan])
    assert np.isnan(interval(values, ["c0", "c0", "c1"], "mean", **SETTINGS)).all()


def test_no_value_has_no_estimate_and_no_interval():
    values = np.full(3, np.nan)
    assert np.isnan(statistics.estimate(values, "mean"))
    assert np.isnan(interval(values, ["a", "b", "c"], "mean", **SETTINGS)).all()


def test_percentile_interval_cuts_equal_tails():
    assert percentile_interval(np.arange(101.0), 0.9) == pytest.approx((5, 95))


def test_difference_is_paired_by_conversation():
    values, conversations = normal(80)
    shifted = (values + 30, conversations)
    low, high = statistics.difference_interval(shifted, (values, conversations), "mean", **SETTINGS)
    assert (low, high) == pytest.approx((30, 30))
    other_names = [f"x{index}" for index in range(80)]
    low, high = statistics.difference_interval(shifted, (values, other_names), "mean", **SETTINGS)
    assert high - low > 30


def test_standardised_difference_is_cohens_d():
    ours, theirs = np.array([2.0, 4.0, 6.0, np.nan]), np.array([1.0, 3.0, 5.0])
    assert statistics.standardised_mean_difference(ours, theirs) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [([0.1] * 3, [0.1] * 3, 0.0), ([1.0] * 3, [0.0] * 3, np.inf), ([0.0] * 3, [1.0] * 3, -np.inf)],
)
def test_standardised_difference_of_constants(ours, theirs, expected):
    assert statistics.standardised_mean_difference(np.array(ours), np.array(theirs)) == expected


def test_standardised_difference_needs_values_on_both_sides():
    assert np.isnan(statistics.standardised_mean_difference(np.array([np.nan]), np.array([1.0, 2.0])))
    assert np.isnan(statistics.standardised_mean_difference(np.array([1.0]), np.array([2.0])))


def test_mann_whitney_of_two_times_four_separate_values():
    # 2 of the C(8, 4) = 70 orders are as extreme as this one.
    p = statistics.mann_whitney_p(np.array([1.0, 2, 3, 4, np.nan]), np.array([5.0, 6, 7, 8]))
    assert p == pytest.approx(2 / 70)


def test_mann_whitney_of_equal_constants_is_one():
    assert statistics.mann_whitney_p(np.zeros(4), np.zeros(5)) == 1.0
    assert np.isnan(statistics.mann_whitney_p(np.zeros(0), np.zeros(5)))
