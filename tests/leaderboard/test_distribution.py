import csv
import io
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, spearmanr, wasserstein_distance

from spear_ray.leaderboard.board import CSV_COLUMNS, build, write_csv
from spear_ray.leaderboard.distribution import auroc, clusters, compare, csv_lines, distances, wasserstein
from spear_ray.leaderboard.rows import read_rows
from spear_ray.leaderboard.statistics import draw_weights, percentile_interval, standardised_mean_difference
from spear_ray.scorers.base import Metric

from .tables import CONFIG, row, table

SEEDS = range(5)


def sides(seed, rows=60, conversations=12):
    """Two sides with many ties, some absent values, and conversations that they share in part."""
    generator = np.random.default_rng(seed)
    ours = np.round(generator.normal(0.4, 1.3, rows), 1)
    theirs = np.round(generator.normal(0, 1, rows + 7), 1)
    ours[3] = theirs[5] = np.nan
    names = [f"c{index}" for index in generator.integers(0, conversations, 2 * rows + 7)]
    return (ours, names[:rows]), (theirs, names[rows:])


def present(values):
    return values[np.isfinite(values)]


@pytest.mark.parametrize("seed", SEEDS)
def test_auroc_is_the_mann_whitney_statistic_over_its_range(seed):
    (ours, _), (theirs, _) = sides(seed)
    a, b = present(ours), present(theirs)
    assert auroc(ours, theirs) == pytest.approx(mannwhitneyu(a, b).statistic / (a.size * b.size), abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_wasserstein_is_scipys_in_deviations_of_the_human_rows(seed):
    (ours, _), (theirs, _) = sides(seed)
    a, b = present(ours), present(theirs)
    assert wasserstein(ours, theirs) == pytest.approx(wasserstein_distance(a, b) / np.std(b, ddof=1), rel=1e-12)


def test_shift_by_a_deviation_is_one_wasserstein_away():
    human = np.random.default_rng(0).normal(size=40)
    assert wasserstein(human + np.std(human, ddof=1), human) == pytest.approx(1, rel=1e-12)


def test_wider_spread_shows_in_wasserstein_only():
    human = np.arange(-25.0, 26.0)
    points = compare((3 * human, ["c"] * 51), (human, ["c"] * 51), CONFIG)
    assert points[0][0] == pytest.approx(0.5)
    assert points[1][0] == pytest.approx(0, abs=1e-12)
    assert points[2][0] > 1


def test_order_of_sides_mirrors_auroc_and_smd():
    ours, theirs = sides(1)
    forth, back = compare(ours, theirs, CONFIG), compare(theirs, ours, CONFIG)
    assert forth[0][0] + back[0][0] == pytest.approx(1)
    assert forth[1][0] == pytest.approx(-back[1][0])


@pytest.mark.parametrize("seed", SEEDS)
def test_intervals_equal_those_of_rows_repeated_as_often_as_drawn(seed):
    ours, theirs = sides(seed)
    names = sorted({*ours[1], *theirs[1]})
    weights = draw_weights(len(names), CONFIG.resamples, CONFIG.seed).astype(int)
    drawn = []
    for one in weights:
        a, b = (np.repeat(values, one[[names.index(name) for name in owner]]) for values, owner in (ours, theirs))
        drawn.append((auroc(a, b), standardised_mean_difference(a, b), wasserstein(a, b)))
    expected = [percentile_interval(np.array(values), CONFIG.confidence) for values in zip(*drawn, strict=True)]
    found = [ends for _, *ends in compare(ours, theirs, CONFIG)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_values_far_from_zero_lose_no_digits():
    ours, theirs = sides(2)
    far = compare((ours[0] + 1e7, ours[1]), (theirs[0] + 1e7, theirs[1]), CONFIG)
    np.testing.assert_allclose(far, compare(ours, theirs, CONFIG), rtol=1e-6)


@pytest.mark.parametrize(
    ("system", "human", "expected"),
    [
        ([0.1] * 4, [0.1] * 4, (0.5, 0, 0)),
        ([1.0] * 4, [0.0] * 4, (1, np.inf, np.inf)),
        ([0.0], [1.0, 1.0], (0, -np.inf, np.inf)),
    ],
)
def test_constants(system, human, expected):
    points = compare((np.array(system), ["c"] * len(system)), (np.array(human), ["c"] * len(human)), CONFIG)
    assert tuple(point for point, _, _ in points) == pytest.approx(expected)


def test_side_without_values_has_no_distance():
    nothing, human = np.full(3, np.nan), np.array([1.0, 2.0, 3.0])
    assert np.isnan(compare((nothing, ["a", "b", "c"]), (human, ["a", "b", "c"]), CONFIG)).all()
    assert np.isnan(compare((human, ["a", "b", "c"]), (nothing, ["a", "b", "c"]), CONFIG)).all()


def test_one_conversation_has_points_but_no_intervals():
    ours, theirs = sides(0)
    found = np.array(compare((ours[0], ["c"] * ours[0].size), theirs, CONFIG))
    assert np.isfinite(found[:, 0]).all()
    assert np.isnan(found[:, 1:]).all()


def test_features_that_rank_rows_alike_are_one_group():
    generator = np.random.default_rng(3)
    base, other = generator.normal(size=(2, 200))
    features = {
        "f0": base,
        "noise": other,
        "f0_squashed": np.tanh(base),
        "opposite": -base + 0.1 * generator.normal(size=200),
    }
    assert abs(spearmanr(base, other).statistic) < 0.3
    assert clusters(features) == {"f0": "f0", "noise": "noise", "f0_squashed": "f0", "opposite": "f0"}


def test_groups_join_through_a_chain_and_are_named_after_the_first():
    generator = np.random.default_rng(4)
    a, b, c = generator.normal(size=(3, 500))
    left, right = a + 0.5 * b, a + 0.5 * c
    features = {"left": left, "right": right, "between": left + right}
    assert abs(spearmanr(left, right).statistic) < 0.85 < abs(spearmanr(left, left + right).statistic)
    assert set(clusters(features, threshold=0.85).values()) == {"left"}


def test_few_or_constant_rows_join_nothing():
    short = np.array([1.0, 2, 3, 4, 5, 6, 7, 8, 9])
    assert clusters({"a": short, "b": short}) == {"a": "a", "b": "b"}
    assert clusters({"a": np.ones(50), "b": np.ones(50)}) == {"a": "a", "b": "b"}


def rows_of(*systems, keys=("f0", "pace")):
    generator = np.random.default_rng(6)
    found = []
    for place, system in enumerate(systems):
        for index in range(24):
            metrics = {key: float(generator.normal(place, 1)) for key in keys}
            metrics["f0_copy"] = 2 * metrics[keys[0]]
            found.append(row(system, f"i{index:02d}", f"c{index // 3}", metrics=metrics))
    return found


def test_distances_compare_each_system_with_the_reference_over_all_its_rows():
    rows = {"vad": read_rows("vad", table(rows_of("human", "model")))}
    found = distances(rows, {"vad": ["f0", "absent", "f0_copy", "f0"]}, CONFIG)
    assert [(one.system, one.feature, one.cluster) for one in found] == [
        ("model", "f0", "vad.f0"),
        ("model", "f0_copy", "vad.f0"),
    ]
    ours, human = (rows["vad"].where(rows["vad"].system == name).value("f0") for name in ("model", "human"))
    assert found[0].auroc == pytest.approx(auroc(ours, human))
    assert found[0].auroc_low < found[0].auroc < found[0].auroc_high
    assert (found[0].n, found[0].n_total, found[0].n_human) == (24, 24, 24)


def test_without_the_reference_there_are_no_distances():
    rows = {"vad": read_rows("vad", table(rows_of("a", "b")))}
    assert distances(rows, {"vad": ["f0"]}, CONFIG) == []


def test_fewer_resamples_change_the_ends_only():
    rows = {"vad": read_rows("vad", table(rows_of("human", "model")))}
    (many,), (few,) = (distances(rows, {"vad": ["f0"]}, CONFIG, resamples) for resamples in (None, 20))
    assert (many.auroc, many.smd, many.wasserstein) == (few.auroc, few.smd, few.wasserstein)
    assert (many.auroc_low, many.smd_high) != (few.auroc_low, few.smd_high)


def test_leaderboard_csv_holds_three_lines_for_each_distance():
    metrics = (
        Metric(name="f0", unit="Hz", direction="human", about="."),
        Metric(name="pace", unit="", direction="none", about="."),
    )
    board = build({"vad": table(rows_of("human", "model"))}, {"vad": metrics}, CONFIG)
    file = io.StringIO()
    write_csv(board, file)
    lines = [line for line in csv.DictReader(io.StringIO(file.getvalue())) if "_vs_human" in line["metric"]]
    assert [line["metric"] for line in lines] == [
        "vad.f0:auroc_vs_human",
        "vad.f0:smd_vs_human",
        "vad.f0:wasserstein_vs_human",
    ]
    (distance,) = board.distances
    assert float(lines[0]["value"]) == distance.auroc
    assert float(lines[2]["ci_high"]) == distance.wasserstein_high
    assert {line["subset"] for line in lines} == {"all"}
    assert [line["direction"] for line in lines] == ["human", "human", "lower"]


def test_absent_values_are_blank_in_the_csv():
    rows = {"vad": read_rows("vad", table(rows_of("human", "model")))}
    (distance,) = distances(rows, {"vad": ["f0"]}, CONFIG)
    first = csv_lines([replace(distance, auroc=float("nan"))])[0]
    assert dict(zip(CSV_COLUMNS, first, strict=True))["value"] == ""
