"""Score one two-channel file and print its rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from spear_ray.config import BenchConfig, load, names_scorers
from spear_ray.dialogue import Dialogue, Problem, Score, Status
from spear_ray.errors import ConfigError, RowError
from spear_ray.sources.base import Item
from spear_ray.sources.recordings import UNNAMED, RecordingsSource
from spear_ray.store import split_file

TIMES = ("question_end_s", "answer_start_s", "context_end_s")
SERVER = "--server"


def score_file(path: str, words: Sequence[str], out: TextIO) -> int:
    """Score a file with the configured scorers; one JSON object per row.

    Args:
        path: local or `s3://`; two channels, 0 asks and 1 answers.
        words: `question_end_s=…`, optionally `answer_start_s=…` (relative to it) and `context_end_s=…`, and
            configuration words. `--server URL` asks a running API instead of loading models.
        out: where the rows go.

    Returns:
        0, or 1 where a row is in error.

    Raises:
        RequestError: a scorer's prerequisite is missing, or a word is wrong.
    """
    from spear_ray.bench import make_scorers
    from spear_ray.stages import score_safely

    if SERVER in words:
        return _ask_server(path, words, out)
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


def _ask_server(path: str, words: Sequence[str], out: TextIO) -> int:
    """The same rows from a running API.

    Raises:
        ConfigError: no URL, or a word that the API does not take.
        ApiFailure: it has no rows.
    """
    from spear_ray.client import Client, as_json

    place = list(words).index(SERVER)
    url, rest = "".join(words[place + 1 : place + 2]), [*words[:place], *words[place + 2 :]]
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{SERVER} needs the API's address: {SERVER} http://127.0.0.1:8000")
    fields = dict(word.split("=", 1) for word in rest if "=" in word)
    unknown = [word for word in rest if word.partition("=")[0] not in (*TIMES, "scorers")]
    if unknown:
        raise ConfigError(f"with {SERVER} only times and scorers=[…] can be said, not {', '.join(unknown)}")
    names = fields.pop("scorers", "").strip("[]")
    request = {"id": Path(path).name, "system": UNNAMED, "split": UNNAMED, "subset": UNNAMED, **fields}
    store, name = split_file(path)
    store.check()
    with Client(url) as client:
        reply = client.score(
            audio=store.read(name), request={**request, **({"scorers": names.split(",")} if names else {})}
        )
    out.write(as_json(reply))
    return int(any(row.status == str(Status.ERROR) for row in reply.rows))


def _dialogue(path: str, times: dict[str, str], config: BenchConfig) -> Dialogue:
    item = Item(Path(path).name, Path(path).name, UNNAMED, UNNAMED, UNNAMED)
    store, name = split_file(path)
    store.check()
    try:
        return RecordingsSource(config.data, config.audio, store, table="").recording(item, {"file": name, **times})
    except RowError as error:
        return Dialogue(**item._asdict(), problem=Problem(error.code, f"{path}: {error}"))
