"""Progress of a run: a bar on a terminal, a line of JSON every few seconds elsewhere (job logs)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from spear_ray.pipeline import Progress


@contextmanager
def display(console: Console, total: int, seconds: float) -> Iterator[Callable[[Progress], None]]:
    """A function to call after each committed block.

    Args:
        console: where to show it.
        total: (row, scorer) pairs to score.
        seconds: least time between lines where the console is no terminal.
    """
    if console.is_terminal:
        with _bar(console, total) as show:
            yield show
    else:
        yield _lines(console, seconds)


@contextmanager
def _bar(console: Console, total: int) -> Iterator[Callable[[Progress], None]]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=console) as bar:
        task = bar.add_task("starting", total=total)

        def show(progress: Progress) -> None:
            errors = sum(count for key, count in progress.status.items() if key.split(".")[1] == "error")
            text = f"{progress.audio_s / 3600:.2f} h of audio" + (f", {errors} errors" if errors else "")
            bar.update(task, completed=progress.done, description=text)

        yield show


def _lines(console: Console, seconds: float) -> Callable[[Progress], None]:
    last = float("-inf")

    def show(progress: Progress) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < seconds and progress.done < progress.total:
            return
        last = now
        line = {
            "rows": progress.done,
            "of": progress.total,
            "audio_hours": round(progress.audio_s / 3600, 3),
            "seconds": round(progress.wall_s, 1),
            "status": progress.status,
        }
        console.print(json.dumps(line), soft_wrap=True, markup=False, highlight=False)

    return show
