"""Speed and steadiness of the API, for `make speed`: ratios in one run, all against the scorers themselves."""

import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from spear_ray.client import ApiFailure, Client
from spear_ray.config import load
from spear_ray.dialogue import Dialogue
from spear_ray.pcm import wav
from spear_ray.scorers import Scorer, scorer_type
from spear_ray.serving.messages import ScoreRequest
from spear_ray.stages import score_safely
from tests.bundled import dialogues
from tests.serving.api_server import serving

NAMES = ("vad", "turn_taking", "prosody")
WORDS = [f"scorers=[{','.join(NAMES)}]"]
ROWS = 200
LOAD_S = 600.0
BAD = 0.05
"""Of the requests in the mixed load: damaged files, and as many clients that hang up."""


def rates(folder: Path) -> None:
    """Rows equal the batch job's scorers'; overhead at one request at a time; throughput at 32."""
    asked = _requests()
    made = _scorers()
    (folder / "api").mkdir()
    with serving(folder / "api", WORDS) as url:
        with Client(url) as client:
            rows = [_values(client.score(**one).rows) for one in asked[:ROWS]]
        expected = [_in_process(made, dialogue) for dialogue in _dialogues()[:ROWS]]
        same = sum(one == other for one, other in zip(rows, expected, strict=True))
        print(f"api: {same} of {ROWS} dialogues have the rows of the scorers in process, metric by metric")
        alone = _timed(lambda place: _in_process(made, _dialogues()[place]), 60)
        with Client(url) as client:
            over = _timed(lambda place: client.score(**asked[place]), 60)
        print(
            f"api: at concurrency 1 the median request takes {statistics.median(over) / statistics.median(alone):.2f} x"
            f" scoring in process, {1000 * (statistics.median(over) - statistics.median(alone)):.0f} ms more"
        )
        seconds, latencies = _at_once(url, asked, 32)
        p95 = float(np.percentile(latencies, 95))
    job = _job(folder / "api-job")
    print(
        f"api: at concurrency 32, {ROWS / seconds:.1f} dialogues/s, {ROWS / seconds / job:.2f} x the batch job's on the"
        f" same cores (asked for: at least 0.8 x); p95 {1000 * p95:.0f} ms"
    )


def load_test(folder: Path) -> None:
    """Ten minutes of mixed load: no 5xx, no lost reply, flat memory."""
    asked, outcome = _requests(), {"sent": 0, "rows": 0, "refused": 0, "hung_up": 0, "5xx": 0, "lost": 0}
    lock = threading.Lock()
    (folder / "load").mkdir()
    with serving(folder / "load", WORDS) as url:
        for one in asked[:20]:
            with Client(url) as client:
                client.score(**one)
        before, ends = _memory(), time.monotonic() + LOAD_S
        threads = [threading.Thread(target=_mixed, args=(url, asked, outcome, lock, ends, seed)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = _memory()
    print(f"api: {LOAD_S / 60:.0f} minutes of mixed load: {outcome}; memory {after / before:.2f} x that at the start")


def _mixed(url: str, asked: list[dict[str, Any]], outcome: dict[str, int], lock: Any, ends: float, seed: int) -> None:
    generator = random.Random(seed)
    while time.monotonic() < ends:
        kind, content = generator.random(), generator.choice(asked)
        key = _one(url, content, kind)
        with lock:
            outcome["sent"] += 1
            outcome[key] += 1


def _one(url: str, content: dict[str, Any], kind: float) -> str:
    """One request: fine, with a damaged file, or one whose client hangs up."""
    if kind < BAD:
        content = {**content, "answer": b"RIFF" + content["answer"][4:200]}
    patience = 0.02 if BAD <= kind < 2 * BAD else 120.0
    try:
        with Client(url, timeout_s=patience) as client:
            client.score(**content)
            return "rows"
    except ApiFailure as error:
        if error.status == 0:
            return "hung_up" if patience < 1 else "lost"
        return "5xx" if error.status >= 500 else "refused"


def _memory() -> int:
    """Unique memory of all processes of the API."""
    found = 0
    for process in psutil.process_iter(["cmdline"]):
        if "ServeReplica:spear" in " ".join(process.info["cmdline"] or ()):
            found += process.memory_full_info().uss
    return found


def _dialogues() -> list[Dialogue]:
    own = [one for one in dialogues() if one.answer is not None]
    return (own * (ROWS // len(own) + 1))[:ROWS]


def _requests() -> list[dict[str, Any]]:
    return [
        {
            "question": _two_channels(one.clip),
            "answer": wav(one.answer),
            "request": ScoreRequest(
                id=one.dialogue_id, conversation_id=one.conversation_id, system=one.system, split=one.split,
                subset=one.subset, question_end_s=one.question_end_s,
                answer_start_s=one.answer_start_s, context_end_s=one.context_end_s, question_text=one.question_text,
                answer_text=one.answer_text, roles=dict(one.roles),
            ),
        }
        for one in _dialogues()
    ]  # fmt: skip


def _two_channels(clip: Any) -> bytes:
    import io

    import soundfile

    file = io.BytesIO()
    soundfile.write(file, clip.T, 16_000, format="WAV", subtype="FLOAT")
    return file.getvalue()


def _scorers() -> list[Scorer[Any]]:
    config = load(WORDS)
    made = [scorer_type(name)(getattr(config.scorer, name)) for name in NAMES]
    for one in made:
        one.setup()
    return made


def _values(rows: Any) -> list[tuple[str, dict[str, float]]]:
    return [(row.scorer, dict(row.metrics)) for row in rows]


def _in_process(made: list[Scorer[Any]], dialogue: Dialogue) -> list[tuple[str, dict[str, float]]]:
    return [(row.scorer, dict(row.metrics)) for scorer in made for row in score_safely(scorer, [dialogue])]


def _timed(work: Callable[[int], object], count: int) -> list[float]:
    found = []
    for place in range(count):
        begun = time.monotonic()
        work(place)
        found.append(time.monotonic() - begun)
    return found


def _at_once(url: str, asked: list[dict[str, Any]], concurrency: int) -> tuple[float, list[float]]:
    def one(content: dict[str, Any]) -> float:
        begun = time.monotonic()
        with Client(url, timeout_s=300) as client:
            client.score(**content)
        return time.monotonic() - begun

    begun = time.monotonic()
    with ThreadPoolExecutor(concurrency) as pool:
        latencies = list(pool.map(one, asked))
    return time.monotonic() - begun, latencies


def _job(folder: Path) -> float:
    """Dialogues per second of the batch job, start-up excluded."""
    from speed import _bench

    from tests.many import multiply

    timings, _ = _bench(multiply(folder / "data", 1000), folder / "run")
    return 1000 / float(timings["scoring_seconds"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        rates(Path(place))
        load_test(Path(place))
