"""The spread of normalised pitch against recorded results of SPEARBench's published code."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spear_ray.leaderboard import published
from spear_ray.leaderboard.spearbench import HUMAN
from spear_ray.leaderboard.statistics import estimate
from spear_ray.prosody.f0 import NORMALISED, answered_speaker, speaker_number
from tests.golden_cases import GOLDEN, files

COLUMN = "explainable_normalized_f0_std_avg"
PROSODY = published.FILES["prosody"]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(lines: list[dict[str, str]], *names: str) -> Any:
    return np.array([[float(line.get(name) or "nan") for name in names] for line in lines])


def speakers(folder: Path) -> list[str]:
    """Of each row of features.csv: metadata joins on the answer's file name, its first line wins."""
    texts: dict[str, str] = {}
    for line in read(folder / "metadata.csv"):
        texts.setdefault(Path(line["answer_audio_path"]).stem, line["transcript_question"])
    return [answered_speaker(texts.get(line["orig_id"])) for line in read(folder / "features.csv")]


def folders() -> list[Path]:
    return [path for path in files("f0_normalise*") if path.is_dir()]


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_the_answered_speaker_is_the_published_one(folder: Path) -> None:
    expected = [line["answered_speaker"] for line in read(folder / "expected_normalized.csv")]
    assert speakers(folder) == expected


@pytest.mark.parametrize("folder", folders(), ids=lambda path: path.name)
def test_rows_in_hz_give_the_spread_of_the_published_normalised_rows(folder: Path) -> None:
    expected = read(folder / "expected_normalized.csv")
    table = {name: [line[name] for line in expected] for name in expected[0]}
    value = published.benchmark_values("any", {"prosody": [table]}, ())[COLUMN]
    who = np.array([[speaker_number(tag)] for tag in speakers(folder)])
    features = numbers(read(folder / "features.csv"), "f0_mean_raw", *NORMALISED)
    assert estimate(np.hstack([who, features]), "normalised_deviation") == pytest.approx(value, abs=1e-9)


def lines_of_all_subsets() -> list[Any]:
    path = GOLDEN / "expected_benchmark.csv"
    lines = read(path) if path.is_file() else []
    return [pytest.param(line, id=line["model"]) for line in lines if line[COLUMN]]


@pytest.mark.parametrize("line", lines_of_all_subsets())
def test_rows_that_are_normalised_already_give_the_published_column(line: dict[str, str]) -> None:
    model = "original" if line["model"] == HUMAN else line["model"]
    rows = [row for path in sorted((GOLDEN / "results" / model).glob(f"*/*/{PROSODY}")) for row in read(path)]
    done = np.hstack([np.tile([0.0, 1.0], (len(rows), 1)), numbers(rows, *NORMALISED)])
    # Some files lack a column: the published code takes each column over the rows that have it.
    each = [estimate(done[:, [0, 1, column]], "normalised_deviation") for column in range(2, done.shape[1])]
    assert np.nanmean(each) == pytest.approx(float(line[COLUMN]), abs=1e-9)
    if len({tuple(np.isfinite(row)) for row in done[np.isfinite(done).sum(axis=1) > 2]}) == 1:
        assert estimate(done, "normalised_deviation") == pytest.approx(float(line[COLUMN]), abs=1e-9)
