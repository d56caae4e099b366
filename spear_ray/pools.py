"""How many actors each scorer gets, so that all of them fit the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spear_ray.errors import ClusterError
from spear_ray.scorers import Resources

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Pool:
    """Actors of one scorer and the CPUs that each one holds."""

    least: int
    most: int
    num_cpus: float


def combined(resources: Sequence[Resources]) -> Resources:
    """What an actor needs that holds several scorers which share what is costly: the most that any of them asks for."""
    memory = [need.memory_bytes for need in resources if need.memory_bytes is not None]
    return Resources(
        concurrency=next((need.concurrency for need in resources if need.concurrency), []),
        num_cpus=max(need.num_cpus for need in resources),
        num_gpus=max(need.num_gpus for need in resources),
        memory_bytes=max(memory, default=None),
    )


def pool_sizes(
    resources: Mapping[str, Resources], cluster_cpus: float, units: int, cluster_gpus: float = 0.0
) -> dict[str, Pool]:
    """How many actors each scorer gets.

    Without `concurrency`, scorers on the GPU share the cluster's GPUs: each gets as many actors as fit when all of them
    have the same number, and one on the CPU gets one actor for each core that is left (at most one for each unit of
    work); those hold a fraction of a CPU each where they are several, and the operating system balances them. Where no
    scorer is on the CPU, one core is kept for reading.

    Raises:
        ClusterError: the configured minimum does not fit the cluster: it would wait forever.
    """
    pools = {
        name: Pool(need.concurrency[0], need.concurrency[-1], need.num_cpus)
        for name, need in resources.items()
        if need.concurrency
    }
    pools |= _on_gpus(
        {name: need for name, need in resources.items() if need.num_gpus and not need.concurrency},
        cluster_gpus - sum(pools[name].least * resources[name].num_gpus for name in pools),
    )
    sharing = [name for name in resources if name not in pools]
    reading = 1.0 if all(need.num_gpus for need in resources.values()) else 0.0
    fixed = reading + sum(pool.least * pool.num_cpus for pool in pools.values())
    free = cluster_cpus - fixed
    if free < 0 or (sharing and free <= 0):
        raise ClusterError(
            f"the cluster has {cluster_cpus:g} CPUs; the configured minimum of scorer actors needs {fixed:g}"
            + (f" and {', '.join(sharing)} would have none" if sharing else "")
            + "; lower scorer.<name>.resources.concurrency"
        )
    actors = max(1, min(int(free), units))
    share = min(1.0, free / (actors * len(sharing))) if sharing else 1.0
    for name in sharing:
        # Rounded down to Ray's resolution, so that all of them together still fit.
        pools[name] = Pool(actors, actors, int(min(resources[name].num_cpus, share) * 1000) / 1000)
    return pools


def _on_gpus(resources: Mapping[str, Resources], gpus: float) -> dict[str, Pool]:
    """Pools of the scorers that share what is left of the cluster's GPUs."""
    if not resources:
        return {}
    asked = sum(need.num_gpus for need in resources.values())
    # Fractions of a GPU do not add up exactly.
    actors = int(gpus / asked + ROUNDING)
    if actors < 1:
        first = next(iter(resources)).split()[0]  # of scorers that share an engine, any
        verb = "needs" if len(resources) == 1 else "together need"
        raise ClusterError(
            f"{', '.join(resources)} {verb} {asked:g} GPUs, the cluster has {max(gpus, 0.0):g}; scorers can share one"
            f" (scorer.{first}.resources.num_gpus=0.3); on a cluster that grows, say how many actors there may be:"
            f" scorer.{first}.resources.concurrency=[1,4]"
        )
    return {name: Pool(actors, actors, need.num_cpus) for name, need in resources.items()}
