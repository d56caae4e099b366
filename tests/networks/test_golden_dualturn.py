"""Against what the published code gave on small networks."""

import numpy as np
import pytest
import torch

from spear_ray.networks.dualturn import DualTurn
from spear_ray.networks.dualturn_checkpoint import load_dualturn
from tests.networks.dualturn_cases import Recorded, golden_arrays, native_layout, published, recorded

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def cases(tmp_path_factory) -> dict[str, Recorded]:
    return {case.name: case for case in recorded(tmp_path_factory.mktemp("recorded"))}


@pytest.fixture(scope="module")
def outputs(cases, tmp_path_factory) -> dict[str, dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: outputs_of(case, folder / f"{name}.pt") for name, case in cases.items()}


def loaded(case: Recorded, checkpoint, sliding_window: bool = True) -> DualTurn:
    return load_dualturn(checkpoint, case.backbone, case.mimi, sliding_window)


def channels(case: Recorded) -> torch.Tensor:
    return torch.cat([torch.from_numpy(case.arrays[f"mimi_feat_ch{channel}"]) for channel in (0, 1)], dim=-1)


def outputs_of(case: Recorded, path) -> dict[str, np.ndarray]:
    model = loaded(case, published(case.weights, path))
    heads = network_outputs(model, channels(case))
    windowed = audio_outputs(model, case, "mimi")
    return heads | windowed | audio_outputs(loaded(case, path, sliding_window=False), case, "mimi_nowindow")


def network_outputs(model: DualTurn, features: torch.Tensor) -> dict[str, np.ndarray]:
    network = model.network
    named = {f"cat256.{task}": logits for task, logits in network.all_logits(features).items()}
    named |= {f"public_wrapper.{name}": value for name, value in network.wrapper_probabilities(features).items()}
    named["native8.fvad"] = network.fvad_logits(features, native=True)
    named["hidden_states"] = torch.stack(network.hidden_states(features))
    return {name: value.numpy() for name, value in named.items()}


def audio_outputs(model: DualTurn, case: Recorded, prefix: str) -> dict[str, np.ndarray]:
    audio = case.arrays["mimi.pcm24k"].astype(np.float32) / 32768
    first, second = model.features([audio])[0].numpy().reshape(-1, 2, model.mimi.width).transpose(1, 0, 2)
    logits = model.frame_logits([audio])[0][None]
    return {f"{prefix}.feat_ch0": first, f"{prefix}.feat_ch1": second, f"{prefix}.cat256_fvad": logits}


@pytest.mark.parametrize(("name", "array"), golden_arrays())
def test_each_recorded_array_is_reproduced(cases, outputs, name, array):
    expected = cases[name].arrays[array]
    assert list(expected.shape) == cases[name].shapes[array]
    if array.startswith("mimi_feat_ch") or array.endswith(".pcm24k"):
        return  # what the networks are given
    np.testing.assert_allclose(outputs[name][array], expected, rtol=0, atol=TOLERANCE)


def test_the_legacy_name_of_the_head_gives_the_same_classes(cases, outputs, tmp_path):
    for name, case in cases.items():
        renamed = {key.replace("fvad_head_256.", "vap_head_256.net."): value for key, value in case.weights.items()}
        model = loaded(case, published(renamed, tmp_path / f"{name}.pt"))
        logits = model.network.fvad_logits(channels(case)).numpy()
        np.testing.assert_array_equal(logits, outputs[name]["cat256.fvad"])


def test_dualturns_own_folder_gives_the_recorded_native_bits(cases, tmp_path):
    for name, case in cases.items():
        model = loaded(case, native_layout(case.weights, tmp_path / name))
        expected = case.arrays["native8.fvad"]
        logits = model.network.fvad_logits(channels(case), native=True).numpy()
        np.testing.assert_allclose(logits, expected, rtol=0, atol=TOLERANCE)


def test_without_layer_weights_every_head_reads_the_last_hidden_state(cases, tmp_path):
    for name, case in cases.items():
        bare = {key: value for key, value in case.weights.items() if not key.startswith("task_layer_weights.")}
        model = loaded(case, published(bare, tmp_path / f"{name}.pt"))
        logits = model.network.all_logits(channels(case), native=True)
        for task, value in logits.items():
            expected = case.arrays[f"public_wrapper.{task}_probs"]
            np.testing.assert_allclose(value.sigmoid().numpy(), expected, rtol=0, atol=TOLERANCE)
