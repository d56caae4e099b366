"""From a population to shipped statistics and their card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from spear_ray.config import BenchConfig
from spear_ray.errors import ConfigError
from spear_ray.store import Store
from spear_ray.turntaking.benchmark import measure
from spear_ray.turntaking.card import card
from spear_ray.turntaking.context import GROUPS, table_of
from spear_ray.turntaking.estimation import CHOSEN_GROUPS, fit_model
from spear_ray.turntaking.pairs_made import make_pairs, random_clip
from spear_ray.turntaking.populations import Conversation, clips, describe, halves, key_of, read_intervals, read_run
from spear_ray.turntaking.predictors import PredictorConfig
from spear_ray.turntaking.predictors.timing import TimingPredictor
from spear_ray.turntaking.settings import FitConfig
from spear_ray.turntaking.sojourns import sojourns
from spear_ray.turntaking.timing_model import TimingModel

NATURAL_CLIPS = 2000
CALIBRATION_CHECK_S = (8.0, 15.0, 22.5, 60.0, 240.0)


def run_fit(config: BenchConfig) -> list[str]:
    """Fit, measure on unseen conversations, write `<name>.json` and `<name>.md`.

    Returns:
        Where the two files are.

    Raises:
        RequestError: the data cannot be used, or a word is missing.
    """
    settings = config.fit
    for key in ("name", "out"):
        if not getattr(settings, key):
            raise ConfigError(f"fit.{key} is empty: fit-timing data.uri=… fit.name=… fit.out=…")
    fitted, unseen = populations(config)
    model = fit_model(fitted, seed=settings.seed)
    facts = _facts(config, model, fitted, unseen)
    described = TimingModel(model.groups, model.states, model.calibration, facts)
    store = Store(settings.out)
    store.check()
    store.write(f"{settings.name}.json", described.as_json().encode())
    store.write(f"{settings.name}.md", card(described).encode())
    return [store.url(f"{settings.name}{ending}") for ending in (".json", ".md")]


def populations(config: BenchConfig) -> tuple[list[Conversation], list[Conversation]]:
    """Conversations to fit on, and others of the same population to measure on."""
    uri, settings = config.data.uri, config.fit
    if not uri.endswith(".parquet"):
        return halves(read_run(uri, settings.system))
    if settings.split:
        return read_intervals(uri, settings.split), read_intervals(uri, settings.test_split)
    return halves(read_intervals(uri))


def accuracy(model: TimingModel, conversations: Sequence[Conversation], settings: FitConfig) -> dict[str, Any]:
    """What `turn_bench` says of the model on these conversations."""
    predictor = TimingPredictor(PredictorConfig())
    predictor.model = model
    return measure(predictor, make_pairs(conversations, settings.limit, settings.seed)).table(settings.seed)


def natural_scores(
    model: TimingModel, conversations: Sequence[Conversation], seconds: float | None, seed: int
) -> np.ndarray:
    """dialog_nll of random natural clips, float64 [clips].

    Args:
        model: fitted statistics.
        conversations: where clips come from.
        seconds: their length; None for 20 to 25 s.
        seed: of the clips.
    """
    rng = np.random.default_rng(seed)
    long = [one.timeline for one in conversations if one.timeline.seconds >= (seconds or 20.0)]
    scores = []
    for _ in range(NATURAL_CLIPS if long else 0):
        whole = long[int(rng.integers(len(long)))]
        if seconds is None:
            clip = random_clip(whole, rng)[1]
        else:
            start_s = float(rng.uniform(0.0, whole.seconds - seconds))
            clip = whole.crop(start_s, start_s + seconds)
        pooled = model.score(clip)
        scores += [pooled.dialog_nll] if pooled else []
    return np.array(scores)


def _facts(
    config: BenchConfig, model: TimingModel, fitted: Sequence[Conversation], unseen: Sequence[Conversation]
) -> dict[str, Any]:
    settings = config.fit
    sources = sorted({one.source for one in fitted})
    facts: dict[str, Any] = {
        "name": settings.name,
        "title": settings.title or config.data.uri,
        "date": datetime.now(UTC).date().isoformat(),
        "fitted_conversations": len(sources),
        "fitted_hours": sum(one.timeline.seconds for one in fitted) / 3600,
        "fitted_on": [key_of(source) for source in sources],
        "population": describe([*fitted, *unseen]),
        "accuracy": accuracy(model, unseen, settings),
        "nll_per_event": nll_per_event(model, unseen, settings.seed),
        "natural": _quantiles(natural_scores(model, unseen, None, settings.seed)),
        "by_length": list(_by_length(model, unseen, settings.seed)),
    }
    if settings.ablation:
        facts["ablation"] = list(_ablation(fitted, unseen, settings))
    if settings.compare:
        facts["compared"] = _compared(model, settings)
    return facts


def nll_per_event(model: TimingModel, conversations: Sequence[Conversation], seed: int) -> float:
    """Mean surprise of all sojourns of unseen clips of 20 to 30 s, in nats."""
    rng = np.random.default_rng(seed)
    cut = [clip for one in conversations for clip in clips(one, rng)]
    return float(model.nll(table_of([sojourn for clip in cut for sojourn in sojourns(clip.timeline)])).mean())


def _by_length(model: TimingModel, unseen: Sequence[Conversation], seed: int) -> Iterator[dict[str, float]]:
    for seconds in CALIBRATION_CHECK_S:
        scores = natural_scores(model, unseen, seconds, seed)
        if scores.size:
            yield {"seconds": seconds, **_quantiles(scores)}


def _quantiles(scores: np.ndarray) -> dict[str, float]:
    q05, median, q95 = np.quantile(scores, [0.05, 0.5, 0.95])
    return {"mean": float(scores.mean()), "q05": float(q05), "median": float(median), "q95": float(q95)}


def _ablation(
    fitted: Sequence[Conversation], unseen: Sequence[Conversation], settings: FitConfig
) -> Iterator[dict[str, Any]]:
    """The same fit with ever more of the context; the chosen one is among them."""
    names = list(GROUPS)
    for groups in (names[:count] for count in range(len(names) + 1)):
        model = fit_model(fitted, groups, settings.seed)
        found = accuracy(model, unseen, settings)
        yield {
            "groups": groups,
            "chosen": tuple(groups) == CHOSEN_GROUPS,
            "nll_per_event": nll_per_event(model, unseen, settings.seed),
            "pairwise_accuracy": {kind: entry["pairwise_accuracy"] for kind, entry in found["types"].items()},
            "overall": found["overall"]["pairwise_accuracy"],
        }


def _compared(model: TimingModel, settings: FitConfig) -> dict[str, Any]:
    """How this model judges natural and edited dialogues of another population."""
    others = read_intervals(settings.compare, settings.compare_split)
    return {
        "population": describe(others),
        "natural": _quantiles(natural_scores(model, others, None, settings.seed)),
        "accuracy": accuracy(model, others, settings),
    }
