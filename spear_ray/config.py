"""Configuration: dataclasses are the schema, YAML files the values, `key=value` words the overrides.

Order, later wins: the dataclass defaults, `conf/bench.yaml`, `conf/scorer/*.yaml`, `conf/profile/<profile>.yaml`,
`conf/preset/<preset>.yaml` where one is named, the command line. A key that the schema does not have is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from spear_ray.errors import ConfigError
from spear_ray.judging.settings import JudgeSettings, TriplesConfig
from spear_ray.scorers import config_types
from spear_ray.serving.settings import ServeConfig, check_serve, check_serving
from spear_ray.turntaking.settings import FitConfig, TurnBenchConfig

PROFILES = ("local", "gpu", "cluster")


@dataclass(kw_only=True)
class DataConfig:
    """Where the dialogues come from.

    Args:
        uri: a folder, a CSV file, `s3://bucket/prefix`, or `sample` (ships with the package).
        layout: `auto`, `spearbench`, `shards`, `recordings`, or `exchanges`: a CSV file of questions and replies, which
            `judge_agreement` reads.
        answer_channels: `own`, or `both` as SPEARBench mixes.
        asking_channel: which channel of a clip asks: `auto`, `0` or `1`.
        splits: keep only these; empty keeps all. Likewise `subsets` and `systems`.
        limit: at most so many dialogues, the first ones; 0 is no limit.
        rows_per_shard: how many rows of a CSV one reader takes at a time.
    """

    uri: str = "sample"
    layout: str = "auto"
    answer_channels: str = "own"
    asking_channel: str = "auto"
    splits: list[str] = field(default_factory=list)
    subsets: list[str] = field(default_factory=list)
    systems: list[str] = field(default_factory=list)
    limit: int = 0
    rows_per_shard: int = 64


@dataclass(kw_only=True)
class AudioConfig:
    """What audio is accepted, per file."""

    min_seconds: float = 0.1
    max_seconds: float = 3600.0
    max_bytes: int = 1 << 30
    min_rate_hz: int = 8_000
    max_rate_hz: int = 192_000


@dataclass(kw_only=True)
class RunConfig:
    """Where results go."""

    uri: str = "runs/latest"


@dataclass(kw_only=True)
class RayConfig:
    """How to reach or start Ray.

    Args:
        address: of a running cluster; empty uses `RAY_ADDRESS` if set and starts a local Ray if not.
        num_cpus: of a local Ray; 0 takes all cores.
        object_store_bytes: shared memory of a local Ray; 0 is Ray's own choice.
    """

    address: str = ""
    num_cpus: int = 0
    object_store_bytes: int = 0


@dataclass(kw_only=True)
class PipelineConfig:
    """How audio streams.

    Args:
        block_bytes: size of one block of decoded audio.
        progress_seconds: time between progress lines where the output is not a terminal.
        stall_seconds: a run in which nothing moves for so long is ended (exit 3) and can be continued.
    """

    block_bytes: int = 32 << 20
    progress_seconds: float = 10.0
    stall_seconds: float = 1800.0


@dataclass(kw_only=True)
class LeaderboardConfig:
    """How rows become system-level values.

    Args:
        split: rows of this split count; `auto` takes `test` where there is one, else all rows.
        reference: the system that the others are compared with.
        resamples: bootstrap resamples of whole conversations.
        confidence: of the intervals.
        seed: of the bootstrap.
        naturalness_dev_run: `run.uri` of a finished run (or `self`) whose dev rows of the reference system tell by how
            much SPEARBench shifts emotional naturalness logits; empty shifts nothing.
    """

    split: str = "auto"
    reference: str = "human"
    resamples: int = 2000
    confidence: float = 0.95
    seed: int = 20260706
    naturalness_dev_run: str = ""


@dataclass(kw_only=True)
class PackConfig:
    """How `pack` writes tar shards.

    Args:
        uri: folder or `s3://` prefix to write to.
        shard_bytes: a shard is closed before it grows beyond this.
    """

    uri: str = ""
    shard_bytes: int = 256 << 20


@dataclass(kw_only=True)
class BenchConfig:
    """The whole configuration, without the scorers' own parts (`scorer.<name>`).

    Args:
        profile: where it runs: `local`, `gpu` or `cluster`.
        preset: a named set of settings: `commercial` (checkpoints that allow commercial use), `spearbench` (the
            published ways, also where they are worse); empty for none.
        judge: the audio LLM that `wavreward` and `stance` ask.
    """

    profile: str = "local"
    preset: str = ""
    data: DataConfig = field(default_factory=DataConfig)
    audio: AudioConfig = field(default_factory=AudioConfig)
    run: RunConfig = field(default_factory=RunConfig)
    ray: RayConfig = field(default_factory=RayConfig)
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    leaderboard: LeaderboardConfig = field(default_factory=LeaderboardConfig)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    pack: PackConfig = field(default_factory=PackConfig)
    turn_bench: TurnBenchConfig = field(default_factory=TurnBenchConfig)
    fit: FitConfig = field(default_factory=FitConfig)
    triples: TriplesConfig = field(default_factory=TriplesConfig)
    serve: ServeConfig = field(default_factory=ServeConfig)
    scorers: list[str] = field(default_factory=lambda: ["vad"])
    scorer: Any = None


def conf_dir() -> Path:
    """The folder of YAML files: `SPEAR_CONF_DIR`, the checkout's `conf`, or the copy inside the package."""
    here = Path(__file__).resolve().parent
    candidates = [Path(os.environ["SPEAR_CONF_DIR"])] if "SPEAR_CONF_DIR" in os.environ else []
    candidates += [here / "_conf", here.parent / "conf"]
    for folder in candidates:
        if (folder / "bench.yaml").is_file():
            return folder
    raise ConfigError(f"no bench.yaml in any of: {', '.join(map(str, candidates))}")


def load(words: Sequence[str] = ()) -> BenchConfig:
    """Read the configuration.

    Args:
        words: `key=value` overrides in OmegaConf's dotlist form.

    Returns:
        The configuration; `config.scorer.<name>` is that scorer's own dataclass.

    Raises:
        ConfigError: an unknown key, a value of the wrong type, a word without `=`, an unknown profile or scorer.
    """
    for word in words:
        if "=" not in word:
            raise ConfigError(f"'{word}' is not of the form key=value")
    folder = conf_dir()
    try:
        overrides = OmegaConf.from_dotlist(list(words))
        profile = str(OmegaConf.select(overrides, "profile", default=None) or _default_profile(folder))
        if profile not in PROFILES:
            raise ConfigError(f"profile={profile}: must be one of {', '.join(PROFILES)}")
        merged = OmegaConf.merge(
            OmegaConf.structured(_schema()),
            OmegaConf.load(folder / "bench.yaml"),
            *(_scorer_file(folder, name) for name in config_types()),
            OmegaConf.load(folder / "profile" / f"{profile}.yaml"),
            _preset(folder, str(OmegaConf.select(overrides, "preset", default=None) or "")),
            # before what single scorers say of it, whatever the order of the words
            OmegaConf.masked_copy(overrides, ["judge"]),
            overrides,
        )
        config = OmegaConf.to_object(merged)
    except (OmegaConfBaseException, yaml.YAMLError, TypeError) as error:
        raise ConfigError(f"{_one_line(error)}{_broken(words)}") from error
    assert isinstance(config, BenchConfig)
    _check(config)
    return config


def names_scorers(words: Sequence[str]) -> bool:
    """Whether the user chose the scorers: then a missing prerequisite stops the run."""
    return any(word.split("=", 1)[0] == "scorers" for word in words)


def as_dict(config: BenchConfig) -> dict[str, Any]:
    """The configuration as plain data, for run.json."""
    plain = OmegaConf.to_container(OmegaConf.structured(config), resolve=True, enum_to_str=True)
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def config_hash(config: BenchConfig) -> str:
    """16 hex digits of the SHA-256 of the configuration."""
    text = json.dumps(as_dict(config), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _schema() -> type[BenchConfig]:
    """BenchConfig with one field for each scorer that the registry finds."""
    scorer = make_dataclass(
        "ScorerConfigs",
        [(name, kind, field(default_factory=kind)) for name, kind in config_types().items()],
        kw_only=True,
    )
    return make_dataclass(
        "Config", [("scorer", scorer, field(default_factory=scorer))], bases=(BenchConfig,), kw_only=True
    )


def _scorer_file(folder: Path, name: str) -> Any:
    path = folder / "scorer" / f"{name}.yaml"
    return OmegaConf.create({"scorer": {name: OmegaConf.load(path)}}) if path.is_file() else OmegaConf.create()


def _preset(folder: Path, name: str) -> Any:
    """The settings of a preset; none for an empty name.

    Raises:
        ConfigError: there is no such preset.
    """
    known = sorted(path.stem for path in (folder / "preset").glob("*.yaml"))
    if name and name not in known:
        raise ConfigError(f"preset={name}: must be one of {', '.join(known)}")
    return OmegaConf.load(folder / "preset" / f"{name}.yaml") if name else OmegaConf.create()


def _default_profile(folder: Path) -> str:
    return str(OmegaConf.select(OmegaConf.load(folder / "bench.yaml"), "profile", default="local"))


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    key = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("full_key:")), "")
    return f"{key}: {lines[0]}" if key else lines[0]


def _broken(words: Sequence[str]) -> str:
    """The word that is at fault, where one alone is no YAML."""
    for word in words:
        try:
            OmegaConf.from_dotlist([word])
        except yaml.YAMLError:
            return f" in '{word}'"
    return ""


def _check(config: BenchConfig) -> None:
    known = config_types()
    for name in config.scorers:
        if name not in known:
            raise ConfigError(f"scorers: no scorer is called '{name}'; there are: {', '.join(known)}")
    if not config.scorers:
        raise ConfigError("scorers: name at least one")
    if len(set(config.scorers)) != len(config.scorers):
        raise ConfigError(f"scorers: {config.scorers} names one twice")
    _one_of("data.layout", config.data.layout, ("auto", "spearbench", "shards", "recordings", "exchanges"))
    _one_of("data.answer_channels", config.data.answer_channels, ("own", "both"))
    _one_of("data.asking_channel", config.data.asking_channel, ("auto", "0", "1"))
    _positive("data.rows_per_shard", config.data.rows_per_shard)
    _positive("pipeline.block_bytes", config.pipeline.block_bytes)
    _positive("pack.shard_bytes", config.pack.shard_bytes)
    _positive("leaderboard.resamples", config.leaderboard.resamples)
    _positive("turn_bench.limit", config.turn_bench.limit)
    _positive("fit.limit", config.fit.limit)
    _positive("triples.limit", config.triples.limit)
    if not 1 < config.triples.stretch <= 4:
        raise ConfigError(f"triples.stretch={config.triples.stretch}: must be above 1, at most 4")
    if not 0.5 <= config.leaderboard.confidence < 1:
        raise ConfigError(f"leaderboard.confidence={config.leaderboard.confidence}: must be in [0.5, 1)")
    if not 0 <= config.audio.min_seconds < config.audio.max_seconds:
        raise ConfigError(f"audio.min_seconds={config.audio.min_seconds}: must be from 0 to below audio.max_seconds")
    for name in known:
        _check_actors(name, getattr(config.scorer, name).resources.concurrency)
        check_serving(f"scorer.{name}.serving", getattr(config.scorer, name).serving)
        getattr(config.scorer, name).check()
    check_serve(config.serve)
    if config.data.limit < 0:
        raise ConfigError(f"data.limit={config.data.limit}: must not be negative")


def _check_actors(name: str, actors: Sequence[int]) -> None:
    if actors and not (len(actors) == 2 and 1 <= actors[0] <= actors[1]):
        raise ConfigError(f"scorer.{name}.resources.concurrency={list(actors)}: must be [min, max] or empty")


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{key}={value}: must be one of {', '.join(allowed)}")


def _positive(key: str, value: float) -> None:
    if not value > 0:
        raise ConfigError(f"{key}={value}: must be positive")
