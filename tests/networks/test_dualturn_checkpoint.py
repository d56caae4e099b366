import pickle

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.dualturn import DualTurn
from spear_ray.networks.dualturn_checkpoint import RELEASED_NAME, RELEASED_SHA256, load_dualturn
from spear_ray.networks.files import sha256_of
from tests.networks.dualturn_cases import (
    QWEN,
    config_folder,
    mimi_folder,
    native_layout,
    noise,
    published,
    published_names,
    random_mimi,
    random_network,
)


@pytest.fixture
def mimi(tmp_path):
    return mimi_folder(tmp_path / "mimi")


@pytest.fixture
def backbone(tmp_path):
    return config_folder(tmp_path / "backbone", QWEN)


@pytest.fixture
def weights() -> dict[str, torch.Tensor]:
    return published_names(random_network())


def assert_same(model: DualTurn, network, native: bool = False) -> None:
    expected = DualTurn(random_mimi(), network).frame_logits([noise(2, 20_000)], native)
    np.testing.assert_array_equal(model.frame_logits([noise(2, 20_000)], native), expected)


def test_turnnats_checkpoint_gives_its_networks_logits(tmp_path, weights, backbone, mimi):
    path = published(weights, tmp_path / "own.pt")
    assert_same(load_dualturn(path, backbone, mimi), random_network())
    assert_same(load_dualturn(str(path), str(backbone), str(mimi)), random_network(), native=True)


def test_the_same_tensors_as_safetensors_give_the_same_logits(tmp_path, weights, backbone, mimi):
    del weights["model.backbone.lm_head.weight"]  # where Qwen2 ties it to its embeddings
    save_file(weights, tmp_path / "own.safetensors")
    assert_same(load_dualturn(tmp_path / "own.safetensors", backbone, mimi), random_network())


def test_the_legacy_head_name_is_read(tmp_path, weights, backbone, mimi):
    legacy = {key.replace("fvad_head_256.", "vap_head_256.net."): value for key, value in weights.items()}
    assert_same(load_dualturn(published(legacy, tmp_path / "own.pt"), backbone, mimi), random_network())


@pytest.mark.parametrize("inside", ["", "model.safetensors"])
def test_dualturns_own_layout_has_the_native_bits_only(tmp_path, weights, backbone, mimi, inside):
    path = native_layout(weights, tmp_path / "native") / inside
    model = load_dualturn(path, backbone, mimi)
    assert_same(model, random_network(), native=True)
    with pytest.raises(PrerequisiteError, match=r"native/model\.safetensors has no head of 256 classes"):
        model.frame_logits([noise(2, 20_000)])


def test_perceptron_heads_and_their_widths_are_read_from_the_tensors(tmp_path, backbone, mimi):
    network = random_network(head_widths={"eot": 20, "bc": 12})
    model = load_dualturn(published(published_names(network), tmp_path / "own.pt"), backbone, mimi)
    features = torch.randn(1, 10, 32)
    for task, logits in model.network.all_logits(features).items():
        torch.testing.assert_close(logits, network.all_logits(features)[task])


def test_half_precision_weights_become_float32(tmp_path, weights, backbone, mimi):
    half = {key: value.bfloat16() for key, value in weights.items()}
    model = load_dualturn(published(half, tmp_path / "own.pt"), backbone, mimi)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_the_released_name_with_other_contents_is_refused_with_both_hashes(tmp_path, weights, backbone, mimi):
    path = published(weights, tmp_path / RELEASED_NAME)
    with pytest.raises(PrerequisiteError) as caught:
        load_dualturn(path, backbone, mimi)
    assert all(text in str(caught.value) for text in (str(path), sha256_of(path), RELEASED_SHA256))
    assert_same(load_dualturn(path, backbone, mimi, check_hash=False), random_network())


class Harmful:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("write", [torch.save, lambda saved, path: path.write_bytes(pickle.dumps(saved, protocol=2))])
def test_a_checkpoint_with_code_is_refused_by_name_and_not_run(tmp_path, backbone, mimi, write):
    path = tmp_path / "harmful.pt"
    write({"format": Harmful(tmp_path / "written")}, path)
    with pytest.raises(PrerequisiteError, match=r"harmful\.pt was refused: it holds more than tensors"):
        load_dualturn(path, backbone, mimi)
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("contents", [b"", b"not a checkpoint", b"PK\x03\x04 cut off"])
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path, backbone, mimi, contents):
    (tmp_path / "own.pt").write_bytes(contents)
    with pytest.raises(PrerequisiteError, match=r"own\.pt"):
        load_dualturn(tmp_path / "own.pt", backbone, mimi)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "format is 'other', must be 'turn-taking-naturalness-inference-v1'"),
        ({"model_state": [1, 2]}, "model_state is not a dictionary of tensors"),
        ({"model_state": {"fvad_head_256.weight": 1}}, "model_state is not a dictionary of tensors"),
        ({"model_state": {1: torch.zeros(1)}}, "model_state is not a dictionary of tensors"),
        ({"model_state": {}}, r"must have a matrix mimi_projection\.proj\.0\.weight but lacks it"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(tmp_path, weights, backbone, mimi, changes, message):
    with pytest.raises(PrerequisiteError, match=message):
        load_dualturn(published(weights, tmp_path / "own.pt", **changes), backbone, mimi)


def test_a_bare_state_dict_is_refused(tmp_path, weights, backbone, mimi):
    torch.save(weights, tmp_path / "own.pt")
    with pytest.raises(PrerequisiteError, match="format is None"):
        load_dualturn(tmp_path / "own.pt", backbone, mimi)


@pytest.mark.parametrize("missing", ["checkpoint", "backbone", "mimi"])
def test_what_is_not_there_is_named_with_what_to_fetch(tmp_path, weights, backbone, mimi, missing):
    paths = {"checkpoint": published(weights, tmp_path / "own.pt"), "backbone": backbone, "mimi": mimi}
    with pytest.raises(CheckpointMissing, match=r"nowhere.* does not exist: .*hf download"):
        load_dualturn(**paths | {missing: tmp_path / "nowhere"})


@pytest.mark.parametrize(
    ("gone", "added", "message"),
    [
        ("model.fvad_head.bias", None, r"own\.pt .* lacks fvad_head\.bias"),
        ("task_layer_weights.bc", None, r"lacks task_layer_weights\.bc"),
        ("model.backbone.model.norm.weight", None, r"lacks backbone\.norm\.weight"),
        (None, "model.audio_adapter.weight", r"has unknown audio_adapter\.weight"),
        (None, "model.backbone.model.layers.7.mlp.up_proj.weight", r"has unknown backbone\.layers\.7\.mlp\.up_proj"),
        (None, "vap_head_256.net.weight", r"has fvad_head_256\.weight twice"),
    ],
)
def test_every_tensor_is_accounted_for(tmp_path, weights, backbone, mimi, gone, added, message):
    state = {key: value for key, value in weights.items() if key != gone}
    state |= {added: torch.zeros(1)} if added else {}
    with pytest.raises(PrerequisiteError, match=message):
        load_dualturn(published(state, tmp_path / "own.pt"), backbone, mimi)


def test_another_backbones_config_is_refused_with_the_tensors_that_differ(tmp_path, weights, mimi):
    backbone = config_folder(tmp_path / "wider", QWEN | {"intermediate_size": 40})
    with pytest.raises(
        PrerequisiteError, match=r"wider\) has a wrong shape for .*mlp\.down_proj\.weight .* and 1 more"
    ):
        load_dualturn(published(weights, tmp_path / "own.pt"), backbone, mimi)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 2**20}, r"config\.json: hidden_size is 1048576, .*own\.pt was trained with 32: hf download"),
        ({"hidden_size": "wide"}, r"config\.json does not describe a Qwen2: (.|\n)*'hidden_size'"),
    ],
)
def test_a_backbone_of_another_width_is_refused_before_it_is_built(tmp_path, weights, mimi, changes, message):
    backbone = config_folder(tmp_path / "wider", QWEN | changes)
    with pytest.raises(PrerequisiteError, match=message):
        load_dualturn(published(weights, tmp_path / "own.pt"), backbone, mimi)


def test_a_backbone_of_another_kind_is_refused(tmp_path, weights, mimi):
    backbone = config_folder(tmp_path / "llama", QWEN | {"model_type": "llama"})
    with pytest.raises(PrerequisiteError, match="model_type is 'llama', must be 'qwen2'"):
        load_dualturn(published(weights, tmp_path / "own.pt"), backbone, mimi)


def test_a_mimi_of_another_width_is_refused(tmp_path, weights, backbone):
    mimi = mimi_folder(tmp_path / "mimi", hidden_size=24)
    with pytest.raises(PrerequisiteError, match=r"mimi gives 24 features, .*own\.pt was trained on 16"):
        load_dualturn(published(weights, tmp_path / "own.pt"), backbone, mimi)


def test_the_window_switch_reaches_mimi(tmp_path, weights, backbone, mimi):
    path = published(weights, tmp_path / "own.pt")
    windowed, whole = (
        load_dualturn(path, backbone, mimi, switch).frame_logits([noise(2, 40_000)])[0] for switch in (True, False)
    )
    assert np.abs(windowed - whole).max() > 1e-4
