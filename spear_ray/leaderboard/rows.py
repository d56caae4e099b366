"""The rows of one scorer as NumPy columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spear_ray.errors import ConfigError, RequestError
from spear_ray.leaderboard.statistics import Floats

if TYPE_CHECKING:
    import pyarrow as pa

Strings = npt.NDArray[np.object_]
Mask = npt.NDArray[np.bool_]

TEXT_COLUMNS = ("dialogue_id", "conversation_id", "system", "split", "subset", "status", "code", "message")


class MixedFingerprints(RequestError):
    """Rows that came from different settings or models cannot be compared."""

    code = "mixed_fingerprints"


@dataclass(frozen=True, kw_only=True, eq=False)
class ScorerRows:
    """Columns of one scorer's rows, sorted by dialogue id so that nothing depends on the order of files.

    Text columns are [rows] of str, with an empty string where the table has null. `values` maps a metric key
    to [rows] float64, NaN where a row does not have it.
    """

    dialogue_id: Strings
    conversation_id: Strings
    system: Strings
    split: Strings
    subset: Strings
    status: Strings
    code: Strings
    message: Strings
    values: Mapping[str, Floats]

    def value(self, key: str) -> Floats:
        """[rows] of one metric key; all NaN where no row has it."""
        return self.values[key] if key in self.values else np.full(self.system.size, np.nan)

    def where(self, mask: Mask) -> ScorerRows:
        """The rows that a boolean [rows] selects."""
        if mask.all():
            return self
        text = {name: getattr(self, name)[mask] for name in TEXT_COLUMNS}
        return ScorerRows(**text, values={key: column[mask] for key, column in self.values.items()})


def read_rows(scorer: str, table: pa.Table) -> ScorerRows:
    """Turn a table of score rows into columns.

    Args:
        scorer: its name, for the error.
        table: rows with the columns of `scores/<scorer>/*.parquet`.

    Raises:
        MixedFingerprints: the rows have more than one fingerprint.
    """
    _check_fingerprint(scorer, table)
    text = {name: _strings(table, name) for name in TEXT_COLUMNS}
    order = np.argsort(text["dialogue_id"], kind="stable")
    values = _metrics(table.column("metrics"), table.num_rows)
    return ScorerRows(
        **{name: column[order] for name, column in text.items()},
        values={key: column[order] for key, column in values.items()},
    )


def choose_split(rows: Mapping[str, ScorerRows], wanted: str) -> str:
    """The split that counts; an empty string stands for all rows.

    Args:
        rows: by scorer.
        wanted: `auto`, or the name of a split.

    Raises:
        ConfigError: no row has the named split.
    """
    present = sorted({str(split) for columns in rows.values() for split in np.unique(columns.split)})
    if wanted == "auto":
        return "test" if "test" in present else ""
    if wanted not in present:
        raise ConfigError(f"leaderboard.split={wanted}: the rows have {', '.join(present) or 'no split'}")
    return wanted


def _check_fingerprint(scorer: str, table: pa.Table) -> None:
    counts = Counter(str(value) for value in table.column("fingerprint").to_pylist())
    if len(counts) > 1:
        found = ", ".join(f"{name} ({count} rows)" for name, count in sorted(counts.items()))
        raise MixedFingerprints(
            f"scorer {scorer}: its rows have {len(counts)} fingerprints: {found}. They come from different"
            " settings or models and cannot be compared. Score all rows with one: choose a new run.uri,"
            f" or remove scores/{scorer} and run again."
        )


def _strings(table: pa.Table, name: str) -> Strings:
    # Objects, not fixed-width text: rows share their strings, and selecting rows copies pointers only.
    shared: dict[str, str] = {}
    texts = (value or "" for value in table.column(name).to_pylist())
    return np.array([shared.setdefault(text, text) for text in texts], dtype=np.object_)


def _metrics(column: Any, rows: int) -> dict[str, Floats]:
    """A map<string, double> column as one float64 [rows] for each key."""
    values: dict[str, Floats] = {}
    start = 0
    for chunk in column.chunks:
        row, keys, items = _entries(chunk)
        for key in np.unique(keys):
            target = values.setdefault(str(key), np.full(rows, np.nan))
            target[start + row[keys == key]] = items[keys == key]
        start += len(chunk)
    return {key: np.where(np.isfinite(target), target, np.nan) for key, target in values.items()}


def _entries(chunk: Any) -> tuple[npt.NDArray[np.int64], Strings, Floats]:
    """Row index, key and value of each entry of one map array; its offsets may start beyond 0 in a slice."""
    offsets = chunk.offsets.to_numpy()
    inside = slice(int(offsets[0]), int(offsets[-1]))
    row = np.repeat(np.arange(len(chunk)), np.diff(offsets))
    keys = np.array(chunk.keys[inside].to_pylist(), dtype=np.object_)
    items = chunk.items[inside].to_numpy(zero_copy_only=False).astype(np.float64)
    return row, keys, items
