"""Words of `spear-ray checkpoints` that need neither hub nor cache."""

import re

import pytest

from spear_ray.checkpoints.commands import run
from spear_ray.errors import CheckpointMissing, ConfigError


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (["lsit"], ConfigError, "no 'checkpoints lsit': must be one of list, pull, verify"),
        (["list", "x"], ConfigError, "not 'x'"),
        (["pull"], ConfigError, "pull needs a name"),
        (["pull", "hf://org"], ConfigError, "'hf://org' is not of the form hf://org/name"),
        (["pull", "nothing"], ConfigError, "no checkpoint 'nothing' in the catalogue; there are: voxlect"),
        (["pull", "trace", "nothing"], ConfigError, "no checkpoint 'nothing'"),
        (["verify", "nowhere"], ConfigError, "no checkpoint 'nowhere'"),
        (["verify", "./nowhere"], CheckpointMissing, "nowhere does not exist"),
        (["verify", "trace"], ConfigError, "trace is on no hub"),
    ],
)
def test_wrong_words_are_named_before_anything_is_done(capsys, words, error, said):
    with pytest.raises(error, match=re.escape(said)):
        run(words)
    assert capsys.readouterr().out == ""


def test_what_is_on_no_hub_says_how_it_comes_here(capsys):
    with pytest.raises(CheckpointMissing, match=r"get last_model\.pt .* then scorer\.emotion\.trace\.checkpoint=PATH"):
        run(["pull", "trace"])
    assert capsys.readouterr().out == "trace: CC BY-NC 4.0 (data), non-commercial, about 20 MB\n"


def test_without_a_command_help_is_shown(capsys):
    assert (run([]), run(["--help"])) == (2, 0)
    assert capsys.readouterr().out.count("usage: spear-ray checkpoints") == 2
