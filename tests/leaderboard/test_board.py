import csv
import io
import math
import random

import pyarrow as pa
import pytest

from spear_ray.config import LeaderboardConfig
from spear_ray.errors import ConfigError, RequestError
from spear_ray.leaderboard.board import CSV_COLUMNS, Board, build, write_csv
from spear_ray.leaderboard.rows import MixedFingerprints
from spear_ray.scorers.base import Metric

from .tables import CONFIG, VAD, row, table


def board_of(rows, config=CONFIG, **metrics) -> Board:
    return build({"vad": table(rows)}, {"vad": VAD} | metrics, config)


def answers(system, latencies, **changes):
    return [
        row(
            system,
            f"i{index:03d}",
            f"c{index // 2:03d}",
            metrics={"answered": 1.0, "latency_ms": latency, "interrupted": float(latency < 0)},
            **changes,
        )
        for index, latency in enumerate(latencies)
    ]


def people_and_model():
    return [
        *answers("human", [100, 200, 300, -400, 250, 150]),
        *answers("model", [900, 800, 700, 950, 850, 600]),
    ]


def lines(board) -> list[dict[str, str]]:
    file = io.StringIO()
    write_csv(board, file)
    return list(csv.DictReader(io.StringIO(file.getvalue())))


def test_pooled_value_is_a_mean_of_rows_not_of_subsets():
    rows = [*answers("human", [100, 100, 100]), *answers("human", [500], subset="naturalistic")]
    board = board_of(rows)
    assert board.entry("human", "latency_ms").value == 200
    assert board.entry("human", "latency_ms", "improvised").value == 100
    assert board.entry("human", "latency_ms", "naturalistic").value == 500
    assert board.subsets == ("all", "improvised", "naturalistic")


def test_n_counts_rows_with_the_value_and_n_total_all_rows():
    rows = [
        *answers("human", [100, 300]),
        row("human", "silent", metrics={"answered": 0.0}),
        row("human", "broken", status="error", code="audio_decode", message="cannot decode"),
    ]
    board = board_of(rows)
    latency, answered = board.entry("human", "latency_ms"), board.entry("human", "answered")
    assert (latency.value, latency.n, latency.n_total) == (200, 2, 4)
    assert (answered.value, answered.n, answered.n_total) == (pytest.approx(200 / 3), 3, 4)


def test_median_metric_is_a_median():
    assert board_of(answers("human", [0, 10, 1000])).entry("human", "latency_median_ms").value == 10


def test_board_does_not_depend_on_the_order_of_rows():
    rows = people_and_model()
    shuffled = random.Random(3).sample(rows, len(rows))
    assert lines(board_of(rows)) == lines(board_of(shuffled))


def test_board_reads_tables_of_several_chunks_and_slices():
    rows = people_and_model()
    padded = table([row("x", "before", metrics={"answered": 0.0}), *rows]).slice(1)
    chunked = pa.concat_tables([table(rows[:4]), table(rows[4:])])
    expected = lines(board_of(rows))
    assert lines(build({"vad": padded}, {"vad": VAD}, CONFIG)) == expected
    assert lines(build({"vad": chunked}, {"vad": VAD}, CONFIG)) == expected


def test_rows_with_two_fingerprints_are_refused():
    rows = [*answers("human", [1]), *answers("model", [2], fingerprint="e" * 16)]
    with pytest.raises(MixedFingerprints, match=r"scorer vad.*eeee.*ffff") as caught:
        board_of(rows)
    assert isinstance(caught.value, RequestError)
    assert caught.value.code == "mixed_fingerprints"


def test_auto_takes_the_test_split_where_there_is_one():
    rows = [*answers("human", [100]), *answers("human", [900], split="dev")]
    board = board_of(rows)
    assert (board.split, board.entry("human", "latency_ms").value) == ("test", 100)
    assert board_of(answers("human", [900], split="dev")).split == ""


def test_named_split_counts_alone_and_must_exist():
    rows = [*answers("human", [100]), *answers("human", [900], split="dev")]
    assert board_of(rows, LeaderboardConfig(split="dev")).entry("human", "latency_ms").value == 900
    with pytest.raises(ConfigError, match=r"leaderboard\.split=train: the rows have dev, test"):
        board_of(rows, LeaderboardConfig(split="train"))


def test_reference_comes_first_then_the_nearest():
    rows = [
        *answers("a-far", [3000, 2900, 3100, 3000, 2950, 3050]),
        *answers("b-near", [110, 210, 310, -380, 260, 160]),
        *answers("human", [100, 200, 300, -400, 250, 150]),
    ]
    board = board_of(rows)
    assert board.systems == ("human", "b-near", "a-far")
    assert board.standings[0].distance == 0
    assert 0 < board.standings[1].distance < 0.2 < board.standings[2].distance


def test_distance_is_the_mean_of_absolute_standardised_differences():
    board = board_of(people_and_model())
    found = {one.entry.metric: one.standardised for one in board.differences if one.entry.subset == "all"}
    expected = (abs(found["answered"]) + abs(found["latency_ms"]) + abs(found["interrupted"])) / 3
    assert board.standings[1].distance == pytest.approx(expected)
    assert found["answered"] == 0


def test_system_without_a_headline_value_has_no_distance_and_the_reason_is_kept():
    silent = [row("mute", f"i{index}", f"c{index}", metrics={"answered": 0.0}) for index in range(4)]
    board = board_of([*people_and_model(), *silent])
    mute = board.standings[-1]
    assert (mute.system, mute.distance) == ("mute", None)
    assert "latency_ms" in mute.reason
    assert any("mute has no distance" in note for note in board.notes)


def test_headline_metric_that_nobody_has_does_not_count():
    mos = (Metric(name="mos", unit="", direction="higher", headline=True, about="Quality."),)
    skipped = table(
        [
            {**one, "scorer": "quality", "status": "skipped", "code": "checkpoint_missing", "metrics": {}}
            for one in people_and_model()
        ]
    )
    rows = {"vad": table(people_and_model()), "quality": skipped}
    board = build(rows, {"vad": VAD, "quality": mos}, CONFIG)
    assert board.standings[1].distance == board_of(people_and_model()).standings[1].distance
    assert board.entry("model", "mos").n == 0


def test_without_the_reference_there_is_no_ranking():
    board = board_of([*answers("b", [1, 2, 3]), *answers("a", [4, 5, 6])])
    assert board.systems == ("a", "b")
    assert [standing.distance for standing in board.standings] == [None, None]
    assert not board.has_reference
    assert not board.differences
    assert any("no ranking" in note for note in board.notes)


def test_absent_values_are_blank_in_the_csv():
    found = {line["metric"]: line for line in lines(board_of([row("human", "i0", metrics={"answered": 0.0})]))}
    latency = found["latency_ms"]
    assert (latency["value"], latency["ci_low"], latency["ci_high"]) == ("", "", "")
    assert (latency["n"], latency["n_total"]) == ("0", "1")
    assert found["answered"]["value"] == "0.0"
    assert found["answered"]["ci_low"] == ""


def test_csv_has_the_agreed_columns_and_rows_for_differences():
    found = lines(board_of(people_and_model()))
    assert tuple(found[0]) == CSV_COLUMNS
    assert [line["system"] for line in found] == sorted(line["system"] for line in found)
    pooled = {line["metric"]: line for line in found if (line["system"], line["subset"]) == ("model", "all")}
    latency, minus = pooled["latency_ms"], pooled["latency_ms:minus_human"]
    assert float(minus["value"]) == pytest.approx(float(latency["value"]) - 100)
    assert float(minus["ci_low"]) <= float(minus["value"]) <= float(minus["ci_high"])
    p = pooled["latency_ms:mann_whitney_p"]
    assert (p["unit"], p["direction"], p["ci_low"]) == ("p", "none", "")
    assert 0 < float(p["value"]) < 0.05
    assert not [line for line in found if line["system"] == "human" and ":" in line["metric"]]


def test_csv_numbers_read_back_exactly():
    board = board_of(answers("human", [0.1, 0.2, 0.4]))
    value = next(line for line in lines(board) if line["metric"] == "latency_ms")["value"]
    assert float(value) == board.entry("human", "latency_ms").value


def test_same_name_in_two_scorers_is_told_apart():
    other = (Metric(name="answered", unit="%", direction="human", about="Another view."),)
    rows = {"vad": table(people_and_model()), "talk": table(people_and_model())}
    board = build(rows, {"vad": VAD, "talk": other}, CONFIG)
    names = {entry.metric for entry in board.entries}
    assert {"vad.answered", "talk.answered", "latency_ms"} <= names
    assert "answered" not in names


def test_outcomes_count_rows_by_status_and_code_with_an_example():
    broken = [
        row(
            "human",
            f"x{index:02d}",
            status="error",
            code="audio_decode",
            message=f"file {index}",
            split="dev",
        )
        for index in range(25)
    ]
    board = board_of([*answers("human", [1, 2]), *broken])
    ok, error = sorted(board.outcomes, key=lambda one: one.status, reverse=True)
    assert (ok.status, ok.count, ok.code) == ("ok", 2, "")
    assert (error.code, error.count, error.message) == ("audio_decode", 25, "file 0")
    assert len(error.dialogue_ids) == 20


def test_value_that_is_not_finite_is_absent():
    rows = [*answers("human", [100]), row("human", "odd", metrics={"latency_ms": math.inf})]
    entry = board_of(rows).entry("human", "latency_ms")
    assert (entry.value, entry.n, entry.n_total) == (100, 1, 2)
