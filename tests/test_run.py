"""The real job, whole: results, resumption after kill -9, changed settings, S3, a submitted job."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs
from many import multiply
from proxies import CountingProxy
from s3_server import BUCKET, S3Server, free_port

from spear_ray.leaderboard.spearbench import COLUMNS
from spear_ray.sample import SAMPLE_DIR
from spear_ray.store import Store

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 240
DIALOGUES = 400
SYSTEMS = {"human", "early", "slow", "sometimes-silent"}
SCORERS = ("vad", "turn_taking", "emotion", "prosody", "quality")
TWO = "scorers=[vad,turn_taking]"
"""Enough for what is tried on many dialogues."""
PORTS = ("port", "dashboard-port", "dashboard-agent-listen-port", "ray-client-server-port")
"""What a head node listens on under fixed numbers, which another cluster on this machine may have taken."""

AGENT_STARTS = "No available agent to submit job"
"""What Ray answers while the node that was just started is not yet ready to take a job."""


@dataclass(frozen=True)
class Ended:
    """How a job ended and what it printed."""

    code: int
    output: str


def command(*words: str) -> list[str]:
    return [sys.executable, "jobs/full_bench.py", *words]


def job(*words: str) -> Ended:
    done = subprocess.run(command(*words), cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    return Ended(done.returncode, done.stdout + done.stderr)


def rows_of(store: Store, scorer: str = "vad") -> pa.Table:
    """All score rows, sorted by dialogue."""
    tables = [pq.read_table(pa.BufferReader(store.read(name))) for name in store.files(f"scores/{scorer}")]
    return pa.concat_tables(tables).sort_by("dialogue_id")


def timings(store: Store) -> dict[str, float]:
    values: dict[str, float] = json.loads(store.read("run.json"))["timings"]
    return values


@pytest.fixture(scope="module")
def sample_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ended, Path]:
    folder = tmp_path_factory.mktemp("sample") / "run"
    return job(f"run.uri={folder}"), folder


def test_sample_is_scored_without_an_error(sample_run):
    ended, folder = sample_run
    assert ended.code == 0, ended.output
    table = rows_of(Store(str(folder)))
    assert table.num_rows == len(set(table["dialogue_id"].to_pylist())) == 48
    assert set(table["system"].to_pylist()) == SYSTEMS
    assert set(table["status"].to_pylist()) == {"ok"}


def test_job_shows_progress_a_ranking_and_where_the_results_are(sample_run):
    ended, folder = sample_run
    progress = [json.loads(line) for line in ended.output.splitlines() if line.startswith('{"rows"')]
    assert progress[-1]["rows"] == progress[-1]["of"] == 48 * len(SCORERS)
    for word in (*SYSTEMS, "distance", *(f"{folder}/{name}" for name in ("leaderboard.csv", "report.html"))):
        assert word in ended.output


def test_leaderboard_shows_how_the_systems_were_made(sample_run):
    _, folder = sample_run
    with (folder / "leaderboard.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["subset"] == "all"]
    value = {(line["system"], line["metric"]): float(line["value"]) for line in lines if line["value"]}
    assert value["early", "latency_ms"] < 0 < value["human", "latency_ms"] < 500 < 1500 < value["slow", "latency_ms"]
    assert value["sometimes-silent", "answered"] == pytest.approx(100 * 8 / 12)
    assert value["early", "interrupted"] == 100
    silent = next(line for line in lines if (line["system"], line["metric"]) == ("sometimes-silent", "latency_ms"))
    assert (silent["n"], silent["n_total"]) == ("8", "12")


def test_benchmark_csv_has_the_published_header_and_one_line_per_system(sample_run):
    _, folder = sample_run
    with (folder / "benchmark.csv").open(newline="") as file:
        header, *lines = csv.reader(file)
    assert tuple(header) == COLUMNS
    assert {line[1] for line in lines} == SYSTEMS
    assert all(line[header.index("latency_ms")] and not line[header.index("UTMOS")] for line in lines)


def test_report_is_one_page_without_outside_resources(sample_run):
    _, folder = sample_run
    page = (folder / "report.html").read_text()
    assert not re.findall(r"<(?:script|link|img|iframe)\b|(?:src|href)\s*=\s*['\"]https?:", page)
    assert all(system in page for system in SYSTEMS)


def test_run_json_says_what_made_the_numbers(sample_run):
    record = json.loads((sample_run[1] / "run.json").read_text())
    assert record["state"] == "finished"
    assert record["counts"] == {
        "emotion.skipped.checkpoint_missing": 44,
        "emotion.skipped.no_speech": 4,
        "prosody.ok": 44,
        "prosody.skipped.no_speech": 4,
        "quality.ok": 44,
        "quality.skipped.no_speech": 4,
        "turn_taking.ok": 48,
        "vad.ok": 48,
    }
    assert record["scorers"]["emotion"]["status"] == "partial"
    assert "spear-ray checkpoints pull" in record["scorers"]["emotion"]["message"]
    assert record["data"]["dialogues"] == 48
    assert re.fullmatch("[0-9a-f]{16}", record["data"]["fingerprint"])
    assert record["scorers"]["vad"]["identity"]["settings"]["speech"]["threshold"] == 0.5
    assert record["config"]["data"]["uri"] == "sample"
    assert "latency_ms" in record["scorers"]["vad"]["benchmark_columns"]
    assert record["scorers"]["turn_taking"]["identity"]["predictor"] == "timing"
    assert record["scorers"]["turn_taking"]["benchmark_columns"] == []


def test_finished_run_is_not_scored_again(sample_run):
    _, folder = sample_run
    before = {path: path.stat().st_mtime_ns for path in (folder / "scores").rglob("*.parquet")}
    ended = job(f"run.uri={folder}")
    assert ended.code == 0
    assert timings(Store(str(folder)))["rows_scored"] == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "scores").rglob("*.parquet")} == before


def test_changed_setting_scores_again_and_the_old_rows_come_back_with_the_old_setting(sample_run, tmp_path):
    _, folder = sample_run
    run = tmp_path / "run"
    subprocess.run(["cp", "-r", str(folder), str(run)], check=True)
    store = Store(str(run))
    before = rows_of(store)
    assert job(f"run.uri={run}", "scorer.vad.speech.threshold=0.7").code == 0
    changed = rows_of(store)
    assert timings(store)["rows_scored"] == 48
    assert changed.num_rows == 48
    assert set(changed["fingerprint"].to_pylist()).isdisjoint(before["fingerprint"].to_pylist())
    assert job(f"run.uri={run}").code == 0
    assert timings(store)["rows_scored"] == 0
    assert rows_of(store).equals(before)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return multiply(tmp_path_factory.mktemp("many") / "data", DIALOGUES)


@pytest.fixture(scope="module")
def uninterrupted(many: Path, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    run = tmp_path_factory.mktemp("whole") / "run"
    ended = job(f"data.uri={many}", f"run.uri={run}", "data.rows_per_shard=16", TWO)
    assert ended.code == 0, ended.output
    table = rows_of(Store(str(run)))
    assert table.num_rows == DIALOGUES
    return table


def started(many: Path, run: Path) -> subprocess.Popen[str]:
    words = (f"data.uri={many}", f"run.uri={run}", "data.rows_per_shard=16", TWO)
    return subprocess.Popen(command(*words), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_rows(run: Path, process: subprocess.Popen[str], files: int) -> None:
    """Until so many score files are committed."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while len(list(run.glob("scores/vad/*.parquet"))) < files:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_run_whose_driver_was_killed_is_completed_by_the_next(many, uninterrupted, tmp_path):
    run = tmp_path / "run"
    process = started(many, run)
    wait_for_rows(run, process, random.randint(1, 12))
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    committed = rows_of(Store(str(run)))
    assert 0 < committed.num_rows < DIALOGUES
    psutil.wait_procs(children, timeout=60)
    ended = job(f"data.uri={many}", f"run.uri={run}", "data.rows_per_shard=16", TWO)
    assert ended.code == 0, ended.output
    assert timings(Store(str(run)))["rows_scored"] < DIALOGUES * 2
    assert rows_of(Store(str(run))).equals(uninterrupted)
    talk = rows_of(Store(str(run)), "turn_taking")
    assert len(set(talk["dialogue_id"].to_pylist())) == talk.num_rows == DIALOGUES


def test_run_whose_actor_was_killed_ends_with_the_same_rows(many, uninterrupted, tmp_path):
    run = tmp_path / "run"
    process = started(many, run)
    wait_for_rows(run, process, random.randint(1, 8))
    os.kill(random.choice(scorer_actors(process.pid)), signal.SIGKILL)
    output = process.communicate(timeout=LIMIT_SECONDS)[0]
    assert process.returncode == 0, output
    assert rows_of(Store(str(run))).equals(uninterrupted)


def scorer_actors(driver: int) -> list[int]:
    """The two largest of the driver's map workers: those that hold a model."""
    workers = [
        child
        for child in psutil.Process(driver).children(recursive=True)
        if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::MapWorker")
    ]
    return [child.pid for child in sorted(workers, key=lambda child: -child.memory_info().rss)[:2]]


def test_slices_of_another_size_leave_no_row_out_and_none_twice(many, uninterrupted, tmp_path):
    run = tmp_path / "run"
    assert (
        job(f"data.uri={many}", f"run.uri={run}", "data.rows_per_shard=100", "pipeline.block_bytes=4000000", TWO).code
        == 0
    )
    assert rows_of(Store(str(run))).equals(uninterrupted)


@pytest.fixture
def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[CountingProxy]:
    proxy = CountingProxy(s3.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    s3fs.S3FileSystem.clear_instance_cache()
    yield proxy
    s3fs.S3FileSystem.clear_instance_cache()
    proxy.close()


def audio_requests(requests: Sequence[str]) -> list[str]:
    return [request for request in requests if request.startswith("GET ") and ".flac" in request.split("?")[0]]


def test_run_on_s3_gives_the_rows_of_the_local_run_and_a_rerun_opens_no_audio(sample_run, s3, proxy):
    data, run = Store(f"s3://{BUCKET}/sample"), Store(f"s3://{BUCKET}/runs/one")
    for path in SAMPLE_DIR.rglob("*"):
        if path.is_file():
            data.write(path.relative_to(SAMPLE_DIR).as_posix(), path.read_bytes())
    ended = job(f"data.uri={data.uri}", f"run.uri={run.uri}", TWO)
    assert ended.code == 0, ended.output
    assert rows_of(run).equals(rows_of(Store(str(sample_run[1]))))
    # A clip and an answer for each dialogue, each fetched once for all scorers.
    assert 48 <= len(audio_requests(proxy.requests)) <= 2 * 48
    proxy.requests.clear()
    assert job(f"data.uri={data.uri}", f"run.uri={run.uri}", TWO).code == 0
    assert proxy.requests
    assert audio_requests(proxy.requests) == []
    assert not [secret for secret in (s3.key, s3.secret) if secret in run.read("run.json").decode() + ended.output]


def test_run_on_packed_shards_on_s3_gives_the_same_metrics(sample_run, s3):
    run, tars = Store(f"s3://{BUCKET}/runs/two"), f"s3://{BUCKET}/tars"
    done = subprocess.run(
        [sys.executable, "jobs/pack_shards.py", "data.uri=sample", f"pack.uri={tars}", "pack.shard_bytes=1000000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len([name for name in Store(tars).files() if name.endswith(".tar")]) > 2
    ended = job(f"data.uri={tars}", f"run.uri={run.uri}", TWO)
    assert ended.code == 0, ended.output
    expected = rows_of(Store(str(sample_run[1])))
    assert rows_of(run).drop_columns("details").equals(expected.drop_columns("details"))


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """A Ray head node as `ray start --head` makes it, on free ports; the environment of its clients."""
    ports = {name: free_port() for name in PORTS}
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "HOME": str(tmp_path),
        # As after `source .venv/bin/activate`: the job's `python` is found here.
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ray = str(Path(sys.executable).parent / "ray")
    subprocess.run([ray, "get-auth-token", "--generate"], env=environment, check=True, capture_output=True)
    process = subprocess.Popen(
        [ray, "start", "--head", "--block", "--num-cpus=2", "--object-store-memory=300000000"]
        + [f"--{name}={port}" for name, port in ports.items()],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for_port(ports["dashboard-port"])
        yield {**environment, "RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{ports['dashboard-port']}"}
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(60)
        _, alive = psutil.wait_procs(children, timeout=20)
        for child in alive:
            child.kill()


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError(f"nothing listens on port {port}")


def test_submitted_job_gives_the_rows_of_the_local_run(head, sample_run, tmp_path):
    ray, run = str(Path(sys.executable).parent / "ray"), tmp_path / "run"

    def submit(*words: str) -> Ended:
        deadline = time.monotonic() + 90
        while AGENT_STARTS in (ended := submitted(*words)).output and time.monotonic() < deadline:
            time.sleep(1.0)
        return ended

    def submitted(*words: str) -> Ended:
        done = subprocess.run(
            [ray, "job", "submit", "--working-dir", ".", "--", "python", "jobs/full_bench.py", *words],
            cwd=ROOT,
            env=head,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout + done.stderr)

    ended = submit(f"run.uri={run}", TWO)
    assert ended.code == 0, ended.output
    found = rows_of(Store(str(run)))
    assert found.equals(rows_of(Store(str(sample_run[1]))))
    assert submit(f"run.uri={run}", TWO).code == 0
    assert timings(Store(str(run)))["rows_scored"] == 0
    lost = submit("run.uri=runs/latest")
    assert lost.code != 0
    assert "run.uri=runs/latest is relative" in lost.output
