"""Vox-Profile, VoxLect, audeering and 3loi: what is loaded, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.dimensions import load_dimensions
from spear_ray.networks.profile_checkpoint import load_profile, merged
from spear_ray.networks.regression import Audeering, Odyssey
from spear_ray.networks.wave_profile import WaveProfile
from spear_ray.networks.whisper_profile import WhisperProfile
from tests import tiny_checkpoints as tiny
from tests.clips import speech

FETCH = "fetch it"
MAKERS = {
    "whisper_dimensions": WhisperProfile,
    "wavlm_dimensions": WaveProfile,
    "audeering": Audeering,
    "odyssey": Odyssey,
}
CLIPS = [speech(seconds) for seconds in (0.3, 1.0, 4.5, 15.0, 22.0, 60.0)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    where = tmp_path_factory.mktemp("made")
    return {name: getattr(tiny, name)(where / name) for name in MAKERS} | {"voxlect": tiny.voxlect(where / "voxlect")}


def changed(folder: Path, to: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> Path:
    """A copy with other tensors."""
    to.mkdir()
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, to / "model.safetensors")
    (to / "config.json").write_text((folder / "config.json").read_text())
    return to


@pytest.mark.parametrize(("name", "kind"), MAKERS.items(), ids=MAKERS)
def test_models_of_the_dimensions_are_told_apart_by_their_tensors(made, name, kind):
    model = load_dimensions(made[name], FETCH)
    assert isinstance(model, kind)
    assert not model.training
    outputs = model.read([speech(2.0)])[0]
    assert all(outputs[name].shape == (1,) for name in ("arousal", "valence", "dominance"))


@pytest.mark.parametrize("name", MAKERS)
def test_a_clip_in_a_batch_gives_what_it_gives_alone(made, name):
    model = load_dimensions(made[name], FETCH)
    clips = CLIPS if model.longest_s else CLIPS[:-1]
    with torch.inference_mode():
        together = model.encode(clips)
    for clip, outputs in zip(clips, together, strict=True):
        alone = model.read([clip])[0]
        for key, value in outputs.items():
            np.testing.assert_allclose(value, alone[key], atol=1e-4, err_msg=key)


@pytest.mark.parametrize("name", MAKERS)
def test_outputs_differ_between_clips(made, name):
    model = load_dimensions(made[name], FETCH)
    arousal = [float(one["arousal"][0]) for one in model.read(CLIPS[1:4])]
    assert np.ptp(arousal) > 1e-3


@pytest.mark.parametrize("name", MAKERS)
def test_bf16_moves_a_dimension_by_less_than_its_stated_tolerance(made, name):
    model = load_dimensions(made[name], FETCH)
    exact = model.read(CLIPS[1:4])
    half = load_dimensions(made[name], FETCH)
    half.precision = "bf16"
    for one, other in zip(exact, half.read(CLIPS[1:4]), strict=True):
        for key in ("arousal", "valence", "dominance"):
            assert abs(float(one[key][0]) - float(other[key][0])) < 0.05
            assert other[key].dtype == np.float32


@pytest.mark.parametrize("name", [*MAKERS, "voxlect"])
def test_a_tensor_too_few_or_too_many_is_refused_by_name(made, name, tmp_path):
    load = load_profile if name == "voxlect" else load_dimensions
    keys = [key for key in load_file(made[name] / "model.safetensors") if "layers.1.final_layer_norm.bias" in key]
    fewer = changed(made[name], tmp_path / "fewer", lambda tensors: tensors.pop(keys[0]))
    with pytest.raises(PrerequisiteError, match=r"lacks .*final_layer_norm\.bias"):
        load(fewer, FETCH)
    more = changed(made[name], tmp_path / "more", lambda tensors: tensors.update({"surprise.weight": torch.zeros(2)}))
    with pytest.raises(PrerequisiteError, match=r"unknown surprise\.weight"):
        load(more, FETCH)


def test_what_only_training_or_the_decoder_uses_is_left_out(made, tmp_path):
    extra = {
        "backbone_model.decoder.layer_norm.weight": torch.ones(4),
        "dataset_layer.1.weight": torch.ones(4, 4),
    }
    folder = changed(made["voxlect"], tmp_path / "whole", lambda tensors: tensors.update(extra))
    clip = [speech(3.0)]
    found, expected = (load_profile(one, FETCH).read(clip)[0]["logits"] for one in (folder, made["voxlect"]))
    np.testing.assert_array_equal(found, expected)


def test_lora_is_added_with_one_over_its_rank():
    down, up = torch.randn(4, 6), torch.randn(8, 4)
    tensors = {"fc1.weight": torch.zeros(8, 6), "fc1.lora_A": down, "fc1.lora_B": up, "fc1.bias": torch.ones(8)}
    found = merged(tensors, "x")
    assert found.keys() == {"fc1.weight", "fc1.bias"}
    torch.testing.assert_close(found["fc1.weight"], up @ down / 4)


@pytest.mark.parametrize("lost", ["lora_A", "lora_B", "weight"])
def test_half_of_a_lora_is_refused(lost):
    tensors = {"fc1.weight": torch.zeros(8, 6), "fc1.lora_A": torch.ones(4, 6), "fc1.lora_B": torch.ones(8, 4)}
    tensors.pop(f"fc1.{lost}")
    with pytest.raises(PrerequisiteError, match="fc1 must have weight, lora_A and lora_B"):
        merged(tensors, "x")


def test_a_lora_of_another_shape_is_refused():
    tensors = {"fc1.weight": torch.zeros(8, 6), "fc1.lora_A": torch.ones(4, 5), "fc1.lora_B": torch.ones(8, 4)}
    with pytest.raises(PrerequisiteError, match="of fc1 do not fit its weight"):
        merged(tensors, "x")


def test_a_rank_that_the_configuration_denies_is_refused(made, tmp_path):
    folder = changed(made["voxlect"], tmp_path / "rank", lambda tensors: None)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"lora_rank": 64}))
    with pytest.raises(PrerequisiteError, match=r"lora_rank=64, the tensors have \[4\]"):
        load_profile(folder, FETCH)


def test_a_dialect_model_is_no_model_of_dimensions_and_the_reverse(made):
    with pytest.raises(PrerequisiteError, match="is no model of arousal"):
        load_dimensions(made["voxlect"], FETCH)
    with pytest.raises(PrerequisiteError, match="holds no Vox-Profile or VoxLect model"):
        load_profile(made["audeering"], FETCH)


def test_other_files_are_refused_with_the_command(tmp_path):
    with pytest.raises(CheckpointMissing, match="fetch it"):
        load_dimensions(tmp_path, FETCH)
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(PrerequisiteError, match="no known model"):
        load_dimensions(tmp_path, FETCH)
    (tmp_path / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(PrerequisiteError, match="not a whole safetensors file"):
        load_dimensions(tmp_path, FETCH)


def test_three_louder_waves_are_the_same_to_models_that_normalise(made):
    clip = speech(2.0)
    for name in ("wavlm_dimensions", "audeering"):
        quiet, loud = load_dimensions(made[name], FETCH).read([clip, 3 * clip])
        np.testing.assert_allclose(quiet["arousal"], loud["arousal"], atol=1e-4)


def test_older_names_of_a_weight_norm_are_known(made, tmp_path):
    def rename(tensors):
        for key in [key for key in tensors if "parametrizations.weight.original" in key]:
            suffix = {"0": "weight_g", "1": "weight_v"}[key[-1]]
            tensors[key.replace(f"parametrizations.weight.original{key[-1]}", suffix)] = tensors.pop(key)

    old = changed(made["audeering"], tmp_path / "old", rename)
    clip = [speech(2.0)]
    found, expected = (load_dimensions(one, FETCH).read(clip)[0]["arousal"] for one in (old, made["audeering"]))
    np.testing.assert_array_equal(found, expected)


def test_attentive_pooling_is_a_weighted_mean_and_deviation(made):
    model = load_dimensions(made["odyssey"], FETCH)
    assert isinstance(model, Odyssey)
    frames = torch.randn(1, 7, tiny.WIDTH)
    pool = model.pool_model
    scores = torch.tanh(frames[0, :5] @ pool.sap_linear.weight.T + pool.sap_linear.bias) @ pool.attention
    weights = torch.exp(scores) / torch.exp(scores).sum()
    mean = (weights * frames[0, :5]).sum(0)
    deviation = (weights * (frames[0, :5] - mean) ** 2).sum(0).clamp(min=1e-5).sqrt()
    found = pool(frames, torch.tensor([5]))[0]
    torch.testing.assert_close(found, torch.cat([mean, deviation]), atol=1e-4, rtol=1e-4)
