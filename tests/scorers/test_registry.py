"""Every scorer that the registry finds is complete, and one more is one file."""

import ast
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from update_signatures import drifted, modules_of, recorded, shape, signatures

import spear_ray.scorers
from spear_ray.config import conf_dir, load
from spear_ray.errors import ConfigError
from spear_ray.judging.settings import JudgeSettings
from spear_ray.scorers import scorer_type, scorer_types

SCORERS = list(scorer_types().values())

NEW_SCORER = """
from dataclasses import dataclass

import numpy as np

from spear_ray.scorers.base import Metric, Scorer, ScorerConfig


@dataclass(kw_only=True)
class LoudnessConfig(ScorerConfig):
    floor_db: float = -60.0


class LoudnessScorer(Scorer[LoudnessConfig]):
    name = "loudness"
    version = "1"
    config_type = LoudnessConfig
    metrics = (Metric(name="answer_db", unit="dB", direction="human", about="How loud the answer is."),)

    def measure(self, batch):
        return [self.ok(dialogue, {"answer_db": self.config.floor_db}) for dialogue in batch]
"""


@pytest.fixture
def loudness(tmp_path, monkeypatch):
    """The registry with one more module in its folder."""
    (tmp_path / "loudness.py").write_text(NEW_SCORER)
    monkeypatch.setattr(spear_ray.scorers, "__path__", [*spear_ray.scorers.__path__, str(tmp_path)])
    scorer_types.cache_clear()
    yield
    scorer_types.cache_clear()
    del sys.modules["spear_ray.scorers.loudness"]
    del spear_ray.scorers.loudness


def test_there_are_scorers_and_each_module_holds_one():
    folder = Path(spear_ray.scorers.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")} - {"base"}
    assert {kind.__module__.rpartition(".")[2] for kind in SCORERS} == modules
    assert "vad" in modules


@pytest.mark.parametrize("kind", SCORERS, ids=str)
def test_a_scorer_is_known_by_its_name(kind):
    assert scorer_type(kind.name) is kind


def test_no_two_scorers_share_a_name():
    assert len({kind.name for kind in SCORERS}) == len(SCORERS)


@pytest.mark.parametrize("kind", SCORERS, ids=str)
def test_metrics_have_unique_names_and_say_what_they_are(kind):
    names = [metric.name for metric in kind.metrics]
    assert names
    assert len(set(names)) == len(names)
    assert all(metric.unit and metric.about.endswith(".") for metric in kind.metrics)


def test_no_two_metrics_fill_the_same_published_column():
    columns = [metric.column for kind in SCORERS for metric in kind.metrics if metric.column]
    assert len(set(columns)) == len(columns)


@pytest.mark.parametrize("kind", SCORERS, ids=str)
def test_each_scorer_has_a_configuration_file_that_resolves_to_its_dataclass(kind):
    path = conf_dir() / "scorer" / f"{kind.name}.yaml"
    schema = {"judge": OmegaConf.structured(JudgeSettings), "own": OmegaConf.structured(kind.config_type)}
    common = OmegaConf.load(conf_dir() / "bench.yaml")
    merged = OmegaConf.merge(schema, {"judge": common.judge}, {"own": OmegaConf.load(path)})
    assert OmegaConf.to_object(merged.own) == getattr(load([]).scorer, kind.name)
    assert isinstance(getattr(load([]).scorer, kind.name), kind.config_type)


def test_each_configuration_file_belongs_to_a_scorer():
    assert {path.stem for path in (conf_dir() / "scorer").glob("*.yaml")} == set(scorer_types())


def test_unknown_name_is_an_error_that_names_what_exists():
    with pytest.raises(ConfigError, match=r"'vat'.*\bvad\b"):
        scorer_type("vat")
    with pytest.raises(ConfigError, match=r"'vat'.*\bvad\b"):
        load(["scorers=[vat]"])


@pytest.mark.usefixtures("loudness")
def test_a_new_scorer_is_one_file():
    config = load(["scorers=[loudness]", "scorer.loudness.floor_db=-50"])
    scorer = scorer_type("loudness")(config.scorer.loudness)
    assert (config.scorers, scorer.config.floor_db) == (["loudness"], -50)
    with pytest.raises(ConfigError, match="flor_db"):
        load(["scorer.loudness.flor_db=-50"])


def test_a_removed_scorer_is_gone_again():
    assert "loudness" not in scorer_types()


def test_code_of_a_scorer_changes_only_with_its_version():
    assert drifted(signatures(), recorded()) == [], "raise `version`, then run python -m tests.update_signatures"


def test_signatures_are_up_to_date():
    assert signatures() == recorded(), "run python -m tests.update_signatures"


def test_signature_of_vad_covers_the_timing_rules():
    rules = {"timing.events", "timing.latency", "timing.segments"}
    assert modules_of(scorer_type("vad")) == {"scorers.vad", "networks.silero", *rules}


def test_changed_code_under_the_same_version_is_drift():
    before = {"vad": {"version": "1", "sha256": "a"}}
    assert drifted({"vad": {"version": "1", "sha256": "b"}}, before) == ["vad"]
    assert drifted({"vad": {"version": "2", "sha256": "b"}}, before) == []
    assert drifted({"new": {"version": "1", "sha256": "b"}}, before) == []


def test_comments_docstrings_and_formatting_do_not_count():
    plain = "def f(a, b):\n    return a + b\nx: int = 1\n"
    dressed = '"""Module."""\ndef f(\n    a,\n    b,  # why\n):\n    """What."""\n    return (a + b)\n'
    dressed += 'x: int = 1\n"""Unit."""\n'
    assert shape(ast.parse(plain)) == shape(ast.parse(dressed))


@pytest.mark.parametrize("other", ["def f(a, b):\n    return a - b\n", "def f(a, b=None):\n    return a + b\n"])
def test_code_does_count(other):
    assert shape(ast.parse("def f(a, b):\n    return a + b\n")) != shape(ast.parse(other))
