import shutil
from dataclasses import fields, is_dataclass

import pytest
from omegaconf import OmegaConf

from spear_ray.config import PROFILES, BenchConfig, as_dict, conf_dir, config_hash, load, names_scorers
from spear_ray.errors import ConfigError

FILES = sorted(str(path.relative_to(conf_dir())) for path in conf_dir().rglob("*.yaml"))


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """A copy of the YAML files that a test may change."""
    folder = tmp_path / "conf"
    shutil.copytree(conf_dir(), folder)
    monkeypatch.setenv("SPEAR_CONF_DIR", str(folder))
    return folder


def set_in(path, dotlist: list[str]) -> None:
    OmegaConf.save(OmegaConf.merge(OmegaConf.load(path), OmegaConf.from_dotlist(dotlist)), path)


@pytest.mark.parametrize(
    "word",
    [
        "dta.uri=x",
        "data.url=x",
        "data..limit=3",
        "=3",
        "scorer.vat.published_grid=true",
        "scorer.vad.speech.treshold=0.4",
        "scorer.vad.resources.gpus=1",
        "explicit=true",
    ],
)
def test_unknown_key_is_an_error(word):
    with pytest.raises(ConfigError, match="not in"):
        load([word])


def test_misspelt_key_is_named_with_what_was_meant():
    with pytest.raises(ConfigError, match=r"scorer\.vad\.speech\.treshold.*'threshold'"):
        load(["scorer.vad.speech.treshold=0.4"])


@pytest.mark.parametrize(
    "word",
    [
        "data.limit=many",
        "data.limit=1.5",
        "data.limit=true",
        "data.limit=[1]",
        "data.uri=[a]",
        "data.uri=null",
        "data.splits=test",
        "data=null",
        "scorers=vad",
        "scorers=null",
        "scorer.vad.published_grid=maybe",
        "audio.max_bytes=1GB",
        "pipeline.progress_seconds=often",
    ],
)
def test_value_of_the_wrong_type_is_an_error_that_names_the_key(word):
    with pytest.raises(ConfigError, match="^" + word.split("=")[0].replace(".", r"\.")):
        load([word])


@pytest.mark.parametrize(
    "word",
    [
        "data.layout=tar",
        "data.answer_channels=left",
        "data.asking_channel=2",
        "data.limit=-1",
        "data.rows_per_shard=0",
        "pipeline.block_bytes=0",
        "pack.shard_bytes=-1",
        "leaderboard.resamples=0",
        "leaderboard.confidence=1",
        "leaderboard.confidence=nan",
        "audio.min_seconds=-1",
        "audio.min_seconds=nan",
        "scorers=[]",
        "scorer.vad.resources.concurrency=[4,2]",
        "scorer.vad.resources.concurrency=[0,2]",
        "scorer.vad.resources.concurrency=[1,2,3]",
    ],
)
def test_value_out_of_range_is_an_error_that_names_key_and_value(word):
    key, _, value = word.partition("=")
    with pytest.raises(ConfigError) as caught:
        load([word])
    assert str(caught.value).startswith(key)
    assert value in str(caught.value).replace(", ", ",") or value == "[]"


def test_word_without_an_equals_sign_is_an_error():
    with pytest.raises(ConfigError, match=r"'data\.limit' is not of the form key=value"):
        load(["data.limit"])


@pytest.mark.parametrize("word", ["scorers=[vad", "data.uri={a: b", "data.limit=[1"])
def test_word_that_is_no_yaml_is_an_error_that_names_it(word):
    with pytest.raises(ConfigError) as caught:
        load(["run.uri=x", word])
    assert f"'{word}'" in str(caught.value)


def test_index_into_a_list_is_an_error_and_no_crash():
    with pytest.raises(ConfigError):
        load(["data.splits[0]=test"])


def test_file_that_is_no_yaml_is_an_error(conf):
    (conf / "bench.yaml").write_text("data: [")
    with pytest.raises(ConfigError):
        load([])


def test_unset_variable_is_an_error():
    with pytest.raises(ConfigError, match=r"^data\.uri"):
        load(["data.uri=${oc.env:SPEAR_TESTS_DO_NOT_SET_THIS}"])


def test_value_may_hold_equals_signs():
    assert load(["data.uri=s3://bucket/a=b/c=d"]).data.uri == "s3://bucket/a=b/c=d"


def test_scorer_named_twice_is_an_error():
    with pytest.raises(ConfigError, match="twice"):
        load(["scorers=[vad,vad]"])


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_resolves(profile):
    config = load([f"profile={profile}"])
    assert config.profile == profile
    assert all(is_dataclass(getattr(config.scorer, name)) for name in config.scorers)


def test_each_profile_has_a_file_and_each_file_a_profile():
    assert {path.stem for path in (conf_dir() / "profile").glob("*.yaml")} == set(PROFILES)


@pytest.mark.parametrize("profile", ["laptop", "[local]", "../bench"])
def test_unknown_profile_is_an_error_that_names_what_exists(profile):
    with pytest.raises(ConfigError, match="must be one of local, gpu, cluster"):
        load([f"profile={profile}"])


@pytest.mark.parametrize("name", FILES)
def test_unknown_key_in_any_file_is_an_error(name, conf):
    changed = conf / name
    set_in(changed, ["not_a_key=1"])
    kind = changed.parent.name
    with pytest.raises(ConfigError, match="not_a_key"):
        load([f"{kind}={changed.stem}"] if kind in ("profile", "preset") else [])


def test_later_wins_from_defaults_over_files_and_profile_to_the_command_line(conf):
    words: list[str] = []
    assert load(words).ray.num_cpus == 0
    set_in(conf / "bench.yaml", ["ray.num_cpus=1"])
    assert load(words).ray.num_cpus == 1
    set_in(conf / "profile" / "local.yaml", ["ray.num_cpus=2"])
    assert load(words).ray.num_cpus == 2
    assert load(["ray.num_cpus=3"]).ray.num_cpus == 3
    assert load(["ray.num_cpus=3", "ray.num_cpus=4"]).ray.num_cpus == 4


def test_profile_wins_over_a_scorers_own_file(conf):
    set_in(conf / "scorer" / "vad.yaml", ["speech.threshold=0.4"])
    assert load([]).scorer.vad.speech.threshold == 0.4
    set_in(conf / "profile" / "local.yaml", ["scorer.vad.speech.threshold=0.6"])
    assert load([]).scorer.vad.speech.threshold == 0.6
    assert load(["profile=gpu"]).scorer.vad.speech.threshold == 0.4


def test_default_profile_stands_in_bench_yaml(conf):
    set_in(conf / "bench.yaml", ["profile=cluster"])
    assert load([]).profile == "cluster"
    assert load([]).pipeline == load(["profile=cluster"]).pipeline


def test_folder_without_configuration_is_passed_over(tmp_path, monkeypatch):
    usual = conf_dir()
    monkeypatch.setenv("SPEAR_CONF_DIR", str(tmp_path))
    assert conf_dir() == usual


def test_files_agree_with_the_defaults_of_the_schema():
    # A value that stands in bench.yaml and in the schema is one value.
    assert as_dict(load([]))["data"] == as_dict(BenchConfig())["data"]
    assert as_dict(load([]))["audio"] == as_dict(BenchConfig())["audio"]
    assert as_dict(load([]))["leaderboard"] == as_dict(BenchConfig())["leaderboard"]


def test_scorers_are_explicit_only_where_the_user_names_them():
    assert names_scorers(["scorers=[vad]"])
    assert not names_scorers(["scorer.vad.published_grid=true", "profile=gpu"])


def test_hash_is_that_of_the_values_and_not_of_the_words():
    assert config_hash(load([])) == config_hash(load(["data.limit=0"]))
    assert config_hash(load(["data.limit=1", "run.uri=a"])) == config_hash(load(["run.uri=a", "data.limit=1"]))


@pytest.mark.parametrize("word", ["data.limit=1", "scorer.vad.speech.threshold=0.4", "run.uri=a", "profile=gpu"])
def test_hash_changes_with_any_value(word):
    assert config_hash(load([word])) != config_hash(load([]))


def test_plain_form_holds_every_key_and_scorer():
    plain = as_dict(load(["data.limit=7"]))
    assert set(plain) == {item.name for item in fields(BenchConfig)}
    assert plain["data"]["limit"] == 7
    assert plain["scorer"]["vad"]["speech"]["threshold"] == 0.5


def test_a_preset_stands_between_profile_and_words():
    published = load(["preset=spearbench", "scorer.dialect.long_clips=parts"])
    assert published.preset == "spearbench"
    assert published.data.answer_channels == "both"
    assert published.scorer.emotion.trace.sequence == "published"
    assert (published.scorer.emotion.long_clips, published.scorer.dialect.long_clips) == ("first", "parts")
    free = load(["profile=gpu", "preset=commercial"])
    assert free.scorer.turn_taking.predictor == "timing"
    assert "3loi" in free.scorer.emotion.dimensions_model
    assert free.scorer.dialect.dialect_model == "none"


def test_a_preset_that_is_not_there_is_refused():
    with pytest.raises(ConfigError, match="preset=free: must be one of commercial, spearbench"):
        load(["preset=free"])
