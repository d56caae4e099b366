"""The command line: exit codes and what is printed, each subcommand in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundled import vad
from datasets import Row, spearbench, speech, two_channels, write_audio

from spear_ray import __version__, cli
from spear_ray.config import load
from spear_ray.dialogue import Dialogue
from spear_ray.errors import CheckpointMissing, PrerequisiteError, StorageError
from spear_ray.scorers import scorer_types
from spear_ray.scorers.vad import VadScorer

COMMANDS = (
    "bench",
    "pack",
    "report",
    "score",
    "turn-bench",
    "fit-timing",
    "judge-agreement",
    "make-triples",
    "checkpoints",
    "scorers",
    "doctor",
)
END = f"question_end_s={speech().fields['question_end_time']}"
START = f"answer_start_s={speech().fields['answer_start_time']}"


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of vad on stdout."""
        return [row for row in self.all_rows if row["scorer"] == "vad"]

    @property
    def all_rows(self) -> list[dict[str, Any]]:
        """The JSON objects on stdout."""
        decoder, text, rows = json.JSONDecoder(), self.out.strip(), []
        while text:
            row, end = decoder.raw_decode(text)
            rows.append(row)
            text = text[end:].strip()
        return rows


Command = Callable[..., Ended]


@pytest.fixture
def spear(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object) -> Ended:
        capsys.readouterr()
        code = cli.run([str(word) for word in words])
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write_audio(tmp_path / "call.wav", two_channels(), subtype="FLOAT")


def one_line(ended: Ended) -> str:
    (line,) = ended.err.splitlines()
    return line


# What every subcommand shares.


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command(spear, word):
    ended = spear(word)
    assert (ended.code, ended.err) == (0, "")
    assert all(f"\n  {command} " in ended.out for command in COMMANDS)
    assert set(cli._commands()) == set(COMMANDS)


def test_without_a_command_help_is_shown_and_the_request_is_wrong(spear):
    assert spear() == Ended(2, cli.USAGE, "")


def test_version_is_printed(spear):
    assert spear("--version") == Ended(0, f"spear_ray {__version__}\n", "")


def test_unknown_command_is_named(spear):
    ended = spear("becnh", "data.uri=sample")
    assert (ended.code, ended.out) == (2, "")
    assert "there is no command 'becnh'" in ended.err
    assert "usage: spear-ray COMMAND" in ended.err


def test_entry_point_ends_with_the_exit_code(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["nothing"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "command", [["bench"], ["pack"], ["report"], ["score", "a.wav"], ["doctor"]], ids=lambda c: c[0]
)
@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("data.url=x", "data.url"),
        ("scorer.vad.treshold=1", "scorer.vad.treshold"),
        ("limit", "'limit' is not of the form key=value"),
        ("data.limit=few", "data.limit"),
    ],
)
def test_wrong_word_is_one_line_that_names_it(spear, command, word, said):
    ended = spear(*command, word)
    assert (ended.code, ended.out) == (2, "")
    assert one_line(ended).startswith("spear-ray: config_invalid: ")
    assert said in one_line(ended)


@pytest.mark.parametrize(
    ("error", "code"), [(PrerequisiteError("a"), 2), (StorageError("a"), 3), (KeyboardInterrupt(), 130)]
)
def test_error_ends_a_command_with_its_exit_code_and_one_line(capsys, error, code):
    def failing(words: Sequence[str]) -> int:
        raise error

    assert cli.guarded(failing, []) == code
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_error_that_is_not_ours_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        cli.guarded(lambda words: 1 // 0, [])


# score


def test_score_prints_the_metrics_that_the_scorer_gives(spear, recording):
    samples = np.ascontiguousarray(two_channels().T.astype(np.float32))
    names = {"conversation_id": "c", "system": "s", "split": "t", "subset": "u"}
    start_s = speech().answer_start_s
    for words, known in (([], None), ([START], start_s)):
        ended = spear("score", recording, END, *words)
        dialogue = Dialogue(
            dialogue_id="d", **names, clip=samples, question_end_s=speech().question_end_s, answer_start_s=known
        )
        (expected,) = vad().score([dialogue])
        (row,) = ended.rows
        assert (ended.code, row["status"], row["dialogue_id"], row["scorer"]) == (0, "ok", "call.wav", "vad")
        assert row["metrics"] == pytest.approx(expected.metrics, rel=1e-12)
        assert row["fingerprint"] == expected.fingerprint
        assert ("spear_latency_ms" in row["metrics"]) == (known is not None)


def test_score_gives_one_row_for_each_scorer_of_the_profile(spear, recording):
    rows = spear("score", recording, END).all_rows
    assert [row["scorer"] for row in rows] == load([]).scorers
    assert all(row["metrics"] for row in rows)
    # emotion measures the voice and says what it lacks for the rest
    assert {row["scorer"]: row["code"] for row in rows if row["status"] != "ok"} == {"emotion": "checkpoint_missing"}


def test_score_takes_configuration_words(spear, recording):
    (usual,) = spear("score", recording, END).rows
    (strict,) = spear("score", recording, END, "scorer.vad.speech.threshold=0.9").rows
    assert strict["fingerprint"] != usual["fingerprint"]
    assert strict["details"]["question_segments"] != usual["details"]["question_segments"]
    (swapped,) = spear("score", recording, END, "data.asking_channel=1").rows
    assert swapped["details"]["question_segments"] == usual["details"]["answer_segments"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], "field_missing", "question_end_s is blank"),
        (["question_end_s="], "field_missing", "question_end_s is blank"),
        (["question_end_s=soon"], "field_invalid", "question_end_s='soon'"),
        (["question_end_s=600"], "time_out_of_range", "question_end_s=600.0"),
        ([END, "answer_start_s=600"], "time_out_of_range", "answer_start_s=600.0"),
        ([END, "context_end_s=-1"], "time_out_of_range", "context_end_s=-1.0"),
        ([END, "audio.max_bytes=1000"], "audio_too_large", "audio.max_bytes"),
    ],
)
def test_score_of_what_cannot_be_scored_is_an_error_row(spear, recording, words, code, said):
    ended = spear("score", recording, *words)
    (row,) = ended.rows
    assert (ended.code, ended.err) == (1, "")
    assert (row["status"], row["code"], row["metrics"]) == ("error", code, {})
    assert said in row["message"]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nowhere.wav", "audio_missing"),
        ("folder", "audio_missing"),
        ("mono.wav", "audio_channels"),
        ("a.txt", "audio_format"),
    ],
)
def test_score_of_a_file_that_cannot_be_used_is_an_error_row_that_names_it(spear, tmp_path, name, code):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.txt").write_text("a letter, and no audio at all")
    write_audio(tmp_path / "mono.wav", speech().answer)
    ended = spear("score", tmp_path / name, END)
    (row,) = ended.rows
    assert (ended.code, row["status"], row["code"]) == (1, "error", code)
    assert str(tmp_path / name) in row["message"]


@pytest.mark.parametrize("words", [[], [END]])
def test_score_needs_a_file(spear, words):
    ended = spear("score", *words)
    assert (ended.code, ended.out) == (2, "")
    assert "score needs a file" in one_line(ended)


@pytest.mark.parametrize("word", ["question_end_s", "question_end=3"])
def test_score_refuses_a_time_that_is_not_understood(spear, recording, word):
    ended = spear("score", recording, word)
    assert (ended.code, ended.out) == (2, "")
    assert word.split("=")[0] in one_line(ended)


def test_score_says_which_rows_could_not_run(spear, recording, monkeypatch):
    monkeypatch.setattr(VadScorer, "missing", lambda self: CheckpointMissing("fetch it first"))
    (row,) = spear("score", recording, END).rows
    assert (row["status"], row["code"], row["message"]) == ("skipped", "checkpoint_missing", "fetch it first")
    named = spear("score", recording, END, "scorers=[vad]")
    assert (named.code, one_line(named)) == (2, "spear-ray: checkpoint_missing: fetch it first")


# scorers, doctor


def test_scorers_lists_every_metric_with_unit_and_meaning(spear):
    ended = spear("scorers")
    assert (ended.code, ended.err) == (0, "")
    for name, kind in scorer_types().items():
        assert f"{name} (version {kind.version})" in ended.out
        for metric in kind.metrics:
            assert metric.name in ended.out
            assert metric.about[:40] in ended.out


def test_doctor_says_what_can_run_and_shows_no_secret(spear, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-4711")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret-4712")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-4713")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://[::1]:8333")
    ended = spear("doctor")
    assert (ended.code, ended.err) == (0, "")
    for words in (__version__, "onnxruntime", "AWS_ENDPOINT_URL=http://[::1]:8333", "keys in the environment: set"):
        assert words in ended.out
    assert not [secret for secret in ("key-4711", "secret-4712", "token-4713") if secret in ended.out]


def test_doctor_without_keys_says_so(spear, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert "keys in the environment: not set" in spear("doctor").out


def test_doctor_shows_what_a_scorer_lacks_as_it_must_be_typed(spear, monkeypatch):
    command = "pip install 'spear_ray[vllm]'"
    monkeypatch.setattr(VadScorer, "missing", lambda self: PrerequisiteError(command))
    ended = spear("doctor")
    assert ended.code == 2
    assert command in ended.out


# pack, report


def test_pack_says_what_it_wrote(spear, tmp_path):
    data = spearbench(tmp_path / "data", *(Row(f"row{number}") for number in range(3)))
    ended = spear("pack", f"data.uri={data}", f"pack.uri={tmp_path / 'tars'}")
    (tar,) = (tmp_path / "tars").glob("*.tar")
    index = tmp_path / "tars/index.json"
    assert ended == Ended(0, f"3 dialogues in 1 shards, {tar.stat().st_size} bytes: {index}\n", "")
    assert json.loads(index.read_text())["rows"] == 3


def test_pack_passes_on_the_notes_of_the_source(spear, tmp_path):
    data = spearbench(tmp_path / "data", Row("für Elise"))
    table = data / "outputs/original/test/improvised/metadata.csv"
    table.write_bytes(table.read_text(encoding="utf-8").encode("latin-1"))
    ended = spear("pack", f"data.uri={data}", f"pack.uri={tmp_path / 'tars'}")
    assert f"note: {table} is not UTF-8" in ended.out


def test_pack_needs_to_know_where_the_shards_go(spear):
    ended = spear("pack", "data.uri=sample")
    assert (ended.code, ended.out) == (2, "")
    assert "pack.uri is not set" in one_line(ended)


def test_report_needs_a_run(spear, tmp_path):
    ended = spear("report", f"run.uri={tmp_path}")
    assert (ended.code, ended.out) == (2, "")
    assert f"{tmp_path}/run.json does not exist" in one_line(ended)
    assert list(tmp_path.iterdir()) == []


def test_bench_and_report_print_the_ranking_the_counts_and_where_the_results_are(spear, tmp_path, monkeypatch):
    # Rows are skipped, so that no cluster is needed. A folder's name may look like markup.
    monkeypatch.setattr(VadScorer, "missing", lambda self: CheckpointMissing("fetch it first"))
    run = tmp_path / "[bold] runs [/x]"
    words = (f"run.uri={run}", "data.limit=6", "leaderboard.resamples=10")
    for ended in (spear("bench", *words), spear("report", *words)):
        assert (ended.code, ended.err) == (0, "")
        assert "distance" in ended.out
        assert "vad: 6 skipped (checkpoint_missing)" in ended.out
        for name in ("leaderboard.csv", "benchmark.csv", "report.html"):
            assert f"{run}/{name}" in ended.out
            assert (run / name).is_file()
