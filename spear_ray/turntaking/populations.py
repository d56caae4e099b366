"""Who spoke when in many conversations: read from a table of intervals, or from the rows of a finished run."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spear_ray.errors import DataLayoutError
from spear_ray.store import Store, split_file
from spear_ray.turntaking.timeline import Timeline

COLUMNS = ("source", "duration_s", "a", "b")
CLIP_S = (20.0, 30.0)
MAX_SECONDS = 24 * 3600.0


class Conversation(NamedTuple):
    """Activity of one conversation, or of one window of it.

    Args:
        source: conversation id; windows of one conversation share it.
        timeline: its inter-pausal units.
    """

    source: str
    timeline: Timeline


def key_of(source: str) -> str:
    """Eight hex digits that stand for a conversation id where the id itself is not to be published."""
    return hashlib.sha256(source.encode()).hexdigest()[:8]


def read_intervals(uri: str, split: str = "") -> list[Conversation]:
    """Conversations from a Parquet file with the columns source, duration_s, a, b and, for `split`, split.

    `a` and `b` are lists of [start, end] in seconds: when each side speaks.

    Raises:
        DataLayoutError: no such file, a column is missing, a time is outside its conversation, or nothing is left.
    """
    table = _read(uri, [*COLUMNS, *(["split"] if split else [])])
    found = [_conversation(row, uri) for row in table.to_pylist() if not split or row["split"] == split]
    if not found:
        raise DataLayoutError(f"{uri} has no conversations" + (f" of the split '{split}'" if split else ""))
    return found


def read_run(uri: str, system: str = "human", scorer: str = "turn_taking") -> list[Conversation]:
    """One system's dialogues from a finished run, by the activity that `turn_taking` kept in its details.

    Raises:
        DataLayoutError: the run has no such rows.
    """
    store = Store(uri)
    found = []
    for name in sorted(store.files(f"scores/{scorer}")):
        if name.endswith(".parquet"):
            columns = ["conversation_id", "system", "status", "details"]
            rows = pq.read_table(io.BytesIO(store.read(name)), columns=columns).to_pylist()
            found += [_scored(row) for row in rows if row["system"] == system and row["status"] == "ok"]
    if not found:
        raise DataLayoutError(f"{store.url()} has no scored {scorer} rows of the system '{system}'")
    return found


def clips(conversation: Conversation, rng: np.random.Generator) -> Iterator[Conversation]:
    """Cut into clips of 20 to 30 s from a random beginning on; a shorter conversation is one clip."""
    whole = conversation.timeline
    if whole.seconds <= CLIP_S[1]:
        yield conversation
        return
    start_s = float(rng.uniform(0.0, min(CLIP_S[0], whole.seconds - CLIP_S[0])))
    while start_s + CLIP_S[0] <= whole.seconds:
        end_s = min(start_s + float(rng.uniform(*CLIP_S)), whole.seconds)
        yield Conversation(conversation.source, whole.crop(start_s, end_s))
        start_s = end_s


def halves(conversations: Sequence[Conversation]) -> tuple[list[Conversation], list[Conversation]]:
    """Two halves by conversation id, the same ones always: even and odd last bit of its hash."""
    first = [one for one in conversations if int(key_of(one.source), 16) % 2 == 0]
    second = [one for one in conversations if int(key_of(one.source), 16) % 2 == 1]
    return first, second


def describe(conversations: Sequence[Conversation]) -> dict[str, float]:
    """What a population's timing is like, in seconds and shares of time."""
    from spear_ray.turntaking.context import table_of
    from spear_ray.turntaking.sojourns import State, sojourns

    chain = [one for conversation in conversations for one in sojourns(conversation.timeline)]
    table = table_of(chain)
    ended = table["end"] >= 0
    seconds = {state: float(table["length_s"][table["state"] == state].sum()) for state in State}
    total = sum(seconds.values())
    silence = (table["state"] == State.NONE) & ended
    gaps = table["length_s"][silence & (table["end"] == 1)]
    pauses = table["length_s"][silence & (table["end"] == 0)]
    overlaps = table["length_s"][(table["state"] == State.BOTH) & ended]
    return {
        "conversations": len({one.source for one in conversations}),
        "hours": sum(one.timeline.seconds for one in conversations) / 3600,
        "silence_share": seconds[State.NONE] / total,
        "overlap_share": seconds[State.BOTH] / total,
        "median_gap_s": float(np.median(gaps)),
        "gap_p90_s": float(np.quantile(gaps, 0.9)),
        "median_pause_s": float(np.median(pauses)),
        "pause_p90_s": float(np.quantile(pauses, 0.9)),
        "median_overlap_s": float(np.median(overlaps)),
        "changes_per_minute": 60 * float(table["new_turn"].sum()) / total,
    }


def _read(uri: str, columns: list[str]) -> pa.Table:
    store, name = split_file(uri)
    try:
        return pq.read_table(io.BytesIO(store.read(name)), columns=columns)
    except FileNotFoundError as error:
        raise DataLayoutError(f"{store.url(name)} does not exist") from error
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        reason = str(error).splitlines()[0]
        raise DataLayoutError(f"{uri} is not a table of intervals with {', '.join(columns)}: {reason}") from error


def _conversation(row: dict[str, Any], uri: str) -> Conversation:
    source, seconds = row["source"], row["duration_s"]
    try:
        asking, answering = ([(float(start), float(end)) for start, end in row[side]] for side in ("a", "b"))
    except (TypeError, ValueError) as error:
        raise DataLayoutError(f"{uri}: {source} has a or b that is not a list of [start, end]") from error
    if not 0 < seconds <= MAX_SECONDS or any(not 0 <= start <= end for start, end in [*asking, *answering]):
        raise DataLayoutError(f"{uri}: {source} has a time outside its conversation of {seconds} s")
    return Conversation(str(source), Timeline.of(asking, answering, float(seconds)).as_units())


def _scored(row: dict[str, Any]) -> Conversation:
    details = json.loads(row["details"])
    activity = details["activity"]
    timeline = Timeline.of(activity["asking"], activity["answering"], float(details["seconds"]))
    return Conversation(row["conversation_id"], timeline.as_units())
