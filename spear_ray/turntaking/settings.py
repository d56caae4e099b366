"""The parts of the configuration that `turn_bench` and `fit_timing` read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class TurnBenchConfig:
    """How `turn_bench` measures a turn-taking predictor.

    Args:
        limit: pairs of each kind of edit.
        seed: of the clips, the edits and the bootstrap.
        split: rows of a table of intervals with this `split` count; empty takes all.
        held_out: leave out the conversations that the statistics of predictor=timing were fitted on.
    """

    limit: int = 1000
    seed: int = 0
    split: str = ""
    held_out: bool = True


@dataclass(kw_only=True)
class FitConfig:
    """How `fit_timing` fits timing statistics.

    Args:
        name: of the population; the files are called `<name>.json` and `<name>.md`.
        title: what the data is, for the card.
        out: folder or `s3://` prefix to write to.
        split: rows of this `split` are fitted on and those of `test_split` measured on; empty fits on one half of the
            conversations and measures on the other.
        test_split: see `split`.
        system: of a run: whose dialogues count.
        compare: a second table of intervals, which the card compares with.
        compare_split: its rows that count.
        ablation: also fit without each part of the context, and say what it is worth.
        limit: pairs of each kind of edit that accuracy is measured on.
        seed: of clips, edits and bootstrap.
    """

    name: str = ""
    title: str = ""
    out: str = ""
    split: str = ""
    test_split: str = ""
    system: str = "human"
    compare: str = ""
    compare_split: str = ""
    ablation: bool = False
    limit: int = 1000
    seed: int = 0
