import re
from dataclasses import replace

import pytest

from spear_ray.leaderboard.board import build
from spear_ray.leaderboard.distribution import FIELDS, FeatureDistance
from spear_ray.leaderboard.feature_map import feature_map

from .tables import CONFIG, VAD, row, table
from .test_report import EVIL, Page, people_and


def distance(system="model", feature="f0", scorer="prosody", cluster=None, **changes):
    values = dict.fromkeys(FIELDS, 0.5) | changes
    return FeatureDistance(
        system=system,
        reference="human",
        scorer=scorer,
        feature=feature,
        cluster=cluster or f"{scorer}.{feature}",
        n=11,
        n_total=12,
        n_human=12,
        **values,
    )


def map_of(*distances, systems=("model",)):
    board = build({"vad": table(people_and(*systems))}, {"vad": VAD}, CONFIG)
    return feature_map(replace(board, distances=distances))


def colours(html):
    return [int(part) for part in re.findall(r"color-mix\(in srgb,var\(--(?:above|below)\) (\d+)%", html)]


def test_each_group_of_features_has_one_line_and_each_feature_one_below():
    alike = (distance(), distance(feature="f0_std", cluster="prosody.f0"), distance(scorer="quality", feature="dnsmos"))
    above, below = map_of(*alike).split("<details>")
    rows = r"<th class='text' scope='row'>([^<]*)"
    assert re.findall(rows, above) == ["f0", "dnsmos"]
    assert "with f0 std" in above
    assert re.findall(rows, below) == ["f0", "f0 std", "dnsmos"]


def test_line_names_three_of_the_features_that_go_with_it():
    many = [distance(feature=f"f{index}", cluster="prosody.f0") for index in range(1, 6)]
    assert "<small>with f1, f2, f3 and 2 more</small>" in map_of(distance(), *many)


def test_group_without_a_value_of_its_first_feature_stands_under_the_next():
    html = map_of(distance(auroc=float("nan")), distance(feature="f0_std", cluster="prosody.f0"))
    assert re.findall(r"scope='row'>([^<]*)", html.split("<details>")[0]) == ["f0 std"]


def test_colour_grows_with_the_difference_up_to_two_deviations():
    cells = [distance(feature=f"f{smd}", smd=smd) for smd in (0.0, 0.5, 1.0, 2.0, 9.0, float("inf"))]
    shown = colours(map_of(*cells).split("<details>")[0])
    assert shown[0] < shown[1] < shown[2] == shown[3] == shown[4]
    assert len(shown) == 5, "no difference has no colour"


def test_features_in_which_nobody_differs_are_one_sentence():
    same = distance(feature="pauses", smd=0.0)
    above, below = map_of(distance(smd=1.0), same, distance("b", "pauses", smd=0.0)).split("<details>")
    assert re.findall(r"scope='row'>([^<]*)", above) == ["f0"]
    assert "No difference in any system: pauses (prosody)." in above
    assert re.findall(r"scope='row'>([^<]*)", below) == ["f0", "pauses"]
    assert "pauses" in re.findall(r"scope='row'>([^<]*)", map_of(same, distance("b", "pauses")).split("<details>")[0])


@pytest.mark.parametrize(("smd", "side"), [(0.7, "above"), (-0.7, "below")])
def test_side_has_its_own_colour_and_sign(smd, side):
    html = map_of(distance(smd=smd)).split("<details>")[0]
    assert f"var(--{side})" in html
    assert f"{'+' if smd > 0 else '−'}0.70<small>AUROC 0.500" in html


def test_columns_are_systems_in_the_order_of_the_page_and_absent_cells_are_dashes():
    html = map_of(distance("b"), distance("a"), distance("a", "pace"), systems=("a", "b")).split("<details>")[0]
    assert re.findall(r"scope='col'>([^<]*)", html) == ["feature", "a", "b"]
    assert html.count("<td>–</td>") == 1


def test_folded_table_has_all_three_intervals():
    below = map_of(distance(auroc_low=0.25, smd_high=1.75, wasserstein_low=0.125)).split("<details>")[1]
    assert "AUROC 0.500 [0.250, 0.500]" in below
    assert "[+0.500, +1.750]" in below
    assert "Wasserstein 0.500 SD [0.125, 0.500]" in below


def test_without_distances_there_is_no_map():
    assert map_of() == ""
    assert map_of(distance(auroc=float("nan"))) == ""


def test_names_are_escaped_and_tags_close():
    html = map_of(distance(EVIL), distance(EVIL, EVIL), systems=(EVIL,))
    assert EVIL not in html
    assert "alert" in Page(html).text


def test_real_rows_reach_the_map():
    rows = [*people_and("model"), row("other", "i00", metrics={"latency_ms": 1.0})]
    html = feature_map(build({"vad": table(rows)}, {"vad": VAD}, CONFIG))
    assert "latency ms" in html
    assert re.findall(r"scope='col'>([^<]*)", html.split("<details>")[0])[0] == "feature"
