"""SPEARBench's aggregation against recorded results of its published code."""

import csv
from pathlib import Path

import numpy as np
import pytest
from golden_cases import GOLDEN, json_cases

from spear_ray.leaderboard import published, published_rules
from spear_ray.leaderboard.spearbench import COLUMNS, HUMAN

SPLIT = "test"
SUBSETS = ("improvised", "naturalistic")
HUMAN_FOLDER = "original"


def read_lines(name: str) -> list[dict[str, str]]:
    path = GOLDEN / name
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def read_table(path: Path) -> dict[str, list[str]]:
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    return {name: [row[name] or "" for row in rows] for name in reader.fieldnames or ()}


def read_tables(folder: Path, kind: str, subsets: tuple[str, ...]) -> list[dict[str, list[str]]]:
    name = published.FILES[kind]
    places = [folder] if kind == "dialect_vectors" else [folder / subset for subset in subsets]
    return [read_table(place / name) for place in places if (place / name).is_file()]


def computed(model: str, subsets: tuple[str, ...]) -> dict[str, float]:
    folder = GOLDEN / "results" / (HUMAN_FOLDER if model == HUMAN else model) / SPLIT
    tables = {kind: read_tables(folder, kind, subsets) for kind in published.FILES}
    return published.benchmark_values(model, tables, subsets)


def check(line: dict[str, str], subsets: tuple[str, ...]) -> None:
    values = computed(line["model"], subsets)
    wrong = {
        column: (values.get(column), text)
        for column, text in line.items()
        if column not in ("protocol", "model") and not close(column, values[column], text)
    }
    assert not wrong


def close(column: str, value: float, text: str) -> bool:
    if text == "":
        return bool(np.isnan(value))
    return abs(value - float(text)) <= (1e-6 if "%" in column else 1e-9)


def cases(name: str) -> list:
    lines = read_lines(name)
    return [pytest.param(line, id=f"{line['protocol']}-{line['model']}") for line in lines]


@pytest.mark.parametrize("line", cases("expected_benchmark.csv"))
def test_golden_benchmark_line(line):
    assert tuple(line) == COLUMNS
    check(line, SUBSETS)


@pytest.mark.parametrize("line", cases("expected_benchmark_with_std.csv"))
def test_golden_benchmark_line_with_deviations(line):
    check(line, SUBSETS)


@pytest.mark.parametrize("line", cases("expected_benchmark_single_subset.csv"))
def test_golden_benchmark_line_of_one_subset(line):
    check(line, (line["protocol"].removeprefix("subset="),))


@pytest.mark.parametrize(("path", "case"), json_cases("entrainment_cases*.json"))
def test_golden_entrainment(path, case):
    question, answer = (np.array(case[side], dtype=np.float64) for side in ("question", "answer"))
    expected = [np.nan if case[name] is None else case[name] for name in ("slope", "trace")]
    found = [published_rules.entrainment_slope(question, answer), published_rules.total_variance(answer)]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
