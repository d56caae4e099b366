"""The catalogue's entries, and names on the hub."""

import pytest

from spear_ray.checkpoints.catalogue import CATALOGUE, find, named, pull_command
from spear_ray.checkpoints.hub import HubName
from spear_ray.config import load
from spear_ray.errors import ConfigError


def test_every_checkpoint_is_used_by_a_key_of_the_configuration():
    for one in CATALOGUE:
        value = load([])
        for part in one.used_by.split("."):
            value = getattr(value, part)
        assert isinstance(value, str)


def test_every_checkpoint_that_the_configuration_names_can_be_pulled_by_its_name():
    config = load([])
    for uri in (
        config.scorer.dialect.language_model,
        config.scorer.dialect.dialect_model,
        config.scorer.emotion.dimensions_model,
        config.scorer.emotion.trace.text_model,
    ):
        assert pull_command(uri) == f"spear-ray checkpoints pull {find(uri).name}"


def test_names_are_unique_and_entries_say_where_they_come_from():
    assert len({one.name for one in CATALOGUE}) == len(CATALOGUE)
    for one in CATALOGUE:
        assert bool(one.uri) != bool(one.how)
        assert find(one.name) == one
        if one.uri:
            assert find(one.uri) == one


def test_no_pattern_lets_in_a_pickle_or_code_of_a_hub_repository():
    for one in (*CATALOGUE, named("hf://org/any")):
        if one.uri:
            assert all(name.endswith((".json", ".safetensors", ".txt", ".jinja")) for name in one.files)


def test_a_revision_stays_with_a_checkpoint_of_the_catalogue():
    entry = find("hf://facebook/mms-lid-126@abc")
    assert (entry.name, entry.uri) == ("mms-lid-126", "hf://facebook/mms-lid-126@abc")
    assert pull_command(entry.uri) == "spear-ray checkpoints pull hf://facebook/mms-lid-126@abc"


def test_an_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(ConfigError, match=r"no checkpoint 'mms'.*mms-lid-126"):
        find("mms")
    with pytest.raises(ConfigError):
        find("hf://org/any")


@pytest.mark.parametrize("uri", ["hf://org/name", "hf://org/name@main"])
def test_main_is_meant_where_no_revision_is_said(uri):
    assert HubName.of(uri) == HubName("org/name", "main")
    assert str(HubName.of(uri)) == "hf://org/name"


@pytest.mark.parametrize(
    "uri",
    ["hf://", "hf://org", "hf://org/", "hf://org/name/file", "hf://org/name@", "hf://org/name@../x", "hf://../name",
     "hf://org/na me", "hf://org/name@/x", "hf://a--b/name", "hf:/org/name", "HF://org/name", "hf://org/name\n"],
)  # fmt: skip
def test_another_form_of_name_is_refused(uri):
    with pytest.raises(ConfigError, match="hf://org/name"):
        HubName.of(uri)
