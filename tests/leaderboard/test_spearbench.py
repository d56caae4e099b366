import csv
import io

import numpy as np
import pytest

from spear_ray.leaderboard import published, published_rules
from spear_ray.leaderboard.board import build
from spear_ray.leaderboard.spearbench import COLUMNS, benchmark_lines, write_benchmark

from .tables import CONFIG, VAD, row, table


@pytest.fixture
def board():
    rows = [
        row(
            system,
            f"i{index}",
            f"c{index}",
            metrics={"spear_latency_ms": 100.0 + index, "interrupted": index % 2},
        )
        for system in ("zeta", "human", "alpha")
        for index in range(4)
    ]
    rows += [row("human", "n", "c9", subset="naturalistic", metrics={"spear_latency_ms": 900.0})]
    return build({"vad": table(rows)}, {"vad": VAD}, CONFIG)


def test_human_stands_first_then_the_alphabet(board):
    assert [line["model"] for line in benchmark_lines(board)] == ["human", "alpha", "zeta"]


def test_columns_hold_pooled_values_of_the_metrics_that_name_them(board):
    human, alpha, _ = benchmark_lines(board)
    assert float(human["latency_ms"]) == pytest.approx((406 + 900) / 5)
    assert float(alpha["interruptions_%"]) == 50
    assert alpha["protocol"] == "seamless_2t_2s_questions"


def test_columns_without_a_value_are_blank(board):
    line = benchmark_lines(board)[0]
    assert line["interrupted_time_ms"] == ""
    assert line["UTMOS"] == ""


def test_file_has_the_header_and_one_line_for_each_system(board):
    file = io.StringIO()
    write_benchmark(board, file)
    written = list(csv.reader(io.StringIO(file.getvalue())))
    assert tuple(written[0]) == COLUMNS
    assert [line[1] for line in written[1:]] == ["human", "alpha", "zeta"]


def test_published_table_discards_negative_latencies():
    table = {"latency": ["-50", "100", "", "300"]}
    assert published.benchmark_values("x", {"base": [table]}, ())["latency_ms"] == 200


def test_published_interruptions_count_a_blank_row_but_overlap_leaves_it_out():
    table = {"interrupted": ["0", "500", "", "300"], "interruptions": ["0", "1", "", "1"]}
    values = published.benchmark_values("x", {"base": [table]}, ())
    assert values["interruptions_%"] == 50
    assert values["interrupted_time_ms"] == pytest.approx(800 / 3)


def test_published_table_leaves_out_interruptions_of_systems_that_cannot_interrupt():
    table = {"interrupted": ["0", "500"], "latency": ["1", "2"]}
    values = published.benchmark_values("mini-omni", {"base": [table]}, ())
    assert np.isnan(values["interruptions_%"])
    assert values["latency_ms"] == 1.5


def test_published_error_rate_ignores_the_plain_column_beside_a_named_recogniser():
    tables = [{"WER": ["9", "9"]}, {"WER": ["9"], "WER_a": ["0.1"], "WER_b": ["0.3"]}]
    rates = published_rules.error_rates(tables, "WER")
    assert published_rules.mean(rates) == pytest.approx(0.2)
    assert published_rules.mean(published_rules.error_rates(tables[:1], "WER")) == 9


def test_published_stance_reference_gives_a_third_category_none():
    related = "Calmness|Avoidance|Aggression"
    found = [published_rules.stance_reference(name, related) for name in ("calmness ", "Avoidance", "Aggression")]
    np.testing.assert_array_equal(found, [2, -2, np.nan])
    assert np.isnan(published_rules.stance_reference("", ""))


def test_published_stances_are_turned_round_for_four_categories_only():
    reference, score = np.array([-2.0]), np.array([-1.0])
    assert published_rules.stance_shares(reference, score, ["Callousness"]) == (1, 1, 0)
    assert published_rules.stance_shares(reference, score, ["Coldness"]) == (1, 0, 1)
