"""Speed of `quality` and `prosody`, for `make speed`: the scorers' batches against one call per file."""

import contextlib
import io
import time
from collections.abc import Callable

import numpy as np
import torch

from spear_ray.config import load
from spear_ray.scorers import scorer_type
from tests.bundled import dialogues

ANSWERS = 24


def cpu() -> None:
    """Ratios in one run, everything warm, one thread."""
    torch.set_num_threads(1)
    batch = [one for one in dialogues() if one.answer is not None and np.abs(one.answer).max() > 0][:ANSWERS]
    seconds = sum(one.answer.size for one in batch) / 16_000
    for name, measured in (("distillmos", _distillmos), ("dnsmos", _dnsmos)):
        alone, ours = measured(batch)
        ratio, speed = alone / ours, seconds / ours
        print(f"{name}: one call of the package per file takes {ratio:.2f} x our time; {speed:.1f} x real time")
    made = scorer_type("prosody")(load([]).scorer.prosody)
    made.setup()
    alone = _timed(lambda: [made.score([one]) for one in batch])
    ours = _timed(lambda: made.score(batch))
    ratio, speed = alone / ours, seconds / ours
    print(f"prosody: one call per file takes {ratio:.2f} x the time of one batch; {speed:.0f} x real time")


def _distillmos(batch: list) -> tuple[float, float]:
    from distillmos import ConvTransformerSQAModel

    from spear_ray.networks.distillmos import DistillMos

    with contextlib.redirect_stdout(io.StringIO()):
        package = ConvTransformerSQAModel().eval()

    def each() -> None:
        with torch.inference_mode():
            for one in batch:
                package(torch.from_numpy(one.answer.copy())[None])

    ours = DistillMos()
    return _timed(each), _timed(lambda: ours.scores([one.answer for one in batch]))


def _dnsmos(batch: list) -> tuple[float, float]:
    from speechmos import dnsmos

    from spear_ray.networks.dnsmos import Dnsmos

    ours = Dnsmos()
    return (
        _timed(lambda: [dnsmos.run(one.answer, 16_000) for one in batch]),
        _timed(lambda: [ours.scores(one.answer) for one in batch]),
    )


def _timed(work: Callable[[], object]) -> float:
    """CPU seconds of the second of two calls."""
    work()
    begun = time.process_time()
    work()
    return time.process_time() - begun


if __name__ == "__main__":
    cpu()
