"""The scorers, found by looking into this package: each module but `base` and private ones holds one `Scorer`."""

from __future__ import annotations

import inspect
import pkgutil
from functools import cache
from importlib import import_module
from typing import Any

from spear_ray.errors import ConfigError
from spear_ray.scorers.base import Direction, Metric, Resources, Scorer, ScorerConfig

__all__ = [
    "Direction",
    "Metric",
    "Resources",
    "Scorer",
    "ScorerConfig",
    "config_types",
    "scorer_type",
    "scorer_types",
]


@cache
def scorer_types() -> dict[str, type[Scorer[Any]]]:
    """All scorers by name, in alphabetical order."""
    names = sorted(info.name for info in pkgutil.iter_modules(__path__))
    modules = [name for name in names if name != "base" and not name.startswith("_")]
    found = [kind for module in modules for kind in _scorers_in(module)]
    return {kind.name: kind for kind in found}


def scorer_type(name: str) -> type[Scorer[Any]]:
    """The scorer of that name.

    Raises:
        ConfigError: there is none.
    """
    try:
        return scorer_types()[name]
    except KeyError:
        raise ConfigError(f"no scorer is called '{name}'; there are: {', '.join(scorer_types())}") from None


def config_types() -> dict[str, type[ScorerConfig]]:
    """Each scorer's configuration dataclass, by scorer name."""
    return {name: kind.config_type for name, kind in scorer_types().items()}


def _scorers_in(module: str) -> list[type[Scorer[Any]]]:
    home = f"{__name__}.{module}"
    members = vars(import_module(home)).values()
    return [
        kind
        for kind in members
        if inspect.isclass(kind)
        and issubclass(kind, Scorer)
        and not inspect.isabstract(kind)
        and kind.__module__ == home
    ]
