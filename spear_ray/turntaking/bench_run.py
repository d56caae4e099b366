"""From a configuration to turn_bench.json."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from spear_ray.config import BenchConfig
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.provenance import git_commit, versions
from spear_ray.scorers.turn_taking import TurnTakingScorer
from spear_ray.store import Store
from spear_ray.turntaking.benchmark import measure
from spear_ray.turntaking.pairs_made import Pair, make_pairs
from spear_ray.turntaking.populations import Conversation, key_of, read_intervals
from spear_ray.turntaking.predictors import NAMES, Predictor

RESULT = "turn_bench.json"
PAIRS = "turn_bench_pairs.jsonl"

SHORT = {"limit": "turn_bench.limit", "seed": "turn_bench.seed", "predictor": "scorer.turn_taking.predictor"}
"""Words of `turn_bench` that are short for configuration keys."""


def long_words(words: Sequence[str]) -> list[str]:
    """Words with their whole keys: `limit=10` becomes `turn_bench.limit=10`."""
    parts = [word.partition("=") for word in words]
    return [f"{SHORT.get(key, key)}{sign}{value}" for key, sign, value in parts]


def run_turn_bench(config: BenchConfig) -> tuple[dict[str, Any], str]:
    """Measure the configured predictor on pairs made of `data.uri`; write turn_bench.json and the pairs.

    Returns:
        What stands in turn_bench.json, and where it is.

    Raises:
        RequestError: the data or the predictor cannot be used.
    """
    settings = config.turn_bench
    scorer = TurnTakingScorer(config.scorer.turn_taking)
    _check(config, scorer.predictor)
    reason = scorer.missing()
    if reason is not None:
        raise reason
    store = Store(config.run.uri)
    store.check()
    scorer.setup()
    facts: dict[str, Any] = {"uri": config.data.uri, "split": settings.split}
    measured = measure(scorer.predictor, _pairs(config, scorer, facts))
    result = {
        **measured.table(settings.seed),
        "predictor": dict(scorer.predictor.identity),
        "fingerprint": scorer.fingerprint,
        "data": facts,
        "limit": settings.limit,
        "seed": settings.seed,
        "versions": versions(),
        "git_commit": git_commit(),
    }
    store.write(PAIRS, measured.lines())
    store.write(RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result, store.url(RESULT)


def _check(config: BenchConfig, predictor: Predictor) -> None:
    if config.data.uri.endswith(".parquet") and predictor.hears_audio:
        raise ConfigError(
            f"predictor={predictor.name} hears audio, and {config.data.uri} holds only times: give a folder of"
            f" two-channel dialogues, or one of the predictors that need none: {NAMES[0]}"
        )


def _pairs(config: BenchConfig, scorer: TurnTakingScorer, facts: dict[str, Any]) -> Iterator[Pair]:
    uri, settings = config.data.uri, config.turn_bench
    if uri.endswith(".parquet"):
        conversations = read_intervals(uri, settings.split)
        kept = held_out(conversations, scorer) if settings.held_out else conversations
        facts |= {"rows": len(conversations), "rows_fitted_on_and_left_out": len(conversations) - len(kept)}
        if not kept:
            raise DataLayoutError(f"the predictor was fitted on all conversations of {uri} (turn_bench.held_out=true)")
        yield from make_pairs(kept, settings.limit, settings.seed)
    else:
        from spear_ray.turntaking.pairs_heard import audio_pairs

        yield from audio_pairs(config, scorer, facts)


def held_out(conversations: Sequence[Conversation], scorer: TurnTakingScorer) -> list[Conversation]:
    """The conversations that the predictor was not fitted on, as far as its statistics say."""
    model = getattr(scorer.predictor, "model", None)
    fitted = set(model.facts.get("fitted_on", ())) if scorer.predictor.name == "timing" and model else set()
    return [one for one in conversations if key_of(one.source) not in fitted]
