"""Whatever is wrong with a row, the run goes on, the row says why, and no row is lost."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from bad_rows import AUDIOS, CASES, Case, codes, packed, read_all, source_of
from datasets import (
    COLUMNS,
    RATE_HZ,
    Row,
    answer_bytes,
    audio_bytes,
    clip_bytes,
    recordings,
    spearbench,
    speech,
    tone,
    two_channels,
    write_audio,
    write_csv,
)

from spear_ray import cli, packing
from spear_ray.dialogue import Status
from spear_ray.scorers.vad import VadConfig, VadScorer

ROOT = Path(__file__).resolve().parent.parent
RUN_SECONDS = 240
GOOD_ROWS = 6
ENCODED = {"bom-and-crlf": "utf-8-sig", "latin": "latin-1"}


def reencode(table: Path, encoding: str) -> None:
    text = table.read_text(encoding="utf-8").replace("\n", "\r\n")
    table.write_bytes(text.encode(encoding))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All cases in one data set, and two subsets whose metadata.csv is written in other ways."""
    folder = spearbench(tmp_path_factory.mktemp("data"), *(case.row for case in CASES))
    for subset, encoding in ENCODED.items():
        spearbench(folder, Row("für Elise"), Row("naïve"), subset=subset)
        reencode(folder / f"outputs/original/test/{subset}/metadata.csv", encoding)
    return folder


@dataclass(frozen=True)
class Run:
    """What one run of the job left behind."""

    exit_code: int
    output: str
    rows: dict[str, dict[str, Any]]
    lines: int
    record: dict[str, Any]

    def row(self, name: str) -> dict[str, Any]:
        return self.rows[f"human/test/improvised/{name}"]


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The real job on the bad data set, once."""
    out = tmp_path_factory.mktemp("run")
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    command = [sys.executable, "jobs/full_bench.py", f"data.uri={folder}", f"run.uri={out}", "data.rows_per_shard=16"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    lines = pq.read_table(out / "scores/vad").to_pylist()
    record = json.loads((out / "run.json").read_text())
    return Run(
        done.returncode, done.stdout + done.stderr, {row["dialogue_id"]: row for row in lines}, len(lines), record
    )


@pytest.mark.cluster
def test_run_over_bad_rows_ends_with_exit_code_1(run: Run):
    assert run.exit_code == 1, run.output[-2000:]
    assert run.record["state"] == "finished"


@pytest.mark.cluster
def test_every_row_that_goes_in_comes_out_once(run: Run):
    assert run.lines == len(run.rows) == len(CASES) + 2 * len(ENCODED)


@pytest.mark.cluster
@pytest.mark.parametrize("case", [pytest.param(case, id=case.row.name) for case in CASES])
def test_row_gets_its_code(run: Run, case: Case):
    row = run.row(case.row.name)
    assert (row["status"], row["code"]) == ("error" if case.code else "ok", case.code), row["message"]


@pytest.mark.cluster
def test_every_error_row_says_where_it_stands_and_measures_nothing(run: Run):
    errors = [run.row(case.row.name) for case in CASES if case.code]
    assert len(errors) > 30
    for row in errors:
        assert row["message"].startswith("outputs/original/test/improvised/metadata.csv row "), row["message"]
        assert row["metrics"] == []
        assert row["details"] is None


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("abc-answer_start_time", "answer_start_time='abc'"),
        ("blank-question_end_time", "question_end_time is blank"),
        ("outside-absolute", "answer_audio_path='/etc/passwd'"),
        ("answer-missing", f"{AUDIOS}/answer_answer-missing.wav"),
        ("four-kilohertz", "4000 Hz"),
        ("question-ends-after-the-clip", "question_end_time=60.0"),
        ("clip-used-twice#2", "human/test/improvised/clip-used-twice was already used"),
    ],
)
def test_message_names_field_and_value(run: Run, name: str, words: str):
    assert words in run.row(name)["message"]


@pytest.mark.cluster
def test_counts_in_run_json_are_those_of_the_rows(run: Run):
    expected = Counter(f"vad.error.{case.code}" if case.code else "vad.ok" for case in CASES)
    expected["vad.ok"] += 2 * len(ENCODED)
    counts = run.record["counts"]
    assert {key: count for key, count in counts.items() if key.startswith("vad.")} == dict(expected)
    assert sum(count for key, count in counts.items() if key.startswith("turn_taking.")) == expected.total()


@pytest.mark.cluster
def test_silent_answer_is_a_result_and_has_no_latency(run: Run):
    row = run.row("answer-silent")
    metrics = dict(row["metrics"])
    assert metrics["answered"] == 0
    assert metrics["answer_speech_s"] == 0
    assert "latency_ms" not in metrics
    assert "answer_silent" in json.loads(row["details"])["notes"]


@pytest.mark.cluster
def test_silent_question_is_a_result_and_has_no_latency(run: Run):
    row = run.row("clip-silent")
    metrics = dict(row["metrics"])
    assert metrics["answered"] == 1
    assert "latency_ms" not in metrics
    assert "question_silent" in json.loads(row["details"])["notes"]


@pytest.mark.cluster
def test_good_row_has_a_latency_and_no_note(run: Run):
    row = run.row("good")
    assert -500 < dict(row["metrics"])["latency_ms"] < 1500
    assert json.loads(row["details"])["notes"] == []


@pytest.mark.cluster
def test_bad_neighbours_do_not_change_a_good_row(run: Run):
    good, other = run.row("good"), run.row("clip-used-twice")
    assert good["metrics"] == other["metrics"]


@pytest.mark.cluster
def test_clipping_is_a_fact_of_the_row(run: Run):
    audio = json.loads(run.row("answer-clipped")["details"])["audio"]
    assert audio["answer"]["clipped_share"] > 0.01
    assert audio["answer"]["peak"] == pytest.approx(1, abs=1e-3)
    assert audio["question"]["clipped_share"] == 0


@pytest.mark.cluster
def test_dc_offset_is_a_fact_of_the_row(run: Run):
    audio = json.loads(run.row("answer-with-offset")["details"])["audio"]
    assert audio["answer"]["dc_offset"] == pytest.approx(0.25, abs=0.01)
    assert abs(audio["question"]["dc_offset"]) < 0.01


@pytest.mark.cluster
@pytest.mark.parametrize("subset", ENCODED)
@pytest.mark.parametrize("name", ["für Elise", "naïve"])
def test_csv_with_bom_crlf_or_latin_1_is_read(run: Run, subset: str, name: str):
    assert run.rows[f"human/test/{subset}/{name}"]["status"] == "ok"


@pytest.mark.cluster
def test_latin_1_is_noted_in_run_json_and_a_bom_is_not(run: Run, folder: Path):
    table = folder / "outputs/original/test/latin/metadata.csv"
    assert run.record["notes"] == [f"{table} is not UTF-8; it was read as Latin-1"]


# Below here no Ray is started: the sources are read directly.


def test_packed_bad_data_give_the_rows_of_the_folder(folder: Path, tmp_path: Path):
    from_folder = read_all(source_of(folder))
    from_tars = read_all(source_of(packed(folder, tmp_path)))
    assert codes(from_tars) == codes(from_folder)
    assert len(set(codes(from_folder).values())) > 10
    for name, dialogue in from_folder.items():
        if dialogue.problem is None:
            np.testing.assert_array_equal(from_tars[name].audio, dialogue.audio)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Six good dialogues in one tar that can be read from three places on."""
    folder = spearbench(
        tmp_path / "folder", *(Row(f"row{number}", answer=answer_bytes(number)) for number in range(GOOD_ROWS))
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packing, "PART_ROWS", 2)
        return packed(folder, tmp_path / "shards")


def tar_of(shards: Path) -> Path:
    (path,) = shards.glob("*.tar")
    return path


def row_codes(shards: Path) -> list[str | None]:
    found = codes(read_all(source_of(shards)))
    return [found[f"human/test/improvised/row{number}"] for number in range(GOOD_ROWS)]


def members(path: Path) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    with tarfile.open(path) as tar:
        for member in tar:
            file = tar.extractfile(member)
            assert file
            yield member, file.read()


def rewrite(shards: Path, change: Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]]) -> None:
    """Write the tar again with changed members, as one part that is read from its beginning."""
    path = tar_of(shards)
    kept = change([(member.name, data) for member, data in members(path)])
    with tarfile.open(path, "w") as tar:
        for name, data in kept:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    index = json.loads((shards / "index.json").read_text())
    (entry,) = index["shards"]
    first, *others = entry["parts"]
    for part in others:
        first["dialogues"] += part["dialogues"]
        first["checksums"] += part["checksums"]
    entry |= {"parts": [first], "bytes": path.stat().st_size}
    (shards / "index.json").write_text(json.dumps(index))


def flip(path: Path, offset: int, bits: int = 0x01) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= bits
    path.write_bytes(data)


def offset_in(path: Path, member_name: str, text: bytes | None = None) -> int:
    """Where a member's bytes, or a text in them, lie in a tar."""
    for member, data in members(path):
        if member.name.endswith(member_name):
            return member.offset_data + (data.index(text) if text else len(data) // 2)
    raise AssertionError(member_name)


def test_whole_tar_gives_every_row(shards: Path):
    assert row_codes(shards) == [None] * GOOD_ROWS


def test_stray_members_are_passed_over(shards: Path):
    strays = [("README.txt", b"hello"), ("row0.wav", b"not ours"), ("human/test/improvised/row1.note", b"a note")]
    rewrite(shards, lambda found: [*strays[:1], *found[:2], *strays[1:2], *found[2:], *strays[2:]])
    assert row_codes(shards) == [None] * GOOD_ROWS


def test_dialogue_that_a_tar_holds_twice_is_one_row(shards: Path):
    rewrite(shards, lambda found: [*found[:6], *found[:6], *found[6:]])
    assert row_codes(shards) == [None] * GOOD_ROWS


def test_dialogue_that_a_tar_lacks_is_damaged_and_its_neighbours_are_not(shards: Path):
    rewrite(shards, lambda found: [member for member in found if "row2." not in member[0]])
    assert row_codes(shards) == [None, None, "shard_damaged", None, None, None]


def test_dialogue_that_lost_its_answer_is_damaged(shards: Path):
    rewrite(shards, lambda found: [member for member in found if "row2.answer" not in member[0]])
    assert row_codes(shards) == [None, None, "shard_damaged", None, None, None]


def test_tar_cut_in_the_middle_gives_the_rows_before_the_cut(shards: Path):
    path = tar_of(shards)
    path.write_bytes(path.read_bytes()[: offset_in(path, "row3.question.flac")])
    assert row_codes(shards) == [None, None, None, "shard_damaged", "shard_damaged", "shard_damaged"]
    scorer = VadScorer(VadConfig())
    scorer.setup()
    scores = scorer.score(list(read_all(source_of(shards)).values()))
    assert [score.status for score in scores] == [Status.OK] * 3 + [Status.ERROR] * 3
    assert all(score.code == "shard_damaged" and "index.json lists" in str(score.message) for score in scores[3:])


def test_another_size_than_the_index_says_is_noted(shards: Path):
    path = tar_of(shards)
    path.write_bytes(path.read_bytes()[:-512])
    source = source_of(shards)
    source.shards()
    assert [note.split(" has ")[0] for note in source.notes] == [path.name]


def test_tar_that_is_missing_gives_only_damaged_rows(shards: Path):
    tar_of(shards).unlink()
    assert row_codes(shards) == ["shard_damaged"] * GOOD_ROWS


def test_empty_tar_gives_only_damaged_rows(shards: Path):
    tar_of(shards).write_bytes(b"")
    assert row_codes(shards) == ["shard_damaged"] * GOOD_ROWS


@pytest.mark.parametrize("member", ["row2.question.flac", "row2.answer.flac", "row2.json"])
def test_flipped_byte_in_a_member_is_found_by_its_checksum(shards: Path, member: str):
    flip(tar_of(shards), offset_in(tar_of(shards), member))
    problem = read_all(source_of(shards))["human/test/improvised/row2"].problem
    assert problem
    assert problem.code == "shard_damaged"
    assert row_codes(shards).count(None) == GOOD_ROWS - 1


def test_time_that_was_changed_in_a_tar_is_not_scored(shards: Path):
    path = tar_of(shards)
    start = speech().fields["answer_start_time"].encode()
    flip(path, offset_in(path, "row2.json", b'"answer_start_time": "' + start) + len(b'"answer_start_time": "'))
    problem = read_all(source_of(shards))["human/test/improvised/row2"].problem
    assert problem
    assert "checksum" in problem.message


def test_damaged_header_costs_no_row_of_the_next_part(shards: Path):
    path = tar_of(shards)
    header = next(member.offset for member, _ in members(path) if member.name.endswith("row2.json"))
    flip(path, header + 5, 0xFF)
    assert row_codes(shards) == [None, None, "shard_damaged", "shard_damaged", None, None]


def test_random_damage_loses_no_row(shards: Path):
    whole = tar_of(shards).read_bytes()
    headers = [member.offset for member, _ in members(tar_of(shards))]
    random = np.random.default_rng(20)
    outcomes = Counter[str | None]()
    for turn in range(30):
        data = bytearray(whole)
        for _ in range(3):
            begin = int(random.choice(headers)) if turn % 2 else int(random.integers(len(data) - 512))
            data[begin + int(random.integers(512))] = int(random.integers(256))
        tar_of(shards).write_bytes(data)
        outcomes.update(row_codes(shards))
    assert outcomes.total() == 30 * GOOD_ROWS
    assert set(outcomes) == {None, "shard_damaged"}


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line on stderr of a run that must not start."""
    assert cli.run(["bench", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.fixture
def bench_words(tmp_path: Path) -> Callable[[Path], list[str]]:
    return lambda uri: [f"data.uri={uri}", f"run.uri={tmp_path / 'run'}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{this is not JSON", "is not JSON"),
        ("\udcff".encode(errors="surrogateescape").decode("latin-1"), "is not JSON"),
        ('{"format": "another-1", "shards": []}', "is not of the format spear_ray-shards-1"),
        ("[]", "is not of the format spear_ray-shards-1"),
        ('{"format": "spear_ray-shards-1", "shards": []}', "lists no dialogues"),
        ('{"format": "spear_ray-shards-1"}', "is damaged"),
        ('{"format": "spear_ray-shards-1", "shards": [{"name": "a.tar"}]}', "is damaged"),
        ('{"format": "spear_ray-shards-1", "shards": [17]}', "is damaged"),
        (
            '{"format": "spear_ray-shards-1", "shards": [{"name": "../a.tar", "bytes": 0, "parts": []}]}',
            "'../a.tar' leads out of the data set",
        ),
    ],
)
def test_index_that_cannot_be_used_stops_the_run(capsys, tmp_path, bench_words, text, words):
    (tmp_path / "index.json").write_text(text, encoding="latin-1")
    line = refused(capsys, *bench_words(tmp_path))
    assert f"{tmp_path}/index.json" in line
    assert words in line


@pytest.mark.parametrize("column", ["audio_path", "question_end_time", "answer_start_time", "conversation_id"])
def test_missing_column_of_a_metadata_csv_stops_the_run(capsys, tmp_path, bench_words, column):
    table = tmp_path / "outputs/original/test/improvised/metadata.csv"
    write_csv(table, [name for name in COLUMNS if name != column], [speech().fields])
    line = refused(capsys, *bench_words(tmp_path))
    assert f"{table} lacks the column {column};" in line


def test_missing_columns_of_a_recordings_csv_stop_the_run(capsys, tmp_path, bench_words):
    table = recordings(tmp_path, {"id": "a"}, columns=["id", "answer_start_s"])
    line = refused(capsys, *bench_words(table))
    assert f"{table} lacks the columns file, question_end_s;" in line


def test_broken_quote_in_a_csv_stops_the_run_and_names_the_line(capsys, tmp_path, bench_words):
    table = recordings(tmp_path, {"id": "a", "file": "a.wav", "question_end_s": "1"})
    table.write_text(table.read_text() + '"b,b.wav,2\n')
    line = refused(capsys, *bench_words(table))
    assert f"{table} line " in line


def test_empty_folder_stops_the_run(capsys, tmp_path, bench_words):
    (tmp_path / "empty").mkdir()
    line = refused(capsys, *bench_words(tmp_path / "empty"))
    assert f"{tmp_path / 'empty'} holds neither" in line


def test_folder_that_does_not_exist_stops_the_run(capsys, tmp_path, bench_words):
    line = refused(capsys, *bench_words(tmp_path / "nowhere"))
    assert f"{tmp_path / 'nowhere'} holds neither" in line


def test_csv_that_does_not_exist_stops_the_run(capsys, tmp_path, bench_words):
    line = refused(capsys, *bench_words(tmp_path / "nowhere.csv"))
    assert f"{tmp_path / 'nowhere.csv'} does not exist" in line


def test_tables_without_a_row_stop_the_run(capsys, tmp_path, bench_words):
    write_csv(tmp_path / "a/outputs/original/test/improvised/metadata.csv", COLUMNS, [])
    assert "has a row" in refused(capsys, *bench_words(tmp_path / "a"))
    table = recordings(tmp_path / "b")
    assert f"{table} has no rows" in refused(capsys, *bench_words(table))


def test_two_csv_files_stop_the_run_and_are_named(capsys, tmp_path, bench_words):
    for name in ("one.csv", "two.csv"):
        write_csv(tmp_path / name, ["id", "file", "question_end_s"], [])
    assert "one.csv, two.csv" in refused(capsys, *bench_words(tmp_path))


def test_nothing_is_written_where_the_request_is_wrong(capsys, tmp_path, bench_words):
    refused(capsys, *bench_words(tmp_path / "nowhere"))
    assert not (tmp_path / "run").exists()


RECORDINGS = {
    "good": ({}, None),
    "no-start": ({"answer_start_s": ""}, None),
    "mono": ({"file": "mono.wav"}, "audio_channels"),
    "missing": ({"file": "nowhere.wav"}, "audio_missing"),
    "folder": ({"file": "Ordner mit ü"}, "audio_missing"),
    "untidy-path": ({"file": "./Ordner mit ü//Gespräch 1.wav"}, None),
    "blank-file": ({"file": ""}, "field_missing"),
    "outside": ({"file": "../secret.wav"}, "path_outside_data"),
    "blank-end": ({"question_end_s": " "}, "field_missing"),
    "wrong-end": ({"question_end_s": "3 s"}, "field_invalid"),
    "end-after-the-file": ({"question_end_s": "600"}, "time_out_of_range"),
    "answer-after-the-file": ({"answer_start_s": "600"}, "time_out_of_range"),
    "answer-before-the-file": ({"answer_start_s": "-600"}, "time_out_of_range"),
}


def test_bad_recordings_are_error_rows_and_none_is_lost(tmp_path: Path):
    write_audio(tmp_path / "Ordner mit ü/Gespräch 1.wav", two_channels())
    write_audio(tmp_path / "mono.wav", speech().answer)
    usual = {
        "file": "Ordner mit ü/Gespräch 1.wav",
        "question_end_s": speech().fields["question_end_time"],
        "answer_start_s": speech().fields["answer_start_time"],
    }
    lines = [{"id": name, **usual, **change} for name, (change, _) in RECORDINGS.items()]
    table = recordings(tmp_path, *lines, {"id": "good", **usual})
    expected = {name: code for name, (_, code) in RECORDINGS.items()}
    assert codes(read_all(source_of(table))) == {**expected, "good#2": "duplicate_id"}


def test_folder_whose_name_reads_like_a_pattern_is_read(tmp_path: Path):
    folder = spearbench(tmp_path / "data [1] * ?", Row("[a] * ?"))
    assert codes(read_all(source_of(folder))) == {"human/test/improvised/[a] * ?": None}


def test_linked_folders_are_read_and_a_circle_of_links_ends(tmp_path: Path):
    folder = spearbench(tmp_path / "data", Row("a"))
    elsewhere = spearbench(tmp_path / "elsewhere", Row("a"), system="other") / "outputs/other"
    (folder / "outputs/linked").symlink_to(elsewhere)
    (folder / "outputs/circle").symlink_to(folder)
    (folder / "inputs/nowhere.wav").symlink_to(tmp_path / "nowhere.wav")
    source = source_of(folder, "data.systems=[human,linked]")
    assert codes(read_all(source)) == {"human/test/improvised/a": None, "linked/test/improvised/a": None}
    before = [shard.shard_id for shard in source.shards()]
    write_audio(elsewhere / "test/improvised/audio/answer_a.wav", tone(440))
    assert [old == new.shard_id for old, new in zip(before, source.shards(), strict=True)] == [False, True]


def test_clip_and_answer_may_have_different_formats_and_rates(tmp_path: Path):
    answer = audio_bytes(tone(440, rate_hz=44_100), 44_100, "MP3")
    folder = spearbench(tmp_path, Row("mixed", clip=clip_bytes(), answer=answer))
    (dialogue,) = read_all(source_of(folder)).values()
    assert dialogue.problem is None
    assert dialogue.answer is not None
    assert dialogue.answer.size == pytest.approx(RATE_HZ, abs=800)
    assert dialogue.facts["answer"]["format"] == "MP3/MPEG_LAYER_III"
