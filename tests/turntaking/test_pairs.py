import math

import numpy as np
import pytest

from spear_ray.turntaking.pairs import CIndex, Scale, Spread, c_index, pair_statistics, statistics_by_kind

SCALE = Scale(2.0, 6.0, 10)


def test_c_index_compares_each_edited_clip_with_each_natural_one():
    found = c_index(edited=[3.0, 1.0], natural=[2.0, 1.0])
    assert found == CIndex(concordant=2, wrong=1, tied=1)
    assert (found.total, found.comparable) == (4, 3)
    assert found.value == pytest.approx(2 / 3)


def test_c_index_agrees_with_counting_one_by_one():
    rng = np.random.default_rng(0)
    edited, natural = rng.integers(0, 20, 70), rng.integers(0, 20, 50)
    found = c_index(edited, natural)
    assert found.concordant == sum(int(after > before) for after in edited for before in natural)
    assert found.wrong == sum(int(after < before) for after in edited for before in natural)
    assert found.total == 70 * 50


def test_c_index_leaves_out_clips_without_a_score():
    assert c_index([3.0, math.nan], [1.0, math.inf]) == CIndex(1, 0, 0)


def test_ties_alone_have_no_c_index():
    assert math.isnan(c_index([1.0], [1.0]).value)
    assert math.isnan(c_index([], []).value)


def test_spread_uses_the_sample_variance_and_1_96_standard_errors():
    found = Spread.of([1.0, 2.0, 3.0, 6.0])
    assert (found.mean, found.var) == pytest.approx((3.0, 14 / 3))
    assert found.half_width == pytest.approx(1.96 * math.sqrt(14 / 3 / 4))
    row = found.row("delta_nll")
    assert row["delta_nll_ci95_low"] == pytest.approx(found.mean - found.half_width)
    assert row["delta_nll_ci95_high"] == pytest.approx(found.mean + found.half_width)


def test_one_value_has_no_spread_and_none_is_unknown():
    assert Spread.of([2.0]) == Spread(2.0, 0.0, 0.0)
    assert math.isnan(Spread.of([math.nan]).mean)


def test_the_scale_runs_from_5_to_1_between_its_anchors_and_is_clipped():
    assert SCALE.scores([1.0, 2.0, 3.0, 4.0, 6.0, 9.0]).tolist() == [5.0, 5.0, 4.0, 3.0, 1.0, 1.0]


def test_a_clip_without_a_score_has_none_on_the_scale():
    assert np.isnan(SCALE.scores([math.nan, math.inf])).all()


def test_the_scale_is_anchored_at_the_runs_quantiles():
    found = Scale.of_run([*range(101), math.nan])
    assert (found.low_nll, found.high_nll, found.segments) == (5.0, 95.0, 101)
    assert Scale.of_run(range(101), (0.1, 0.5)) == Scale(10.0, 50.0, 101)


def test_a_run_of_equal_clips_still_has_a_scale():
    found = Scale.of_run([3.0, 3.0])
    assert found.high_nll > found.low_nll
    assert found.scores([3.0]).tolist() == [5.0]


def test_a_run_without_scores_has_no_anchors():
    found = Scale.of_run([math.nan])
    assert found.segments == 0
    assert math.isnan(found.low_nll)


def test_accuracy_is_the_share_of_pairs_whose_edited_clip_surprises_more():
    row = pair_statistics([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 4.0, 3.0], SCALE)
    assert (row["n"], row["pairwise_accuracy"]) == (4, 0.5)


def test_a_pair_that_lacks_a_score_is_left_out_on_both_sides():
    row = pair_statistics([1.0, 2.0, math.nan], [3.0, math.nan, 4.0], SCALE)
    assert (row["n"], row["natural_nll_mean"], row["edited_nll_mean"]) == (1, 1.0, 3.0)
    assert row["dialogue_nll_c_index_total_pairs"] == 1


def test_surprise_counts_from_natural_to_edited_and_the_scale_the_other_way():
    row = pair_statistics([3.0], [4.0], SCALE)
    assert (row["delta_nll_mean"], row["delta_score_1_5_mean"]) == (1.0, 1.0)


def test_no_complete_pair_gives_unknown_statistics():
    row = pair_statistics([math.nan], [1.0], SCALE)
    assert row["n"] == 0
    assert math.isnan(row["pairwise_accuracy"])
    assert math.isnan(row["delta_nll_mean"])


def test_each_kind_has_its_own_row_and_one_without_a_complete_pair_has_none():
    found = statistics_by_kind(
        ["late", "early", "late", "lost"], [1.0, 2.0, 3.0, math.nan], [2.0, 1.0, 4.0, 5.0], SCALE
    )
    assert list(found) == ["early", "late"]
    assert (found["late"]["n"], found["late"]["pairwise_accuracy"]) == (2, 1.0)
    assert found["early"]["pairwise_accuracy"] == 0.0


def test_thousands_of_pairs_are_counted_by_sorting():
    clips = np.arange(200_000, dtype=np.float64)
    found = c_index(clips + 0.5, clips)
    assert (found.total, found.tied) == (40_000_000_000, 0)
    assert found.concordant == 200_000 * 200_001 // 2
