"""What is installed, what can be measured, and what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def list_scorers(words: Sequence[str]) -> int:
    """Print each scorer's metrics with unit, direction and meaning."""
    from rich.console import Console
    from rich.table import Table

    from spear_ray.scorers import scorer_types

    console = Console(markup=False)
    for name, kind in scorer_types().items():
        table = Table("metric", "unit", "better", "what it is", title=f"{name} (version {kind.version})")
        for metric in kind.metrics:
            table.add_row(metric.name, metric.unit, metric.direction, metric.about)
        console.print(table)
    return 0


def examine(words: Sequence[str]) -> int:
    """Print versions, devices and which scorers can run; 0 where every configured scorer can, else 2."""
    from rich.console import Console
    from rich.table import Table

    from spear_ray.config import conf_dir, load
    from spear_ray.provenance import versions
    from spear_ray.scorers import scorer_types

    console = Console(markup=False)
    config = load(words)
    packages = Table("package", "version", title="installed")
    for package, version in versions().items():
        packages.add_row(package, version)
    console.print(packages)
    console.print(f"configuration: {conf_dir()}, profile {config.profile}", soft_wrap=True)
    console.print(f"cores: {os.cpu_count()}; {_gpus()}")
    _environment(console)
    table = Table("scorer", "configured", "can run", title="scorers")
    lacking: dict[str, str] = {}
    stops = False
    for name, kind in scorer_types().items():
        scorer = kind(getattr(config.scorer, name))
        reason = scorer.missing()
        can = "yes" if reason is None else "in part" if scorer.partial else "no"
        table.add_row(name, "yes" if name in config.scorers else "", can)
        if reason is not None:
            lacking[name] = str(reason)
            stops |= name in config.scorers and not scorer.partial
    console.print(table)
    for name, text in lacking.items():
        # Not in the table: commands must not be broken.
        console.print(f"{name}: {text}", soft_wrap=True, markup=False, highlight=False)
    return 2 if stops else 0


def _gpus() -> str:
    try:
        import torch
    except ImportError:
        return "torch is not installed"
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return f"GPUs: {count}" + (f" ({torch.cuda.get_device_name(0)})" if count else "")


def _environment(console: Console) -> None:
    """Which S3 and Ray variables are set; never their values where they are secret."""
    for name in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "RAY_ADDRESS", "RAY_AUTH_MODE"):
        if os.environ.get(name):
            console.print(f"{name}={os.environ[name]}", soft_wrap=True)
    keys = "set" if os.environ.get("AWS_ACCESS_KEY_ID") else "not set"
    console.print(f"S3 keys in the environment: {keys}")
