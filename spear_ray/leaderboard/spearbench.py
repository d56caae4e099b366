"""SPEARBench's table: its columns, and our values in them.

How SPEARBench itself makes these values out of its per-row files is in `spear_ray.leaderboard.published`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

from spear_ray.leaderboard.board import POOLED, Board, number

PROTOCOL = "seamless_2t_2s_questions"
"""The only protocol that SPEARBench evaluates: two turns, two speakers, the last one a question."""

HUMAN = "human"
"""What SPEARBench's table calls the recorded answers; it comes first there."""

VALUE_COLUMNS = (
    "UTMOS",
    "WER_%",
    "CER_%",
    "latency_ms",
    "interrupted_time_ms",
    "interruptions_%",
    "english_answers_%",
    "same_dialect_as_question_%",
    "north_american_dialect_%",
    "dialectal_entrainment_spearman",
    "dialectal_variance",
    "turn_taking_naturalness",
    "emotional_naturalness_logit",
    "arousal_question_answer_corr",
    "valence_question_answer_corr",
    "dominance_question_answer_corr",
    "stance_same_as_question_%",
    "stance_more_negative_%",
    "stance_more_positive_%",
    "explainable_duration_s",
    "explainable_voiced_ratio",
    "explainable_normalized_f0_std_avg",
)
COLUMNS = ("protocol", "model", *VALUE_COLUMNS)
"""The header of benchmark.csv, in SPEARBench's order."""


def benchmark_lines(board: Board) -> list[dict[str, str]]:
    """One line of benchmark.csv for each system: the human first, the others in alphabetical order.

    A column holds the pooled value of the metric that names it in `Metric.column`, and is blank where no
    metric does or no row has the value.

    Args:
        board: the values.

    Returns:
        One mapping of column to text for each system, with every column of `COLUMNS`.
    """
    values = {
        (entry.system, entry.column): number(entry.value)
        for entry in board.entries
        if entry.subset == POOLED and entry.column is not None
    }
    return [
        {"protocol": PROTOCOL, "model": system} | {column: values.get((system, column), "") for column in VALUE_COLUMNS}
        for system in _human_first(board.systems)
    ]


def write_benchmark(board: Board, file: TextIO) -> None:
    """Write benchmark.csv.

    Args:
        board: the values.
        file: a text file opened with `newline=""`.
    """
    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(benchmark_lines(board))


def _human_first(systems: Iterable[str]) -> list[str]:
    return sorted(systems, key=lambda system: (system != HUMAN, system))
