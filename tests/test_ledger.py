import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spear_ray.dialogue import Score, Status
from spear_ray.errors import StorageError
from spear_ray.ledger import SCHEMA, Ledger, Rows, ScoreFile, missing_rows, table_of, todo_by_row
from spear_ray.store import Store

PRINT = "0123456789abcdef"
OTHER = "fedcba9876543210"


def score(number: int, **rest) -> Score:
    row = Score(
        dialogue_id=f"human/test/improvised/{number}",
        conversation_id=f"c{number // 2}",
        system="human",
        split="test",
        subset="improvised",
        scorer="vad",
        version="1",
        fingerprint=PRINT,
        status=Status.OK,
        metrics={"latency_ms": -12.5 + number, "answered": 1.0},
        details={"notes": ["größer"], "segments": [[0.1, 0.2]], "none": None},
    )
    return replace(row, **rest)


def scores(first: int, end: int, fingerprint: str = PRINT) -> list[Score]:
    return [score(number, fingerprint=fingerprint) for number in range(first, end)]


@pytest.fixture
def ledger(tmp_path) -> Ledger:
    return Ledger(Store(str(tmp_path)))


def file_names(ledger: Ledger) -> list[str]:
    return list(ledger.store.files())


def test_committed_rows_are_read_back_as_they_were(ledger):
    failed = score(1, status=Status.ERROR, code="audio_empty", message="no bytes", metrics={}, details=None)
    ledger.commit("s", 4, [score(0), failed])
    first, second = ledger.read("vad", PRINT, details=True).to_pylist()
    assert dict(first["metrics"]) == {"latency_ms": -12.5, "answered": 1.0}
    assert (first["status"], first["code"], first["message"]) == ("ok", None, None)
    assert (first["dialogue_id"], first["conversation_id"]) == ("human/test/improvised/0", "c0")
    assert (first["scorer"], first["version"], first["fingerprint"]) == ("vad", "1", PRINT)
    assert first["details"] == '{"notes": ["gr\\u00f6\\u00dfer"], "segments": [[0.1, 0.2]], "none": null}'
    assert (second["status"], second["code"], second["message"]) == ("error", "audio_empty", "no bytes")
    assert (second["metrics"], second["details"]) == ([], None)


def test_metric_values_survive_to_the_last_bit(ledger):
    values = {f"m{number}": float(value) for number, value in enumerate(np.random.default_rng(0).normal(0, 1e3, 50))}
    ledger.commit("s", 0, [score(0, metrics=values)])
    assert dict(ledger.read("vad", PRINT)["metrics"][0].as_py()) == values


def test_columns_are_the_published_ones(ledger):
    ledger.commit("s", 0, scores(0, 1))
    (name,) = file_names(ledger)
    read = pq.read_schema(io.BytesIO(ledger.store.read(name)))
    assert read.equals(SCHEMA)
    assert read.names[-5:] == ["status", "code", "message", "metrics", "details"]


def test_value_that_is_no_number_cannot_enter_the_details():
    with pytest.raises(ValueError, match="JSON compliant"):
        table_of([score(0, details={"x": float("nan")})])


def test_done_lists_committed_rows_by_shard_in_order(ledger):
    ledger.commit("a", 5, scores(5, 7))
    ledger.commit("a", 0, scores(0, 5))
    ledger.commit("b", 3, scores(3, 4))
    assert ledger.done("vad", PRINT) == {"a": [Rows(0, 5), Rows(5, 7)], "b": [Rows(3, 4)]}


def test_rows_of_another_fingerprint_or_scorer_are_not_done(ledger):
    ledger.commit("a", 0, scores(0, 5, OTHER))
    assert ledger.done("vad", PRINT) == {}
    assert ledger.done("emotion", OTHER) == {}
    assert ledger.read("vad", PRINT, details=True).schema.equals(SCHEMA)
    assert ledger.read("vad", PRINT, details=True).num_rows == 0


@pytest.mark.parametrize("fingerprint", [PRINT, OTHER])
def test_details_are_read_only_where_they_are_asked_for(ledger, fingerprint):
    ledger.commit("a", 0, scores(0, 5))
    plain, whole = (ledger.read("vad", fingerprint, details=details) for details in (False, True))
    assert plain.schema.names == SCHEMA.names[:-1]
    assert plain.equals(whole.drop_columns("details"))


def test_committing_again_replaces_and_does_not_add(ledger):
    ledger.commit("a", 0, scores(0, 3))
    ledger.commit("a", 0, scores(0, 3))
    assert ledger.read("vad", PRINT).num_rows == 3


def test_reading_gathers_all_files(ledger):
    for first in range(0, 60, 2):
        ledger.commit(f"s{first % 3}", first, scores(first, first + 2))
    ids = ledger.read("vad", PRINT)["dialogue_id"].to_pylist()
    assert sorted(ids) == sorted(row.dialogue_id for row in scores(0, 60))


def test_retired_rows_of_another_fingerprint_are_kept_aside_and_come_back(ledger):
    ledger.commit("a", 0, scores(0, 3, OTHER))
    ledger.retire("vad", PRINT, ["a"])
    assert ledger.done("vad", OTHER) == {}
    assert [name.split("/")[0] for name in file_names(ledger)] == ["superseded"]
    ledger.retire("vad", OTHER, ["a"])
    assert ledger.done("vad", OTHER) == {"a": [Rows(0, 3)]}
    assert ledger.read("vad", OTHER).num_rows == 3


def test_rows_of_shards_that_are_no_longer_there_are_kept_aside(ledger):
    ledger.commit("a", 0, scores(0, 3))
    ledger.commit("b", 0, scores(0, 2))
    ledger.retire("vad", PRINT, ["b"])
    assert ledger.done("vad", PRINT) == {"b": [Rows(0, 2)]}
    ledger.retire("vad", PRINT, ["a", "b"])
    assert ledger.done("vad", PRINT) == {"a": [Rows(0, 3)], "b": [Rows(0, 2)]}


def test_retiring_leaves_other_scorers_alone(ledger):
    ledger.commit("a", 0, [score(0, scorer="emotion", fingerprint=OTHER)])
    ledger.retire("vad", PRINT, ["a"])
    assert ledger.done("emotion", OTHER) == {"a": [Rows(0, 1)]}


def test_write_that_dies_half_way_leaves_no_file(ledger, monkeypatch):
    def die(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spear_ray.store.os.fsync", die)
    with pytest.raises(KeyboardInterrupt):
        ledger.commit("a", 0, scores(0, 3))
    assert ledger.done("vad", PRINT) == {}
    assert file_names(ledger) == []


def test_process_killed_half_way_leaves_only_a_file_that_is_not_looked_at(ledger, monkeypatch):
    # A killed process cleans nothing up: the temporary file stays as it was before it got its name.
    kept: dict[str, bytes] = {}

    def die(source: str, target: object) -> None:
        kept[Path(source).name] = Path(source).read_bytes()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("spear_ray.store.os.replace", die)
        with pytest.raises(KeyboardInterrupt):
            ledger.commit("a", 0, scores(0, 3))
    ((name, data),) = kept.items()
    left = f"scores/vad/{name}"
    Path(ledger.store.path(left)).write_bytes(data[: len(data) // 2])
    assert left in file_names(ledger)
    assert ledger.done("vad", PRINT) == {}
    assert ledger.read("vad", PRINT).num_rows == 0
    ledger.retire("vad", OTHER, [])
    ledger.commit("a", 0, scores(0, 3))
    assert ledger.read("vad", PRINT).num_rows == 3


def test_file_with_another_number_of_rows_than_its_name_says_is_an_error(ledger):
    ledger.commit("a", 0, scores(0, 3))
    (name,) = file_names(ledger)
    ledger.store.move(name, name.replace("000003", "000004"))
    with pytest.raises(StorageError, match=r"holds 3 rows"):
        ledger.read("vad", PRINT)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.95])
def test_cut_file_is_an_error_that_names_it(ledger, share):
    ledger.commit("a", 0, scores(0, 3))
    (name,) = file_names(ledger)
    data = ledger.store.read(name)
    ledger.store.write(name, data[: int(share * len(data))])
    with pytest.raises(StorageError, match=r"a\.000000-000003\..*cannot be read"):
        ledger.read("vad", PRINT)


def test_file_with_other_columns_is_an_error(ledger):
    ledger.commit("a", 0, scores(0, 3))
    (name,) = file_names(ledger)
    buffer = io.BytesIO()
    pq.write_table(pa.table({"dialogue_id": ["x"] * 3, "metrics": [1, 2, 3]}), buffer)
    ledger.store.write(name, buffer.getvalue())
    with pytest.raises(StorageError, match="cannot be read"):
        ledger.read("vad", PRINT)


@pytest.mark.parametrize(
    "shard",
    [
        "a",
        "human-test-improvised-000000-0123456789ab",
        "a.b",
        "a.000001-000002.b",
        "-",
        "a b",
        f"x.000000-000001.{OTHER}",
    ],
)
@pytest.mark.parametrize("rows", [Rows(0, 1), Rows(999_999, 1_000_000), Rows(1_000_000, 12_345_678)])
def test_name_says_shard_rows_and_fingerprint(shard, rows):
    file = ScoreFile(shard, rows, PRINT)
    assert ScoreFile.parse(file.name) == file


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.parquet",
        f"a.000000-000003.{PRINT}",
        f".a.000000-000003.{PRINT}.parquet.part",
        f"a.0-3.{PRINT}.parquet",
        f"a.000000-000003.{PRINT.upper()}.parquet",
        f"a.000000-000003.{PRINT[:-1]}.parquet",
        f".000000-000003.{PRINT}.parquet",
    ],
)
def test_other_names_are_not_score_files(name):
    assert ScoreFile.parse(name) is None


@pytest.mark.parametrize("seed", range(30))
def test_missing_rows_and_done_rows_are_each_row_once(seed):
    random = np.random.default_rng(seed)
    edges = np.sort(random.choice(101, size=8, replace=False))
    done = [Rows(int(first), int(end)) for first, end in edges.reshape(-1, 2)]
    missing = missing_rows(100, [done[place] for place in random.permutation(len(done))])
    covered = [row for rows in [*done, *missing] for row in range(rows.first, rows.end)]
    assert sorted(covered) == list(range(100))
    assert all(rows.end > rows.first for rows in missing)


def test_overlapping_done_rows_are_not_missing():
    assert missing_rows(10, [Rows(0, 6), Rows(4, 5), Rows(3, 8)]) == [Rows(8, 10)]


def test_nothing_is_missing_of_nothing():
    assert missing_rows(0, []) == []


def test_todo_names_for_each_row_the_scorers_that_lack_it():
    missing = {"vad": [Rows(0, 2), Rows(4, 5)], "emotion": [Rows(1, 3)]}
    assert todo_by_row(5, missing) == {0: ("vad",), 1: ("vad", "emotion"), 2: ("emotion",), 4: ("vad",)}


def test_todo_holds_no_row_beyond_the_shard():
    assert list(todo_by_row(3, {"vad": [Rows(2, 9)]})) == [2]


def test_rows_that_two_files_hold_are_kept_once_and_what_was_lost_is_missing(ledger):
    ledger.commit("s", 0, scores(0, 6))
    ledger.commit("s", 4, scores(4, 10))
    ledger.retire("vad", PRINT, ["s"])
    assert ledger.done("vad", PRINT) == {"s": [Rows(0, 6)]}
    assert missing_rows(10, ledger.done("vad", PRINT)["s"]) == [Rows(6, 10)]


def test_details_of_single_rows_are_found_by_their_place_in_the_table(ledger):
    for first, end in ((0, 3), (3, 5), (5, 7)):
        ledger.commit("a", first, [score(number, details={"is": number}) for number in range(first, end)])
    ids = ledger.read("vad", PRINT)["dialogue_id"].to_pylist()
    places = [6, 0, 3]
    found = [json.loads(text)["is"] for text in ledger.details("vad", PRINT, places)]
    assert found == [int(ids[place].rpartition("/")[2]) for place in places]
