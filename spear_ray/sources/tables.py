"""CSV files as people make them: BOM, CRLF, UTF-8 or Latin-1."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from spear_ray.errors import DataLayoutError
from spear_ray.store import Store

Row = dict[str, str | None]


def read_csv(store: Store, name: str, required: Sequence[str]) -> tuple[list[Row], list[str]]:
    """All rows of a CSV file.

    Args:
        store: where it is.
        name: its path in the store.
        required: columns that must be there.

    Returns:
        Rows (missing cells are None), and notes on how it was read.

    Raises:
        DataLayoutError: no such file, no header, a required column is missing, or a broken quote.
        StorageError: the store failed.
    """
    try:
        data = store.read(name)
    except FileNotFoundError:
        raise DataLayoutError(f"{store.url(name)} does not exist") from None
    text, notes = _text(data, store.url(name))
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    try:
        columns = [column.strip() for column in reader.fieldnames or []]
        reader.fieldnames = columns
        absent = [column for column in required if column not in columns]
        if absent:
            raise DataLayoutError(
                f"{store.url(name)} lacks the column{'s' if len(absent) > 1 else ''} {', '.join(absent)};"
                f" it has: {', '.join(columns) or 'none'}"
            )
        return [{key: row.get(key) for key in columns} for row in reader], notes
    except csv.Error as error:
        raise DataLayoutError(f"{store.url(name)} line {reader.line_num}: {error}") from error


def _text(data: bytes, where: str) -> tuple[str, list[str]]:
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        return data.decode("latin-1"), [f"{where} is not UTF-8; it was read as Latin-1"]
