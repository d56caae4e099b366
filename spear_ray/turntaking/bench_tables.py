"""Tables of a predictor's accuracy, for the terminal and for cards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

HEADER = ("edit", "pairs", "pairwise accuracy", "C-index", "mean difference in nats")
STATISTICS = ("pairwise_accuracy", "c_index", "delta_nll")


def table_rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """One row for each kind of edit, and one for their mean, each value with its 95 % interval."""
    for kind, entry in result["types"].items():
        yield (kind, str(entry["n"]), *(_with_interval(entry, name) for name in STATISTICS))
    overall = result["overall"]
    yield ("mean of the kinds", str(overall["n"]), *(_with_interval(overall, name) for name in STATISTICS))


def markdown(result: Mapping[str, Any]) -> str:
    """The table in Markdown, with a line for each kind of edit of which some pairs have no score."""
    lines = [HEADER, ("---",) * len(HEADER), *table_rows(result)]
    lacking = (f"\n{kind}: {count} pairs have no score\n" for kind, count in result["unscored"].items())
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "".join(lacking)


def _with_interval(entry: Mapping[str, Any], name: str) -> str:
    low, high = entry[f"{name}_ci95"]
    return f"{entry[name]:.3f} [{low:.3f}, {high:.3f}]"
