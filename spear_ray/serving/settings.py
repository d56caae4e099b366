"""Settings of the API."""

from __future__ import annotations

from dataclasses import dataclass

from spear_ray.errors import ConfigError


@dataclass(kw_only=True)
class ServeConfig:
    """How the API is served, and what it accepts.

    Args:
        host: address to listen on.
        port: to listen on.
        max_bytes: of a request, all of it.
        max_seconds: of one decoded file.
        max_items: of a batch request.
        deadline_s: after which a scorer's row is an error `timeout`; a request may ask for less.
        max_queued: requests that wait for a free place before others are told 503.
        ingress_replicas: processes that take requests, decode and gather.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    max_bytes: int = 64 << 20
    max_seconds: float = 600.0
    max_items: int = 64
    deadline_s: float = 60.0
    max_queued: int = 256
    ingress_replicas: int = 1


@dataclass(kw_only=True)
class Serving:
    """How one scorer is served; changes no score.

    Args:
        min_replicas: processes that hold the scorer.
        max_replicas: where more than `min_replicas`, as many as the load asks for.
        batch_size: dialogues that are scored together at most.
        batch_wait_s: how long a batch waits for more of them.
        max_ongoing: requests that a replica takes at a time; at least `batch_size`.
        num_cpus: CPUs that a replica holds in Ray's books: little, so that all scorers fit a small machine, whose
            operating system shares its cores among them.
    """

    min_replicas: int = 1
    max_replicas: int = 1
    batch_size: int = 8
    batch_wait_s: float = 0.005
    max_ongoing: int = 32
    num_cpus: float = 0.1


def check_serve(config: ServeConfig) -> None:
    """Raises ConfigError where a value cannot be used."""
    for key in ("max_bytes", "max_seconds", "max_items", "deadline_s", "max_queued", "ingress_replicas"):
        if not getattr(config, key) > 0:
            raise ConfigError(f"serve.{key}={getattr(config, key)}: must be positive")
    if not 0 < config.port < 65536:
        raise ConfigError(f"serve.port={config.port}: must be from 1 to 65535")


def check_serving(where: str, serving: Serving) -> None:
    """Raises ConfigError where a value cannot be used."""
    if not 1 <= serving.min_replicas <= serving.max_replicas:
        raise ConfigError(f"{where}: min_replicas must be positive, max_replicas not below it")
    if serving.batch_size < 1 or serving.batch_wait_s < 0:
        raise ConfigError(f"{where}: batch_size must be positive, batch_wait_s not negative")
    if serving.num_cpus < 0:
        raise ConfigError(f"{where}.num_cpus={serving.num_cpus}: must not be negative")
    if serving.max_ongoing < serving.batch_size:
        raise ConfigError(
            f"{where}.max_ongoing={serving.max_ongoing}: must be at least batch_size={serving.batch_size}"
        )
