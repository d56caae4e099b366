"""Statistics of whole sets of rows: what they are, and that resampling them by sums is resampling them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from spear_ray.leaderboard import published_rules
from spear_ray.leaderboard.moments import SET_REDUCERS, moments
from spear_ray.leaderboard.statistics import complete, draw_weights, estimate, interval, resampled
from tests.golden_cases import files

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(60, 8)) @ RNG.normal(size=(8, 8))
WHICH = {"pearson": ROWS[:, :2], "largest_share": np.round(ROWS[:, :1])}
CONVERSATION = np.repeat(np.arange(20), 3)


def rows_of(reducer: str) -> Any:
    return WHICH.get(reducer, ROWS)


def golden() -> list[Any]:
    return [case for path in files("entrainment_cases*.json") for case in json.loads(path.read_text())["cases"]]


@pytest.mark.parametrize("case", golden(), ids=lambda case: case["id"])
def test_slope_and_variance_are_the_published_ones(case: dict[str, Any]) -> None:
    question, answer = (np.array(case[side], dtype=np.float64).reshape(-1, 16) for side in ("question", "answer"))
    slope, trace = (float("nan") if case[key] is None else case[key] for key in ("slope", "trace"))
    assert estimate(np.hstack([question, answer]), "flattened_slope") == pytest.approx(slope, abs=1e-9, nan_ok=True)
    # One row has no variance; the published code says 0.
    expected = trace if len(answer) != 1 else float("nan")
    assert estimate(answer, "total_variance") == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_pearson_is_scipys() -> None:
    assert estimate(ROWS[:, :2], "pearson") == pytest.approx(pearsonr(ROWS[:, 0], ROWS[:, 1]).statistic)
    assert estimate(ROWS[:, :2], "pearson") == pytest.approx(published_rules.pearson(ROWS[:, 0], ROWS[:, 1]))


def test_mean_spearman_is_the_mean_of_scipys_over_dimensions() -> None:
    each = [spearmanr(ROWS[:, d], ROWS[:, 4 + d]).statistic for d in range(4)]
    assert estimate(ROWS, "mean_spearman") == pytest.approx(np.mean(each))


def test_a_dimension_without_variation_is_left_out_of_the_mean() -> None:
    flat = ROWS.copy()
    flat[:, 5] = 1.0
    each = [spearmanr(flat[:, d], flat[:, 4 + d]).statistic for d in (0, 2, 3)]
    assert estimate(flat, "mean_spearman") == pytest.approx(np.mean(each))


def test_spearman_sees_answers_that_follow_the_question_where_the_published_slope_sees_common_dialects() -> None:
    rng = np.random.default_rng(1)
    habit = rng.normal(scale=5.0, size=16)
    question, deaf = (habit + rng.normal(size=(400, 16)) for _ in range(2))
    following = 0.7 * question + 0.3 * deaf
    assert estimate(np.hstack([question, deaf]), "flattened_slope") > 0.7
    assert abs(estimate(np.hstack([question, deaf]), "mean_spearman")) < 0.1
    assert estimate(np.hstack([question, following]), "mean_spearman") > 0.8


def test_the_largest_share_is_what_the_best_constant_answer_scores() -> None:
    labels = np.array([[4.0], [4.0], [8.0], [0.0], [4.0]])
    assert estimate(labels, "largest_share") == 0.6


@pytest.mark.parametrize("reducer", SET_REDUCERS)
def test_rows_that_lack_a_value_do_not_count(reducer: Any) -> None:
    whole = rows_of(reducer)
    holed = np.vstack([whole, np.full((3, whole.shape[1]), np.nan)])
    holed[-1, 1:] = 1.0
    assert estimate(holed, reducer) == pytest.approx(estimate(whole, reducer))
    assert complete(holed).sum() == complete(whole).sum()


@pytest.mark.parametrize("reducer", [one for one in SET_REDUCERS if one != "largest_share"])
def test_constant_or_absent_rows_have_no_value(reducer: Any) -> None:
    assert np.isnan(estimate(np.full((4, 2), np.nan), reducer))
    if reducer != "total_variance":
        assert np.isnan(estimate(np.full((9, 2), 1 / 3), reducer))


@pytest.mark.parametrize("reducer", ["pearson", "total_variance", "largest_share"])
def test_a_resample_is_the_statistic_of_its_rows(reducer: Any) -> None:
    values = rows_of(reducer)
    weights = draw_weights(20, 50, seed=7)
    drawn = [np.vstack([values[c == CONVERSATION] for c in range(20) for _ in range(row[c])]) for row in weights]
    expected = [estimate(one, reducer) for one in drawn]
    np.testing.assert_allclose(resampled(weights, values, CONVERSATION, reducer), expected, atol=1e-9)


@pytest.mark.parametrize("reducer", SET_REDUCERS)
def test_intervals_hold_their_value(reducer: Any) -> None:
    values = rows_of(reducer)
    names = [f"c{number}" for number in CONVERSATION]
    low, high = interval(values, names, reducer, resamples=400, confidence=0.95, seed=1)
    assert low <= estimate(values, reducer) <= high
    assert low < high


def test_far_from_zero_nothing_is_lost() -> None:
    far = ROWS[:, :2] * 1e-3 + 1e6
    assert moments(far, "pearson").value == pytest.approx(estimate(ROWS[:, :2], "pearson"), abs=1e-4)


SPEAKERS = np.repeat([7.0, 0.0, 3.0], 20)
PITCHES = np.exp(0.2 * RNG.normal(size=(60, 4)) + np.repeat([[5.3], [4.8], [5.0]], 20, axis=0))
WHICH["normalised_deviation"] = np.column_stack([SPEAKERS, PITCHES])


def over_their_speakers_mean(values: Any) -> Any:
    means = {speaker: values[values[:, 0] == speaker, 1].mean() for speaker in set(values[:, 0])}
    return np.array([row[2:] / means[row[0]] for row in values])


def test_normalised_deviation_is_the_mean_spread_of_columns_over_their_groups_mean() -> None:
    values = rows_of("normalised_deviation")
    expected = over_their_speakers_mean(values).std(axis=0, ddof=1).mean()
    assert estimate(values, "normalised_deviation") == pytest.approx(expected, abs=1e-12)


def test_a_higher_voice_does_not_deviate_more() -> None:
    values = rows_of("normalised_deviation")
    higher = np.column_stack([values[:, 0], values[:, 1:] * np.where(values[:, :1] == 3.0, 2.0, 1.0)])
    expected = estimate(values, "normalised_deviation")
    assert estimate(higher, "normalised_deviation") == pytest.approx(expected, abs=1e-12)


def test_a_resample_of_normalised_deviation_keeps_the_means_of_all_rows() -> None:
    values = rows_of("normalised_deviation")
    scaled = over_their_speakers_mean(values)
    weights = draw_weights(20, 50, seed=7)
    drawn = [np.vstack([scaled[c == CONVERSATION] for c in range(20) for _ in range(row[c])]) for row in weights]
    expected = [one.std(axis=0, ddof=1).mean() for one in drawn]
    np.testing.assert_allclose(
        resampled(weights, values, CONVERSATION, "normalised_deviation"), expected, rtol=0, atol=1e-9
    )


def test_one_row_and_groups_without_a_positive_mean_have_no_normalised_deviation() -> None:
    values = rows_of("normalised_deviation")
    assert np.isnan(estimate(values[:1], "normalised_deviation"))
    without = values.copy()
    without[values[:, 0] == 7.0, 1] = 0.0
    expected = estimate(values[values[:, 0] != 7.0], "normalised_deviation")
    assert estimate(without, "normalised_deviation") == pytest.approx(expected, abs=1e-12)
