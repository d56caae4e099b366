"""Large data sets out of the bundled sample's real speech: hard links, no new audio."""

from __future__ import annotations

import csv
import os
from pathlib import Path

from spear_ray.sample import SAMPLE_DIR

SYSTEMS = ("original", "early", "slow", "sometimes-silent")


def multiply(folder: Path, dialogues: int) -> Path:
    """A SPEARBench folder with so many dialogues; each links to a question and an answer of the sample."""
    originals = [row for system in SYSTEMS for row in _rows(system)]
    tables: dict[Path, list[dict[str, str]]] = {}
    for index in range(dialogues):
        system, row = originals[(index // 4 + 12 * (index % 4)) % len(originals)]
        copied = dict(row)
        for column in ("audio_path", "answer_audio_path"):
            copied[column] = _link(folder, row[column], index)
        copied["conversation_id"] = f"{row['conversation_id']}-{index // 48}"
        subset = Path(row["audio_path"]).parts[4]
        tables.setdefault(folder / "outputs" / system / "test" / subset / "metadata.csv", []).append(copied)
    for path, rows in tables.items():
        _write(path, rows)
    return folder


def _rows(system: str) -> list[tuple[str, dict[str, str]]]:
    tables = sorted((SAMPLE_DIR / "outputs" / system / "test").glob("*/metadata.csv"))
    return [(system, row) for table in tables for row in csv.DictReader(table.open(newline="", encoding="utf-8"))]


def _link(folder: Path, path: str, index: int) -> str:
    tail = Path(*Path(path).parts[2:])
    target = folder / tail.with_name(f"{tail.stem}_{index:06d}{tail.suffix}")
    target.parent.mkdir(parents=True, exist_ok=True)
    os.link(SAMPLE_DIR / tail, target)
    return f"data/seamless_2t_2s_questions/{target.relative_to(folder)}"


def _write(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
