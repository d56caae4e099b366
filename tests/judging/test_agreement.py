import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr

from spear_ray.judging.agreement import (
    ATTRIBUTES,
    PUBLISHED,
    Rated,
    Sampling,
    accuracy,
    agreement,
    confusion,
    preference,
)

SAMPLING = Sampling(resamples=200, confidence=0.9, seed=1)
NAN = float("nan")


def some(n=60, seed=0):
    generator = np.random.default_rng(seed)
    found = []
    for place in range(n):
        human = float(generator.choice([1, 3, 5]))
        expected = float(np.clip(human + generator.normal(0, 1.5), 1, 5))
        label = min((1.0, 3.0, 5.0), key=lambda one: abs(one - expected))
        attribute = ("content", "speed", "implicit")[place % 3]
        found.append(
            Rated(
                human=human,
                label=label,
                expected=expected,
                attribute=attribute,
                cluster=f"c{place // 3}",
                pair=f"p{place // 3}",
            )
        )
    return found


def test_accuracy_is_the_share_of_equal_scores():
    rated = [Rated(human=h, label=p, expected=p) for h, p in ((1, 1), (3, 5), (5, 5), (5, 1))]
    assert accuracy(rated, SAMPLING)["value"] == 0.5
    assert accuracy([], SAMPLING) == {"value": None, "low": None, "high": None, "n": 0}


def test_items_without_a_decision_count_only_as_such():
    rated = some()
    found = agreement([*rated, Rated(human=3, label=NAN, expected=NAN, attribute="age")], SAMPLING)
    plain = agreement(rated, SAMPLING)
    assert (found["n_total"], found["n"]) == (61, 60)
    assert found["accuracy"] == plain["accuracy"]
    assert found["by_attribute"]["age"] == {"value": None, "low": None, "high": None, "n": 0}


def test_attributes_add_up_to_the_whole_in_the_published_order():
    found = agreement(some(), SAMPLING)
    parts = found["by_attribute"]
    assert list(parts) == ["content", "speed", "implicit"]
    assert sum(one["n"] * one["value"] for one in parts.values()) == pytest.approx(60 * found["accuracy"]["value"])


def test_confusion_counts_every_item_once():
    counts = confusion(some())
    assert list(counts) == ["1", "3", "5"]
    assert sum(sum(row.values()) for row in counts.values()) == 60
    assert confusion([Rated(human=2, label=3, expected=3)])["2"] == {"1": 0, "3": 1, "5": 0}


def test_correlations_are_scipys_and_lie_in_their_intervals():
    rated = some()
    found = agreement(rated, SAMPLING)
    expected, human = [one.expected for one in rated], [one.human for one in rated]
    assert found["spearman"]["value"] == pytest.approx(spearmanr(expected, human).statistic)
    assert found["kendall"]["value"] == pytest.approx(kendalltau(expected, human).statistic)
    for key in ("spearman", "kendall", "accuracy", "preference"):
        assert found[key]["low"] < found[key]["value"] < found[key]["high"]


def test_interval_of_a_correlation_equals_one_drawn_by_hand():
    from spear_ray.leaderboard.statistics import draw_weights

    rated = some()
    names = sorted({one.cluster for one in rated})
    drawn = []
    for weights in draw_weights(len(names), 200, 1):
        rows = [one for one in rated for _ in range(int(weights[names.index(one.cluster)]))]
        drawn.append(spearmanr([one.expected for one in rows], [one.human for one in rows]).statistic)
    found = agreement(rated, SAMPLING)["spearman"]
    assert (found["low"], found["high"]) == pytest.approx(tuple(np.quantile(drawn, [0.05, 0.95])))


def test_pairs_are_ordered_by_expected_score_and_ties_are_half():
    def pair(name, *scores):
        return [Rated(human=h, label=5, expected=e, pair=name) for h, e in scores]

    rated = [*pair("a", (1, 2.0), (5, 4.0)), *pair("b", (1, 3.0), (5, 3.0)), *pair("c", (3, 4.0), (5, 2.0))]
    found = preference([*rated, *pair("d", (3, 1.0), (3, 2.0)), *pair("", (1, 1.0), (5, 2.0))], SAMPLING)
    assert (found["value"], found["n"]) == (0.5, 3)


def test_one_cluster_has_no_interval():
    rated = [Rated(human=h, label=h, expected=h, cluster="c") for h in (1.0, 3.0, 5.0)]
    found = agreement(rated, SAMPLING)
    assert found["spearman"] == {"value": pytest.approx(1), "low": None, "high": None, "n": 3}
    assert found["preference"]["value"] is None


def test_published_table_has_a_value_for_each_attribute():
    assert len(ATTRIBUTES) == 11
    assert all(len(values) == 11 and all(0 < one <= 100 for one in values) for values in PUBLISHED.values())
