"""`make speed`: what spear_ray claims of its speed and memory, as ratios measured in one run on this machine.

Usage: python tests/speed.py [vad] [onsets] [turns] [job] [memory] [rerun]   (all of them without words)
"""

from __future__ import annotations

import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from many import multiply  # noqa: E402

from spear_ray.timing.latency import answer_speech  # noqa: E402

LIMITS = {"vad": 5.0, "job": 1.25, "memory": 1.10}
SAMPLE_EVERY_S = 0.25
SCORERS = "scorers=[vad,turn_taking,prosody]"
"""Of the whole job; with DistillMOS, which is measured apart, it would take an hour."""


def main() -> None:
    chosen = sys.argv[1:] or ["vad", "onsets", "turns", "encoders", "quality", "judge", "job", "memory", "rerun", "api"]
    print(f"{platform.machine()}, {os.cpu_count()} cores, {psutil.virtual_memory().total >> 30} GiB, {_processor()}")
    checks: dict[str, Callable[[Path], None]] = {
        "vad": vad,
        "onsets": onsets,
        "turns": turns,
        "encoders": encoders,
        "quality": quality,
        "judge": judge,
        "job": job,
        "memory": memory,
        "rerun": rerun,
        "api": api,
        "api_load": api_load,
    }
    with tempfile.TemporaryDirectory(prefix="spear-speed-") as folder:
        for name in chosen:
            checks[name](Path(folder))


def vad(folder: Path) -> None:
    """CPU time of the package's TorchScript path over ours, on every channel of the sample, one thread each."""
    from silero_vad import get_speech_timestamps, load_silero_vad

    from spear_ray.config import load
    from spear_ray.scorers import scorer_type
    from spear_ray.sources import open_source

    config = load([])
    source = open_source(config)
    channels = [
        channel
        for shard in source.shards()
        for _, dialogue in source.read(shard, range(shard.rows))
        for channel in dialogue.audio
    ]
    scorer: Any = scorer_type("vad")(config.scorer.vad)
    scorer.setup()
    script = load_silero_vad()

    def reference(channel: Any) -> list[tuple[int, int]]:
        return [(item["start"], item["end"]) for item in get_speech_timestamps(channel.copy(), script)]

    def ours(channel: Any) -> list[tuple[int, int]]:
        return [
            (round(part.start * 16_000), round(part.end * 16_000))
            for part in scorer.speech(channel, config.scorer.vad.speech)
        ]

    reference(channels[0])
    ours(channels[0])
    slow, expected = _cpu(lambda: [reference(channel) for channel in channels])
    fast, found = _cpu(lambda: [ours(channel) for channel in channels])
    seconds = sum(channel.size for channel in channels) / 16_000
    same = sum(a == b for a, b in zip(expected, found, strict=True))
    print(f"vad: {same} of {len(channels)} channels give the reference's segments, sample by sample")
    print(
        f"vad: TorchScript takes {slow / fast:.1f} x our CPU time (asked for: at least {LIMITS['vad']:g} x);"
        f" ours runs at {seconds / fast:.0f} x real time per core"
    )


def onsets(folder: Path) -> None:
    """Where `vad` finds the sample's answers to begin, against the times known from synthesis."""
    from spear_ray.config import load
    from spear_ray.sample import SAMPLE_DIR
    from spear_ray.scorers import scorer_type
    from spear_ray.sources import open_source

    with (SAMPLE_DIR / "truth.csv").open(newline="", encoding="utf-8") as file:
        truth = {(row["system"], row["id"]): row["answer_speech_start_s"] for row in csv.DictReader(file)}
    for pad_ms in (30, 0):
        config = load([f"scorer.vad.speech.pad_ms={pad_ms}"])
        source = open_source(config)
        scorer: Any = scorer_type("vad")(config.scorer.vad)
        scorer.setup()
        errors_ms = []
        for shard in source.shards():
            for _, dialogue in source.read(shard, range(shard.rows)):
                known = truth[dialogue.system, dialogue.dialogue_id.rpartition("/")[2]]
                found = answer_speech(
                    scorer.speech(dialogue.audio[1], config.scorer.vad.speech),
                    dialogue.question_end_s,
                    dialogue.answer_onset_s,
                )
                if known:
                    errors_ms.append(1000 * (found[0].start - float(known)))
        mean, low, high = sum(errors_ms) / len(errors_ms), min(errors_ms), max(errors_ms)
        print(
            f"onsets: padded by {pad_ms} ms, {len(errors_ms)} answers begin {mean:+.0f} ms"
            f" from the truth on average ({low:+.0f} to {high:+.0f})"
        )


def turns(folder: Path) -> None:
    """The turn-taking predictors."""
    from tests import speed_turns

    speed_turns.timing()
    speed_turns.networks()


def encoders(folder: Path) -> None:
    """The emotion and dialect scorers, small."""
    from tests import speed_encoders

    speed_encoders.cpu()


def quality(folder: Path) -> None:
    """The quality and prosody scorers against one call per file."""
    from tests import speed_quality

    speed_quality.cpu()


def judge(folder: Path) -> None:
    """The judge's engine: exchanges at once against one after the other."""
    from tests import speed_judge

    speed_judge.cpu()


def api(folder: Path) -> None:
    """The API beside the scorers in process."""
    from tests import speed_api

    speed_api.rates(folder)


def api_load(folder: Path) -> None:
    """Ten minutes of mixed load; only where it is asked for by name."""
    from tests import speed_api

    speed_api.load_test(folder)


def job(folder: Path) -> None:
    """Wall time of a 2,000-dialogue run, start-up excluded, over scorer CPU time / cores."""
    timings, _ = _bench(multiply(folder / "job", 2000), folder / "job-run")
    cores = os.cpu_count() or 1
    ideal = sum(timings["scorer_cpu_seconds"].values()) / cores
    ratio = timings["scoring_seconds"] / ideal
    print(
        f"job: 2000 dialogues ({timings['audio_seconds'] / 3600:.2f} h) in {timings['scoring_seconds']:.1f} s on"
        f" {cores} cores: {ratio:.2f} x scorer CPU time / cores (asked for: at most {LIMITS['job']:g} x)"
    )


def memory(folder: Path) -> None:
    """Peak anonymous memory of driver and workers with 5,000 dialogues over that with 500."""
    _, small = _bench(multiply(folder / "m500", 500), folder / "m500-run")
    _, large = _bench(multiply(folder / "m5000", 5000), folder / "m5000-run")
    for role in ("driver", "worker"):
        ratio = large[role] / small[role]
        print(
            f"memory: {role} peak {small[role] >> 20} MiB with 500 dialogues, {large[role] >> 20} MiB with 5000:"
            f" {ratio:.2f} x (asked for: at most {LIMITS['memory']:g} x)"
        )


def rerun(folder: Path) -> None:
    """Wall time of a second, finished run over the first, from the command's start to its end."""
    data, run = multiply(folder / "r500", 500), folder / "r500-run"
    times = []
    for _ in range(2):
        begun = time.monotonic()
        timings, _ = _bench(data, run)
        times.append(time.monotonic() - begun)
    print(f"rerun: {timings['rows_scored']} rows scored again; {times[1] / times[0]:.2f} x the first run's wall time")


def _bench(data: Path, run: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """Run the job; its timings and the peak anonymous memory of the driver and of its largest worker."""
    words = [f"data.uri={data}", f"run.uri={run}", SCORERS]
    command = [sys.executable, str(ROOT / "jobs/full_bench.py"), *words]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peaks = {"driver": 0, "worker": 0}
    watcher = threading.Thread(target=_watch, args=(process.pid, peaks), daemon=True)
    watcher.start()
    output = process.communicate()[0]
    watcher.join()
    if process.returncode:
        sys.exit(f"the job ended with {process.returncode}:\n{output}")
    timings: dict[str, Any] = json.loads((run / "run.json").read_text())["timings"]
    return timings, peaks


def _watch(pid: int, peaks: dict[str, int]) -> None:
    try:
        driver = psutil.Process(pid)
        while driver.status() != psutil.STATUS_ZOMBIE:
            peaks["driver"] = max(peaks["driver"], _anonymous(pid))
            for child in driver.children(recursive=True):
                try:
                    if child.cmdline()[:1] and child.cmdline()[0].startswith("ray::MapWorker"):
                        peaks["worker"] = max(peaks["worker"], _anonymous(child.pid))
                except psutil.Error:
                    continue
            time.sleep(SAMPLE_EVERY_S)
    except psutil.Error:
        return


def _anonymous(pid: int) -> int:
    """Bytes of memory that are the process's own: no libraries, which it may share with others, no object store."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("RssAnon:")), 0)


def _cpu(call: Callable[[], list[Any]]) -> tuple[float, list[Any]]:
    before = time.process_time()
    result = call()
    return time.process_time() - before, result


def _processor() -> str:
    names: Sequence[str] = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
