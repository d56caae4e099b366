"""Clips of many lengths through a network: bucketed by length, halved where the GPU's memory is too small."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeVar

import numpy as np
import torch

from spear_ray.dialogue import Samples
from spear_ray.errors import OutOfGpuMemory

Result = TypeVar("Result")
Precision = Literal["fp32", "bf16"]


def bucketed(lengths: Sequence[int], most_samples: int, most_clips: int) -> Iterator[list[int]]:
    """Places in order of length, in batches of like length.

    Args:
        lengths: samples of each clip.
        most_samples: of padded audio in one batch; a longer clip is a batch of its own.
        most_clips: in one batch.
    """
    batch: list[int] = []
    for place in np.argsort(lengths, kind="stable").tolist():
        if batch and ((len(batch) + 1) * lengths[place] > most_samples or len(batch) >= most_clips):
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def run_halving(
    run: Callable[[list[Samples]], Sequence[Result]], clips: list[Samples]
) -> list[Result | OutOfGpuMemory]:
    """One result for each clip; a batch that does not fit the GPU is halved, a single clip that does not is an error.

    Args:
        run: a batch of clips to one result each.
        clips: float32 [samples] each.
    """
    try:
        return list(run(clips))
    except torch.OutOfMemoryError as error:
        reason = str(error).splitlines()[0]
    # Only here the frames that held the batch's tensors are gone.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    if len(clips) == 1:
        return [OutOfGpuMemory(f"{clips[0].size} samples do not fit: {reason}")]
    half = len(clips) // 2
    return [*run_halving(run, clips[:half]), *run_halving(run, clips[half:])]


def padded(clips: Sequence[Samples], samples: int, device: str | torch.device) -> torch.Tensor:
    """Clips as one tensor on a device, with zeros behind them; through pinned memory to a GPU.

    Args:
        clips: float32 [samples] each; what is longer than `samples` is cut.
        samples: width.
        device: where to.

    Returns:
        float32 [clips, samples].
    """
    rows = np.zeros((len(clips), samples), dtype=np.float32)
    for row, clip in zip(rows, clips, strict=True):
        row[: min(clip.size, samples)] = clip[:samples]
    tensor = torch.from_numpy(rows)
    if torch.device(device).type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def lowered(precision: Precision, device: str | torch.device) -> contextlib.AbstractContextManager[None]:
    """The context in which an encoder runs."""
    if precision == "bf16":
        return torch.autocast(torch.device(device).type, dtype=torch.bfloat16)
    return contextlib.nullcontext()


def best_device() -> str:
    """`cuda` where there is one, else `cpu`."""
    return "cuda" if torch.cuda.is_available() else "cpu"
