"""Checkpoints in the published layouts, made small here, go through the loader that takes the real ones."""

import pickle
import re
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.vap_checkpoint import load_vap

from .tiny_vap import noise, tensors, tiny


def same(path, model, **words) -> None:
    loaded, audio = load_vap(path, **words), noise(3, batch=1)
    np.testing.assert_array_equal(loaded(audio).logits.numpy(), model(audio).logits.numpy())
    np.testing.assert_array_equal(loaded(audio).vad_logits.numpy(), model(audio).vad_logits.numpy())


@pytest.mark.parametrize(
    "sizes", [{}, {"recurrence": "GRU"}, {"levels": 2}, {"encoder_width": 8}, {"self_layers": 2, "cross_layers": 1}]
)
@pytest.mark.parametrize("ending", ["pt", "safetensors"])
def test_a_state_dict_tells_all_sizes(tmp_path, sizes, ending):
    model = tiny(**sizes)
    path = tmp_path / f"vap.{ending}"
    save_file(tensors(model), path) if ending == "safetensors" else torch.save(tensors(model), path)
    same(path, model)


def test_lightning_checkpoint(tmp_path):
    model = tiny()
    state = {
        f"net.{key}": value for key, value in tensors(model).items() if not key.startswith(("objective", "vap_head"))
    }
    state |= {f"net.vap_head.projection_head.{name}": getattr(model.vap_head, name).data for name in ("weight", "bias")}
    state |= {"VAP.codebook.emb.weight": torch.zeros(256, 8)}
    torch.save({"state_dict": state, "epoch": 9, "hyper_parameters": {"lr": 1e-4}}, tmp_path / "vap.ckpt")
    same(tmp_path / "vap.ckpt", model)


def test_turnnats_training_checkpoint_uses_its_own_head(tmp_path):
    model = tiny()
    state = {f"backbone.{key}": value for key, value in tensors(model).items()}
    state["backbone.vap_head.weight"] = torch.zeros_like(model.vap_head.weight)
    state |= {f"vap_head_256.net.{name}": getattr(model.vap_head, name).data for name in ("weight", "bias")}
    torch.save({"model_state": state, "epoch": 4, "args": {"lr": 1e-6}}, tmp_path / "last.pt")
    same(tmp_path / "last.pt", model)


@pytest.mark.parametrize(
    ("name", "kernel", "stride"),
    [
        ("vap_state_dict_eng_20hz_2500msec.pt", 5, 5),
        ("vap_state_dict_jp_10hz_5000msec.pt", 10, 10),
        ("vap_state_dict_tri_ecj_5hz_3000msec.pt", 20, 20),
    ],
)
def test_maais_models_have_their_rate_their_heads_and_two_encoders(tmp_path, name, kernel, stride):
    model = tiny(kernel=kernel, stride=stride, vad_before_cross=True)
    state = {
        key.removeprefix("transformer."): value
        for key, value in tensors(model).items()
        if not key.startswith("objective")
    }
    both = {
        key.replace("encoder.", f"encoder{side}.", 1): value
        for side in (1, 2)
        for key, value in state.items()
        if key.startswith("encoder.")
    }
    state = {key: value for key, value in state.items() if not key.startswith("encoder.")} | both
    state |= {"bc_head.weight": torch.zeros(3, 16), "lid_classifier.0.bias": torch.zeros(2)}
    torch.save(state, tmp_path / name)
    assert load_vap(tmp_path / name).frame_hz == 100 / stride
    same(tmp_path / name, model)


def test_a_renamed_file_of_maai_keeps_its_rate(tmp_path):
    model = tiny(kernel=5, stride=5, vad_before_cross=True)
    torch.save(tensors(model) | {"nod_head.weight": torch.zeros(4, 16)}, tmp_path / "mine.pt")
    assert load_vap(tmp_path / "mine.pt").frame_hz == 20
    same(tmp_path / "mine.pt", model)


def test_encoders_that_differ_are_refused(tmp_path):
    state = tensors(tiny())
    state |= {
        key.replace("encoder.", "encoder2.", 1): value + 1 for key, value in state.items() if key.startswith("encoder.")
    }
    torch.save(state, tmp_path / "vap.pt")
    with pytest.raises(PrerequisiteError, match="two different tensors for encoder"):
        load_vap(tmp_path / "vap.pt")


def test_the_rate_can_be_given(tmp_path):
    model = tiny(kernel=5, stride=5, vad_before_cross=True)
    torch.save(tensors(model), tmp_path / "mine.pt")
    same(tmp_path / "mine.pt", model, frame_hz=20.0)
    with pytest.raises(PrerequisiteError, match="must divide"):
        load_vap(tmp_path / "mine.pt", 30.0)


@pytest.mark.parametrize(("kernel", "stride", "given"), [(5, 2, 10.0), (10, 10, 50.0), (20, 20, 10.0), (3, 2, 50.0)])
def test_a_rate_that_the_kernel_contradicts_is_refused(tmp_path, kernel, stride, given):
    torch.save(tensors(tiny(kernel=kernel, stride=stride)), tmp_path / "vap.pt")
    with pytest.raises(PrerequisiteError, match=f"{given:g} Hz .* {kernel} frames"):
        load_vap(tmp_path / "vap.pt", given)


def test_heads_that_do_not_divide_the_width_are_refused(tmp_path):
    state = {key: torch.ones(3) if key.endswith(".m") else value for key, value in tensors(tiny()).items()}
    torch.save(state, tmp_path / "vap.pt")
    with pytest.raises(PrerequisiteError, match="3 heads"):
        load_vap(tmp_path / "vap.pt")


@pytest.mark.parametrize("shape", [(), (7,), (0, 0), (0, 0, 0), (2, 2, 2, 2)])
def test_no_misshapen_tensor_becomes_an_error_of_torch(tmp_path, shape):
    state = tensors(tiny())
    for key in state:
        torch.save(state | {key: torch.zeros(shape)}, tmp_path / "vap.pt")
        with pytest.raises(PrerequisiteError, match=re.escape(key)):
            load_vap(tmp_path / "vap.pt")


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_every_tensor_is_accounted_for(tmp_path, change):
    state = tensors(tiny())
    key = "transformer.ar.combinator.h0_a.weight"
    if change == "missing":
        del state[key]
    elif change == "unknown":
        key = "transformer.ar.surprise"
        state[key] = torch.zeros(1)
    else:
        state[key] = torch.zeros(3, 3)
    torch.save(state, tmp_path / "vap.pt")
    with pytest.raises(PrerequisiteError, match=key):
        load_vap(tmp_path / "vap.pt")


def test_a_model_without_its_cpc_says_what_is_missing(tmp_path):
    state = {key: value for key, value in tensors(tiny()).items() if not key.startswith("encoder.encoder.")}
    torch.save(state, tmp_path / "vap.pt")
    with pytest.raises(PrerequisiteError, match=r"all of its audio encoder \(encoder\.encoder\.gEncoder"):
        load_vap(tmp_path / "vap.pt")


def test_another_code_is_refused(tmp_path):
    state = tensors(tiny())
    state["objective.codebook.emb.weight"] = 1 - state["objective.codebook.emb.weight"]
    torch.save(state, tmp_path / "vap.pt")
    with pytest.raises(PrerequisiteError, match="codebook"):
        load_vap(tmp_path / "vap.pt")


class Harmful:
    def __reduce__(self):
        return print, ("this must not be printed",)


def test_code_in_a_checkpoint_is_not_run(tmp_path, capsys):
    torch.save({"state_dict": Harmful()}, tmp_path / "vap.ckpt")
    with pytest.raises(PrerequisiteError, match="refused"):
        load_vap(tmp_path / "vap.ckpt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Harmful()))
    with pytest.raises(PrerequisiteError):
        load_vap(tmp_path / "plain.pt")
    assert "must not" not in capsys.readouterr().out


def test_what_is_not_there_and_what_is_no_model(tmp_path):
    with pytest.raises(CheckpointMissing, match="VAP_state_dict"):
        load_vap(tmp_path / "nowhere.pt")
    torch.save({"state_dict": [1, 2]}, tmp_path / "list.pt")
    with pytest.raises(PrerequisiteError, match="no dictionary of tensors"):
        load_vap(tmp_path / "list.pt")


def test_arguments_of_training_beside_the_tensors_do_no_harm(tmp_path):
    model = tiny()
    arguments = Namespace(data=Path("/data"), lr=1e-4)
    torch.save({"model_state": tensors(model), "args": arguments, "where": Path("runs/1")}, tmp_path / "last.pt")
    same(tmp_path / "last.pt", model)
