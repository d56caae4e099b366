"""The application graph: `serve run deployments.app:app`, or `deployments/serve_config.yaml`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ray import serve
from ray.serve import Application

from deployments.ingress import Ingress
from deployments.replicas import ScorerReplica
from spear_ray.bench import Unavailable, make_scorers
from spear_ray.config import BenchConfig, load, names_scorers
from spear_ray.pipeline import sharing
from spear_ray.pools import combined
from spear_ray.scorers import Scorer
from spear_ray.serving.settings import Serving

INGRESS_CPUS = 0.1
DRAIN_S = 30.0
"""How long a replica that is stopped finishes what it has begun."""


def build(args: Mapping[str, Any]) -> Application:
    """The application with the configured scorers that can run here.

    Args:
        args: `words`, the configuration as `key=value` words, a list or one text.

    Raises:
        ConfigError: a word is wrong.
        PrerequisiteError: the words name a scorer that lacks something.
    """
    words = _words(args)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    config = load(words)
    made = make_scorers(config, names_scorers(words))
    served = [scorer.name for scorer in made if not isinstance(scorer, Unavailable)]
    handles = {}
    for group in sharing(config, served):
        bound = _deployment(config, group).bind(group, words)
        handles |= dict.fromkeys(group, bound)
    ingress = Ingress.options(
        num_replicas=config.serve.ingress_replicas,
        ray_actor_options={"num_cpus": INGRESS_CPUS},
        max_ongoing_requests=config.serve.max_queued,
        max_queued_requests=config.serve.max_queued,
        graceful_shutdown_timeout_s=DRAIN_S,
    )
    return ingress.bind(words, handles, [_info(scorer) for scorer in made])


def _words(args: Mapping[str, Any]) -> list[str]:
    words = args.get("words", os.environ.get("SPEAR_SERVE_WORDS", ""))
    return words.split() if isinstance(words, str) else [str(word) for word in words]


def _deployment(config: BenchConfig, group: Sequence[str]) -> Any:
    """The deployment of one scorer, or of several that share what is costly."""
    own = [getattr(config.scorer, name) for name in group]
    serving: Serving = own[0].serving
    need = combined([one.resources for one in own])
    replicas: dict[str, Any] = (
        {"num_replicas": serving.min_replicas}
        if serving.min_replicas == serving.max_replicas
        else {"autoscaling_config": {"min_replicas": serving.min_replicas, "max_replicas": serving.max_replicas}}
    )
    actor = {"num_cpus": serving.num_cpus, "num_gpus": need.num_gpus} | (
        {"memory": need.memory_bytes} if need.memory_bytes else {}
    )
    return serve.deployment(ScorerReplica).options(
        name="_".join(group),
        max_ongoing_requests=serving.max_ongoing,
        max_queued_requests=config.serve.max_queued,
        ray_actor_options=actor,
        graceful_shutdown_timeout_s=DRAIN_S,
        user_config={"words": []},
        **replicas,
    )


def _info(scorer: Scorer[Any]) -> dict[str, Any]:
    absent = isinstance(scorer, Unavailable)
    reason = scorer.reason if isinstance(scorer, Unavailable) else scorer.missing()
    return {
        "name": scorer.name,
        "version": scorer.version,
        "fingerprint": scorer.fingerprint,
        "status": "missing" if absent else "partial" if reason else "ok",
        "message": str(reason) if reason else "",
        "metrics": [
            {
                "name": metric.name,
                "key": ", ".join(metric.sources),
                "unit": metric.unit,
                "direction": metric.direction,
                "about": metric.about,
            }
            for metric in scorer.metrics
        ],
    }


app = build({})
