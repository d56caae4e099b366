"""How dialogues and scores travel between stages: Arrow tables whose audio is read without a copy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from spear_ray.dialogue import Dialogue, Problem, Samples, Score, Status

AUDIO_COLUMNS = ["clip", "answer"]
_BINARY = frozenset(AUDIO_COLUMNS)
_PLAIN = tuple(field.name for field in fields(Dialogue) if field.name not in {*_BINARY, "problem"})


def block_of(shard: str, rows: Sequence[tuple[int, Dialogue]], todo: Mapping[int, Sequence[str]]) -> pa.Table:
    """A block: shard, row, todo (scorer names), seconds, the dialogue's fields as JSON, and its audio.

    Args:
        shard: id of the shard that all rows come from.
        rows: (row number, dialogue).
        todo: the scorers that each row still needs.
    """
    dialogues = [dialogue for _, dialogue in rows]
    return pa.table(
        {
            "shard": pa.array([shard] * len(rows), pa.string()),
            "row": pa.array([row for row, _ in rows], pa.int64()),
            "todo": pa.array([",".join(todo[row]) for row, _ in rows], pa.string()),
            "seconds": pa.array([dialogue.seconds for dialogue in dialogues], pa.float64()),
            "meta": pa.array([_meta(dialogue) for dialogue in dialogues], pa.string()),
            "clip": _packed([dialogue.clip for dialogue in dialogues]),
            "answer": _packed([dialogue.answer for dialogue in dialogues]),
        }
    )


def dialogues_of(block: pa.Table) -> list[Dialogue]:
    """The dialogues of a block; their audio points into the block's memory and cannot be written to."""
    audio = (_unpacked(block.column(name)) for name in AUDIO_COLUMNS)
    return [_dialogue(*row) for row in zip(block.column("meta").to_pylist(), *audio, strict=True)]


def score_column(scorer: str, what: str = "scores") -> str:
    """Name of a scorer's column in a block."""
    return f"{what}:{scorer}"


def with_scores(block: pa.Table, scorer: str, scores: Sequence[Score | None], spent: Mapping[str, float]) -> pa.Table:
    """The block with a scorer's rows (JSON; null where it had nothing to do) and, once, what it spent."""
    rows = pa.array([None if score is None else _score_text(score) for score in scores], pa.string())
    first = pa.array([json.dumps(spent), *([None] * (block.num_rows - 1))], pa.string())
    block = block.append_column(score_column(scorer), rows)
    return block.append_column(score_column(scorer, "spent"), first)


def scores_of(block: pa.Table, scorer: str) -> list[Score | None]:
    """A scorer's rows of a block; None where it had nothing to do."""
    return [None if text is None else _score(text) for text in block.column(score_column(scorer)).to_pylist()]


def _packed(parts: Sequence[Samples | None]) -> Any:
    """Samples as one large_binary column, copied once; null where there are none."""
    sizes = [0 if part is None else part.size for part in parts]
    flat = np.empty(sum(sizes), dtype=np.float32)
    ends = np.cumsum([0, *sizes], dtype=np.int64)
    for part, begin, end in zip(parts, ends, ends[1:], strict=False):
        if part is not None:
            flat[begin:end].reshape(part.shape)[...] = part
    valid = pa.array([part is not None for part in parts], pa.bool_()).buffers()[1]
    buffers = [valid, pa.py_buffer((ends * flat.itemsize).data), pa.py_buffer(flat.data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(parts), buffers)


def _meta(dialogue: Dialogue) -> str:
    values: dict[str, Any] = {name: getattr(dialogue, name) for name in _PLAIN}
    values["problem"] = [dialogue.problem.code, dialogue.problem.message] if dialogue.problem else None
    return json.dumps(values)


def _dialogue(meta: str, clip: Samples | None, answer: Samples | None) -> Dialogue:
    values = json.loads(meta)
    problem = values.pop("problem")
    values["notes"] = tuple(values["notes"])
    return Dialogue(
        **values,
        problem=Problem(*problem) if problem else None,
        clip=None if clip is None else clip.reshape(2, -1),
        answer=answer,
    )


def _unpacked(column: Any) -> Iterator[Samples | None]:
    """Views of a large_binary column; a scalar's own buffer would be a copy."""
    for chunk in column.chunks:
        _, edges, data = chunk.buffers()
        offsets = np.frombuffer(edges, dtype=np.int64)[chunk.offset : chunk.offset + len(chunk) + 1]
        for index, valid in enumerate(chunk.is_valid().to_pylist()):
            yield _view(data, int(offsets[index]), int(offsets[index + 1])) if valid else None


def _view(data: Any, begin: int, end: int) -> Samples:
    samples: Samples = np.frombuffer(data, dtype=np.float32, count=(end - begin) // 4, offset=begin)
    # Several scorers read the same memory.
    samples.flags.writeable = False
    return samples


def _score_text(score: Score) -> str:
    values = {field.name: getattr(score, field.name) for field in fields(Score)}
    return json.dumps(values, allow_nan=False)


def _score(text: str) -> Score:
    values = json.loads(text)
    return Score(**{**values, "status": Status(values["status"])})
