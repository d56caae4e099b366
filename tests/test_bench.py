"""A whole run in this process: real configuration, sample, scorer, ledger and results; only Ray is left out."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from datasets import Row, spearbench
from rich.console import Console

from spear_ray import bench, cli, pipeline, stages
from spear_ray.bench import Outcome, Unavailable, check_complete, make_scorers
from spear_ray.config import BenchConfig, load
from spear_ray.dialogue import Dialogue, Score, Status
from spear_ray.errors import CheckpointMissing, ClusterError, ConfigError, PrerequisiteError
from spear_ray.ledger import Ledger
from spear_ray.pipeline import Display, Progress
from spear_ray.provenance import data_fingerprint
from spear_ray.sample import SAMPLE_DIR
from spear_ray.scorers import Scorer
from spear_ray.scorers.vad import VadConfig, VadScorer
from spear_ray.sources import Shard, Source, open_source
from spear_ray.stages import Work
from spear_ray.store import Store

ROWS = 48
FEW = "leaderboard.resamples=20"
SECRETS = {"AWS_ACCESS_KEY_ID": "key-4711", "AWS_SECRET_ACCESS_KEY": "secret-4712", "AWS_SESSION_TOKEN": "token-4713"}
REASONS = [
    PrerequisiteError("vad needs <onnx> & more: pip install spear_ray[vad]"),
    CheckpointMissing("hf download someone/model --revision 1"),
]


def here(
    config: BenchConfig, names: Sequence[str], source: Source, ledger: Ledger, work: Sequence[Work], display: Display
) -> Progress:
    """`pipeline.run` without a cluster."""
    progress = Progress(total=sum(item.rows for item in work))
    groups = pipeline.sharing(config, pipeline.in_order(config, names))
    chain = [
        stages.ScorerStage([(name, getattr(config.scorer, name)) for name in group], group == groups[-1])
        for group in groups
    ]
    committer = stages.Committer(ledger, names)
    for item in work:
        for block in stages.Reader(source, config.pipeline.block_bytes)._blocks(item):
            for stage in chain:
                block = stage(block)
            for line in committer(block).column("summary").to_pylist():
                pipeline._note(progress, json.loads(line), 0.0)
            display(progress)
    return progress


def quiet() -> Console:
    return Console(file=io.StringIO(), width=200)


def run(folder: Path, *words: str, explicit: bool = False) -> Outcome:
    words = (f"run.uri={folder}", FEW, *words)
    return bench.run(load(["scorers=[vad]", *words]), quiet(), words, explicit)


def forbidden(*_: Any, **__: Any) -> Any:
    raise AssertionError("this must not be called")


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return record


def rows_of(folder: Path, scorer: Scorer[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = Ledger(Store(str(folder))).read(scorer.name, scorer.fingerprint).to_pylist()
    return rows


@pytest.fixture(autouse=True)
def no_ray() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "start_ray", lambda config: None)
        patch.setattr(pipeline, "run", here)
        yield patch


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run over the sample; copy it to change it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "start_ray", lambda config: None)
        patch.setattr(pipeline, "run", here)
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        assert run(folder).exit_code == 0
    return folder


@pytest.fixture
def lacks(monkeypatch: pytest.MonkeyPatch) -> Callable[[PrerequisiteError | None], None]:
    """Says what `vad` lacks from now on."""
    return lambda reason: monkeypatch.setattr(VadScorer, "missing", lambda self: reason)


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails where audio is read or Ray is started."""
    monkeypatch.setattr(Source, "decode", forbidden)
    monkeypatch.setattr(Source, "decode_bytes", forbidden)
    monkeypatch.setattr(Store, "open", forbidden)
    monkeypatch.setattr(pipeline, "start_ray", forbidden)
    monkeypatch.setattr(pipeline, "run", forbidden)


# A scorer that cannot run here.


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.code)
def test_scorer_that_lacks_something_skips_every_row_without_reading_audio_or_starting_ray(
    tmp_path, lacks, untouched, reason
):
    lacks(reason)
    outcome = run(tmp_path)
    assert outcome.exit_code == 0
    assert outcome.counts == {f"vad.skipped.{reason.code}": ROWS} == record_of(tmp_path)["counts"]
    assert record_of(tmp_path)["timings"]["rows_scored"] == ROWS
    rows = rows_of(tmp_path, Unavailable(VadScorer(VadConfig()), reason))
    assert len({row["dialogue_id"] for row in rows}) == len(rows) == ROWS
    assert {(row["status"], row["code"], row["message"]) for row in rows} == {("skipped", reason.code, str(reason))}
    assert {row["system"] for row in rows} == {"human", "early", "slow", "sometimes-silent"}


def test_results_say_what_was_skipped_and_why_and_hold_no_value(tmp_path, lacks, untouched):
    reason = REASONS[0]
    lacks(reason)
    run(tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert "vad needs &lt;onnx&gt; &amp; more: pip install spear_ray[vad]" in page
    assert reason.code in page
    with (tmp_path / "benchmark.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 4
    assert {line["latency_ms"] + line["interruptions_%"] + line["interrupted_time_ms"] for line in lines} == {""}
    with (tmp_path / "leaderboard.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert {(line["value"], line["n"]) for line in lines} <= {("", "0")}
    entry = record_of(tmp_path)["scorers"]["vad"]
    assert (entry["status"], entry["message"]) == ("skipped", str(reason))


def test_rows_that_were_skipped_are_not_skipped_twice(tmp_path, lacks, untouched):
    lacks(REASONS[0])
    run(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    run(tmp_path)
    assert record_of(tmp_path)["timings"]["rows_scored"] == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before


def test_scorer_that_was_named_must_be_able_to_run(tmp_path, lacks, untouched, capsys):
    lacks(REASONS[1])
    with pytest.raises(CheckpointMissing, match="hf download"):
        run(tmp_path / "run", explicit=True)
    assert cli.run(["bench", "scorers=[vad]", f"run.uri={tmp_path / 'run'}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == f"spear-ray: checkpoint_missing: {REASONS[1]}"
    assert not (tmp_path / "run").exists()


def test_all_rows_are_scored_once_the_scorer_can_run(tmp_path, lacks):
    lacks(REASONS[0])
    run(tmp_path)
    lacks(None)
    config = load(["scorers=[vad]"])
    (scorer,) = make_scorers(config, explicit=True)
    work = pipeline.plan(open_source(config).shards(), Ledger(Store(str(tmp_path))), [scorer])
    assert sum(item.rows for item in work) == ROWS
    assert run(tmp_path).counts == {"vad.ok": ROWS}
    assert list((tmp_path / "superseded").rglob("*.parquet"))


def test_rows_that_were_skipped_are_not_comparable_with_scored_ones():
    scorer = VadScorer(VadConfig())
    prints = {scorer.fingerprint, *(Unavailable(scorer, reason).fingerprint for reason in REASONS)}
    assert len(prints) == 3


# Complete, or not.


def scored(number: int) -> Score:
    dialogue = Dialogue(dialogue_id=f"d{number}", conversation_id="c", system="human", split="test", subset="x")
    return VadScorer(VadConfig()).ok(dialogue, {})


SHARDS = [Shard(shard_id=name, content=name, rows=5, packed=b"") for name in ("a", "b")]


def committed(folder: Path, *ranges: tuple[int, int]) -> Ledger:
    """A ledger with shard `a` whole and these rows of `b`."""
    ledger = Ledger(Store(str(folder)))
    ledger.commit("a", 0, [scored(number) for number in range(5)])
    for first, end in ranges:
        ledger.commit("b", first, [scored(number) for number in range(first, end)])
    return ledger


@pytest.mark.parametrize("ranges", [[(0, 5)], [(0, 2), (2, 5)]])
def test_each_row_once_is_complete(tmp_path, ranges):
    check_complete(committed(tmp_path, *ranges), SHARDS, [VadScorer(VadConfig())])


@pytest.mark.parametrize(
    "ranges",
    [[], [(0, 4)], [(1, 5)], [(0, 3), (2, 5)], [(0, 5), (2, 3)], [(0, 3), (1, 3)], [(0, 6)]],
    ids=["none", "end", "beginning", "overlapping", "inside", "one-twice-for-one-missing", "too-many"],
)
def test_rows_that_are_missing_or_there_twice_end_the_run(tmp_path, ranges):
    rows = sum(end - first for first, end in ranges)
    with pytest.raises(ClusterError, match=f"vad: shard b has 5 rows, {rows} are committed"):
        check_complete(committed(tmp_path, *ranges), SHARDS, [VadScorer(VadConfig())])


def test_run_whose_rows_are_lost_on_the_way_does_not_end_well(tmp_path, no_ray):
    def lossy(config: Any, names: Any, source: Any, ledger: Any, work: Sequence[Work], display: Any) -> Progress:
        return here(config, names, source, ledger, work[1:], display)

    no_ray.setattr(pipeline, "run", lossy)
    with pytest.raises(ClusterError, match="has 6 rows, 0 are committed"):
        run(tmp_path)
    assert record_of(tmp_path)["state"] == "running"
    assert not (tmp_path / "leaderboard.csv").exists()


# What the data is.


def fingerprint_of(uri: Path | str, *words: str) -> str:
    return data_fingerprint(open_source(load([f"data.uri={uri}", *words])).shards())


def test_data_fingerprint_does_not_depend_on_how_the_rows_are_sliced():
    assert fingerprint_of("sample", "data.rows_per_shard=5") == fingerprint_of("sample")
    assert fingerprint_of("sample", "data.limit=47") != fingerprint_of("sample")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return spearbench(tmp_path / "data", Row("one"), Row("two"))


def test_the_same_data_elsewhere_has_the_same_fingerprint(tmp_path, data):
    shutil.copytree(SAMPLE_DIR, tmp_path / "sample", copy_function=shutil.copyfile)
    shutil.move(data, tmp_path / "elsewhere" / "moved")
    assert fingerprint_of(tmp_path / "sample") == fingerprint_of("sample")
    assert fingerprint_of(tmp_path / "elsewhere/moved") == fingerprint_of(spearbench(data, Row("one"), Row("two")))


def test_one_changed_cell_is_other_data(data):
    before = fingerprint_of(data)
    table = data / "outputs/original/test/improvised/metadata.csv"
    table.write_text(exclaimed(table))
    assert fingerprint_of(data) != before


def exclaimed(table: Path) -> str:
    header, *lines = list(csv.reader(io.StringIO(table.read_text())))
    lines[1][header.index("transcript_answer")] += "!"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *lines])
    return out.getvalue()


def test_audio_of_another_size_is_other_data(data):
    before = fingerprint_of(data)
    clip = data / "inputs/test/improvised/audios/one.wav"
    clip.write_bytes(clip.read_bytes() + b"\0\0")
    assert fingerprint_of(data) != before


# Where results go.


@pytest.mark.parametrize("uri", ["runs/latest", "./runs", "../runs"])
def test_job_refuses_results_in_the_folder_that_ray_deletes(tmp_path, monkeypatch, uri, capsys):
    folder = tmp_path / "session/runtime_resources/working_dir_files/_ray_pkg_0123/inner"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match=rf"run\.uri={uri} is relative.*absolute path or s3://"):
        bench._check_lasting(uri)
    assert cli.run(["bench", f"run.uri={uri}"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert list(tmp_path.rglob("run.json")) == []


@pytest.mark.parametrize("uri", ["/data/runs", "s3://bucket/runs", "~/runs"])
def test_job_takes_results_that_last(tmp_path, monkeypatch, uri):
    (tmp_path / "working_dir_files").mkdir()
    monkeypatch.chdir(tmp_path / "working_dir_files")
    bench._check_lasting(uri)


def test_results_may_be_relative_outside_a_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bench._check_lasting("runs/latest")


# The record, and results made again.


def test_finished_run_says_what_it_did(finished):
    record = record_of(finished)
    assert record["state"] == "finished"
    assert record["counts"] == {"vad.ok": ROWS}
    assert record["data"]["fingerprint"] == fingerprint_of("sample")
    assert record["timings"]["rows_scored"] == ROWS
    assert record["timings"]["audio_seconds"] > 100


def test_no_file_of_a_run_holds_a_secret_of_the_environment(finished):
    text = b"".join(path.read_bytes() for path in finished.rglob("*") if path.is_file())
    assert FEW.encode() in text
    assert [name for name, value in SECRETS.items() if value.encode() in text or name.encode() in text] == []


def test_results_made_again_are_the_same_byte_for_byte(finished, tmp_path, monkeypatch):
    folder = shutil.copytree(finished, tmp_path / "run")
    names = (*bench.RESULTS, "run.json")
    for name in bench.RESULTS:
        (folder / name).unlink()
    monkeypatch.setattr(Source, "decode", forbidden)
    outcome = bench.republish(load([f"run.uri={folder}", FEW, "data.uri=/nowhere"]))
    assert outcome.exit_code == 0
    assert [name for name in names if (folder / name).read_bytes() != (finished / name).read_bytes()] == []


def test_results_of_skipped_rows_made_again_are_the_same_byte_for_byte(tmp_path, lacks):
    lacks(REASONS[0])
    run(tmp_path)
    before = {name: (tmp_path / name).read_bytes() for name in bench.RESULTS}
    bench.republish(load([f"run.uri={tmp_path}", FEW]))
    assert {name: (tmp_path / name).read_bytes() for name in bench.RESULTS} == before


def test_run_that_fails_midway_says_running_and_the_next_completes_it(tmp_path, no_ray):
    def failing(config: Any, names: Any, source: Any, ledger: Any, work: Sequence[Work], display: Any) -> Progress:
        here(config, names, source, ledger, work[:2], display)
        raise ClusterError("a node went away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "run", failing)
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        with pytest.raises(ClusterError, match="went away"):
            run(tmp_path)
    record = record_of(tmp_path)
    assert record["state"] == "running"
    assert "counts" not in record
    assert not any(value in (tmp_path / "run.json").read_text() for value in SECRETS.values())
    assert {path.name for path in tmp_path.iterdir()} == {"run.json", "scores"}
    assert run(tmp_path).counts == {"vad.ok": ROWS}
    assert record_of(tmp_path)["state"] == "finished"
    assert record_of(tmp_path)["timings"]["rows_scored"] == ROWS - 12


def test_no_report_is_made_of_a_run_that_did_not_finish(finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "run.json").write_text(json.dumps({**record_of(finished), "state": "running"}))
    with pytest.raises(PrerequisiteError, match=rf"{folder}/run\.json says state 'running': run the benchmark again"):
        bench.republish(load([f"run.uri={folder}"]))


def test_error_rows_make_exit_code_1(tmp_path):
    data = spearbench(tmp_path / "data", Row("good"), Row("bad", answer=b"not audio"))
    outcome = run(tmp_path / "run", f"data.uri={data}")
    assert outcome.counts == {"vad.error.audio_format": 1, "vad.ok": 1}
    assert outcome.exit_code == 1
    assert {row["status"] for row in rows_of(tmp_path / "run", VadScorer(VadConfig()))} == {Status.OK, Status.ERROR}


# Emotional naturalness, shifted by the dev rows of a run.


def emotion_run(folder: Path, splits: Sequence[str], fingerprint: str = "e" * 16, state: str = "finished") -> Store:
    """A run with a logit for each human row, as the ledger keeps it."""
    store = Store(str(folder))
    scores = [
        Score(
            dialogue_id=f"human/{split}/improvised/{number}", conversation_id=f"c{number}", system="human", split=split,
            subset="improvised", scorer="emotion", version="1", fingerprint=fingerprint, status=Status.OK,
            metrics={"naturalness_logit": float(number)},
        )
        for split in splits for number in range(101)
    ]  # fmt: skip
    Ledger(store).commit("shard", 0, scores)
    store.write("run.json", json.dumps({"state": state, "scorers": {"emotion": {"fingerprint": fingerprint}}}).encode())
    return store


def shift_of(store: Store, dev_run: str) -> Any:
    config = load([f"leaderboard.naturalness_dev_run={dev_run}"] if dev_run else [])
    record = json.loads(store.read("run.json"))
    tables = bench.read_rows(Ledger(store), {"emotion": record["scorers"]["emotion"]["fingerprint"]})
    return bench.naturalness_shift(config, store, record, tables)


def test_the_shift_comes_from_the_dev_rows_of_the_run_that_is_named(tmp_path):
    emotion_run(tmp_path / "dev", ["dev"])
    test = emotion_run(tmp_path / "test", ["test"])
    shift = shift_of(test, str(tmp_path / "dev"))
    assert shift.by_subset == {"improvised": pytest.approx(-1.0 + 1e-6)}
    assert str(tmp_path / "dev") in shift.run


def test_a_run_can_shift_by_its_own_dev_rows(tmp_path):
    both = emotion_run(tmp_path / "both", ["dev", "test"])
    assert shift_of(both, "self").rows == {"improvised": 101}
    assert shift_of(both, "") is None


def test_a_dev_run_of_other_models_is_refused(tmp_path):
    emotion_run(tmp_path / "dev", ["dev"], fingerprint="d" * 16)
    test = emotion_run(tmp_path / "test", ["test"])
    with pytest.raises(ConfigError, match=f"fingerprint {'d' * 16}, this run's {'e' * 16}"):
        shift_of(test, str(tmp_path / "dev"))


def test_a_dev_run_that_is_not_there_or_not_finished_is_said_before_anything_is_scored(tmp_path, untouched):
    words = ("scorers=[emotion]", "leaderboard.naturalness_dev_run=")
    with pytest.raises(PrerequisiteError, match=r"run\.json does not exist"):
        run(tmp_path / "run", words[0], f"{words[1]}{tmp_path / 'none'}")
    emotion_run(tmp_path / "dev", ["dev"], state="running")
    with pytest.raises(PrerequisiteError, match="says state 'running'"):
        run(tmp_path / "run", words[0], f"{words[1]}{tmp_path / 'dev'}")


def test_a_scorer_that_can_work_in_part_does_and_needs_no_gpu_for_it():
    config = load(["profile=gpu", "scorers=[emotion,dialect]"])
    emotion, dialect = make_scorers(config, explicit=False)
    assert not isinstance(emotion, Unavailable)
    assert config.scorer.emotion.resources.num_gpus == 0
    assert isinstance(dialect, Unavailable)
    with pytest.raises(CheckpointMissing):
        make_scorers(load(["scorers=[emotion]"]), explicit=True)


def test_the_command_that_fetches_a_checkpoint_is_printed(tmp_path, capsys):
    assert cli.run(["bench", f"run.uri={tmp_path / 'run'}", "data.limit=4", FEW]) == 0
    assert "spear-ray checkpoints pull whisper-large-v3-msp-podcast-emotion-dim" in capsys.readouterr().out
