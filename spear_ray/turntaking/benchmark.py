"""How well does a predictor tell natural timing from edited timing? The benchmark behind `jobs/turn_bench.py`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from spear_ray.errors import DataLayoutError
from spear_ray.turntaking.pair_table import ScoredPair, pair_table
from spear_ray.turntaking.pairs_made import Pair
from spear_ray.turntaking.predictors import Predictor

PAIRS_AT_A_TIME = 16


@dataclass(slots=True)
class Measured:
    """What came of a benchmark's pairs.

    Args:
        scored: pairs of which both clips have a score.
        unscored: how many pairs of each kind have none: nobody takes or leaves the floor.
        records: one for each pair, for turn_bench_pairs.jsonl.
    """

    scored: list[ScoredPair] = field(default_factory=list)
    unscored: dict[str, int] = field(default_factory=dict)
    records: list[Mapping[str, Any]] = field(default_factory=list)

    def table(self, seed: int) -> dict[str, Any]:
        """`overall`, `types` and `unscored`.

        Raises:
            DataLayoutError: there is no scored pair.
        """
        if not self.scored:
            raise DataLayoutError("no clip of the data has room for an edit that could be scored")
        return pair_table(self.scored, seed) | {"unscored": self.unscored}

    def lines(self) -> bytes:
        """The records as JSON lines."""
        return "".join(json.dumps(record) + "\n" for record in self.records).encode()


def measure(predictor: Predictor, pairs: Iterable[Pair]) -> Measured:
    """Score pairs with a predictor that is set up."""
    measured = Measured()
    for some in _batches(pairs):
        clips = [clip for pair in some for clip in (pair.natural, pair.edited)]
        found = [one.pooled.dialog_nll if one else None for one in predictor.assess(clips)]
        for pair, natural, changed in zip(some, found[::2], found[1::2], strict=True):
            _add(measured, pair, natural, changed)
    return measured


def _batches(pairs: Iterable[Pair]) -> Iterator[Sequence[Pair]]:
    waiting = iter(pairs)
    while some := list(islice(waiting, PAIRS_AT_A_TIME)):
        yield some


def _add(measured: Measured, pair: Pair, natural: float | None, changed: float | None) -> None:
    measured.records.append(
        {"kind": pair.kind, "source": pair.source, "natural_nll": natural, "edited_nll": changed, **pair.record}
    )
    if natural is None or changed is None:
        measured.unscored[pair.kind] = measured.unscored.get(pair.kind, 0) + 1
    else:
        measured.scored.append(ScoredPair(pair.kind, pair.source, natural, changed))
