"""Score one two-channel file and print its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from spear_ray.audio import Decoded, decode
from spear_ray.config import BenchConfig, load, names_scorers
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Problem, Score, Status
from spear_ray.errors import AudioChannels, AudioError, AudioMissing, RowError
from spear_ray.sources.base import Item, number, optional_number, two_channels
from spear_ray.sources.recordings import UNNAMED, check_recording_times
from spear_ray.store import split_file

TIMES = ("question_end_s", "answer_start_s", "context_end_s")


def score_file(path: str, words: Sequence[str], out: TextIO) -> int:
    """Score a file with the configured scorers; one JSON object per row.

    Args:
        path: local or `s3://`; two channels, 0 asks and 1 answers.
        words: `question_end_s=…`, optionally `answer_start_s=…` (relative to it) and `context_end_s=…`, and
            configuration words.
        out: where the rows go.

    Returns:
        0, or 1 where a row is in error.

    Raises:
        RequestError: a scorer's prerequisite is missing, or a word is wrong.
    """
    from spear_ray.bench import make_scorers
    from spear_ray.stages import score_safely

    given = [word for word in words if word.startswith(tuple(f"{name}=" for name in TIMES))]
    times = dict(word.split("=", 1) for word in given)
    rest = [word for word in words if word not in given]
    config = load(rest)
    dialogue = _dialogue(path, times, config)
    rows: list[Score] = []
    for scorer in make_scorers(config, names_scorers(rest)):
        scorer.setup()
        rows += score_safely(scorer, [dialogue])
    for row in rows:
        out.write(json.dumps(asdict(row), indent=2) + "\n")
    return int(any(row.status == Status.ERROR for row in rows))


def _dialogue(path: str, times: dict[str, str], config: BenchConfig) -> Dialogue:
    item = Item(Path(path).name, Path(path).name, UNNAMED, UNNAMED, UNNAMED)
    try:
        return _readable(path, times, config, item)
    except RowError as error:
        return Dialogue(**item._asdict(), problem=Problem.of(error))


def _readable(path: str, times: dict[str, str], config: BenchConfig, item: Item) -> Dialogue:
    question_end_s = number(times, "question_end_s")
    answer_start_s = optional_number(times, "answer_start_s")
    context_end_s = optional_number(times, "context_end_s") or 0.0
    decoded = _decoded(path, config)
    if decoded.samples.shape[0] != 2:
        raise AudioChannels(f"{path} has one channel; a recording needs one channel for each side")
    seconds = decoded.samples.shape[1] / SAMPLE_RATE_HZ
    check_recording_times(seconds, question_end_s, answer_start_s, context_end_s)
    asking = 0 if config.data.asking_channel == "auto" else int(config.data.asking_channel)
    return Dialogue(
        **item._asdict(),
        clip=two_channels(decoded.samples, asking),
        question_end_s=question_end_s,
        answer_start_s=answer_start_s,
        context_end_s=context_end_s,
        facts={"recording": asdict(decoded.facts)},
    )


def _decoded(path: str, config: BenchConfig) -> Decoded:
    store, name = split_file(path)
    store.check()
    try:
        data = store.read(name, config.audio.max_bytes)
    except FileNotFoundError:
        raise AudioMissing(f"{path} does not exist") from None
    try:
        return decode(data, config.audio)
    except AudioError as error:
        raise type(error)(f"{path}: {error}") from error
