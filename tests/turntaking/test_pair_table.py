import numpy as np
import pytest

from spear_ray.turntaking.pair_table import ScoredPair, c_index, pair_table
from spear_ray.turntaking.pairs import c_index as counted

KINDS = ("early_entry", "late_response")


def pairs(n=60, shift=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return [
        ScoredPair(kind, f"c{place % 15}", float(before := rng.normal()), float(before + rng.normal(shift)))
        for kind in KINDS
        for place in range(n)
    ]


def test_overall_is_the_mean_of_the_kinds_however_many_pairs_each_has():
    some = [*pairs(60, 2.0)[:60], *pairs(10, -2.0)[10:]]
    table = pair_table(some, 0)
    for name in ("pairwise_accuracy", "c_index", "delta_nll"):
        each = [entry[name] for entry in table["types"].values()]
        assert table["overall"][name] == pytest.approx(np.mean(each))
    assert table["overall"]["n"] == 70
    assert [entry["n"] for entry in table["types"].values()] == [60, 10]


def test_intervals_hold_the_value_and_repeat():
    table = pair_table(pairs(), 3)
    assert table == pair_table(pairs(), 3)
    for entry in (table["overall"], *table["types"].values()):
        for name in ("pairwise_accuracy", "c_index", "delta_nll"):
            low, high = entry[f"{name}_ci95"]
            assert low < entry[name] < high


def test_intervals_resample_conversations_not_pairs():
    one = [ScoredPair("early_entry", f"c{place // 30}", 0.0, 1.0 if place < 30 else -1.0) for place in range(60)]
    low, high = pair_table(one, 0)["overall"]["pairwise_accuracy_ci95"]
    assert (low, high) == (0.0, 1.0)


def test_a_tie_is_not_a_find():
    assert pair_table([ScoredPair("early_entry", "a", 1.0, 1.0)], 0)["overall"]["pairwise_accuracy"] == 0.0


def test_c_index_counts_weighted_cross_pairs():
    rng = np.random.default_rng(1)
    natural, edited = rng.integers(0, 9, 40).astype(float), rng.integers(2, 11, 30).astype(float)
    ones = (np.ones(40), np.ones(30))
    assert c_index(natural, edited, *ones) == pytest.approx(counted(edited, natural).value)
    weights = (rng.integers(0, 3, 40), rng.integers(0, 3, 30))
    repeated = counted(np.repeat(edited, weights[1]), np.repeat(natural, weights[0])).value
    assert c_index(natural, edited, *(weight.astype(float) for weight in weights)) == pytest.approx(repeated)
    assert np.isnan(c_index(np.ones(2), np.ones(2), np.ones(2), np.ones(2)))
