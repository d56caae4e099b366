import json

import pytest
from safetensors.torch import load_file, save_file

from spear_ray.checkpoints.commands import run
from spear_ray.checkpoints.convert import BESIDE, convert
from spear_ray.errors import ConfigError, PrerequisiteError
from tests import tiny_omni


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("omni")
    return tiny_omni.make(folder / "whole"), tiny_omni.make_thinker(folder / "thinker")


def copied(source, target, without=()):
    target.mkdir()
    for path in source.iterdir():
        if path.name not in without:
            (target / path.name).write_bytes(path.read_bytes())
    return target


def test_converted_thinker_is_the_whole_models_thinker_bit_for_bit(made, tmp_path):
    whole, thinker = made
    count = convert(thinker, tmp_path / "out")
    expected, found = (load_file(folder / "model.safetensors") for folder in (whole, tmp_path / "out"))
    assert count == len(found)
    assert found.keys() == expected.keys()
    assert all(name.startswith("thinker.") for name in found)
    for name, tensor in found.items():
        assert tensor.dtype == expected[name].dtype
        assert tensor.equal(expected[name])


def test_converted_configuration_describes_the_whole_model(made, tmp_path):
    whole, thinker = made
    convert(thinker, tmp_path / "out")
    ours, theirs = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path / "out", whole))
    assert (ours["model_type"], ours["architectures"]) == (theirs["model_type"], theirs["architectures"])
    assert ours["enable_audio_output"] is False
    for part in ("audio_config", "text_config", "vision_config"):
        # the whole model's file also spells out what is a default
        written = ours["thinker_config"][part]
        assert written == {key: theirs["thinker_config"][part][key] for key in written}
        assert len(written) > 10


def test_transformers_reads_the_converted_thinker(made, tmp_path):
    from transformers import Qwen2_5OmniThinkerForConditionalGeneration

    convert(made[1], tmp_path / "out")
    kind = Qwen2_5OmniThinkerForConditionalGeneration
    _, report = kind.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]


def test_files_beside_the_weights_come_along(made, tmp_path):
    convert(made[1], tmp_path / "out")
    for name in BESIDE:
        path = made[1] / name
        assert not path.is_file() or (tmp_path / "out" / name).read_bytes() == path.read_bytes()


def test_tokenizer_and_template_come_from_the_base_where_the_source_has_none(made, tmp_path):
    whole, thinker = made
    bare = copied(thinker, tmp_path / "bare", without=(*BESIDE,))
    with pytest.raises(PrerequisiteError, match=r"tokenizer\.json.*SOURCE TARGET BASE"):
        convert(bare, tmp_path / "out")
    assert not (tmp_path / "out").exists(), "nothing is left behind"
    convert(bare, tmp_path / "out", whole)
    assert (tmp_path / "out" / "chat_template.json").read_bytes() == (whole / "chat_template.json").read_bytes()


def test_source_stands_before_the_base(made, tmp_path):
    whole, thinker = made
    tuned = copied(thinker, tmp_path / "tuned")
    (tuned / "chat_template.json").write_text('{"chat_template": "mine"}')
    convert(tuned, tmp_path / "out", whole)
    assert json.loads((tmp_path / "out" / "chat_template.json").read_text()) == {"chat_template": "mine"}


def test_shards_keep_their_places(made, tmp_path):
    whole, thinker = made
    parts = copied(thinker, tmp_path / "parts", without=("model.safetensors",))
    tensors = load_file(thinker / "model.safetensors")
    names = sorted(tensors)
    split = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for file, own in split.items():
        save_file({name: tensors[name] for name in own}, parts / file)
    weights = {name: file for file, own in split.items() for name in own}
    (parts / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    assert convert(parts, tmp_path / "out") == len(names)
    index = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())["weight_map"]
    assert index == {f"thinker.{name}": file for name, file in weights.items()}
    found = {name: t for file in split for name, t in load_file(tmp_path / "out" / file).items()}
    assert all(found[name].equal(t) for name, t in load_file(whole / "model.safetensors").items())


def test_missing_shard_is_named(made, tmp_path):
    parts = copied(made[1], tmp_path / "parts", without=("model.safetensors",))
    weights = {"lm_head.weight": "model-00001-of-00001.safetensors"}
    (parts / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    with pytest.raises(PrerequisiteError, match="model-00001-of-00001"):
        convert(parts, tmp_path / "out")


def test_what_is_no_thinker_is_refused(made, tmp_path):
    whole, thinker = made
    with pytest.raises(PrerequisiteError, match="reads this checkpoint as it is"):
        convert(whole, tmp_path / "a")
    other = copied(thinker, tmp_path / "other")
    (other / "config.json").write_text('{"model_type": "qwen2"}')
    with pytest.raises(PrerequisiteError, match="model_type 'qwen2'"):
        convert(other, tmp_path / "b")
    (other / "config.json").write_text("{")
    with pytest.raises(PrerequisiteError, match="not JSON"):
        convert(other, tmp_path / "c")
    with pytest.raises(PrerequisiteError, match="does not exist"):
        convert(tmp_path / "nowhere", tmp_path / "d")


def test_strange_tensors_and_damaged_files_are_refused(made, tmp_path):
    strange = copied(made[1], tmp_path / "strange")
    tensors = load_file(strange / "model.safetensors")
    save_file({**tensors, "talker.x": tensors["lm_head.weight"].clone()}, strange / "model.safetensors")
    with pytest.raises(PrerequisiteError, match=r"talker\.x"):
        convert(strange, tmp_path / "a")
    damaged = copied(made[1], tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"\x00" * 50)
    with pytest.raises(PrerequisiteError, match="safetensors"):
        convert(damaged, tmp_path / "b")


def test_folder_in_use_is_not_written_to(made, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    with pytest.raises(PrerequisiteError, match="not an empty folder"):
        convert(made[1], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_command_says_what_to_do_next(made, tmp_path, capsys):
    assert run(["convert", str(made[1]), str(tmp_path / "out")]) == 0
    assert f"judge.checkpoint={tmp_path / 'out'}" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="SOURCE and TARGET"):
        run(["convert", str(made[1])])
