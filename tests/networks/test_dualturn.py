import weakref

import numpy as np
import pytest
import torch
from transformers import Qwen2Config

from spear_ray.errors import AudioChannels, AudioEmpty, PrerequisiteError
from spear_ray.networks.dualturn import DualTurn
from spear_ray.networks.dualturn_network import CHANNEL_TASKS, TASKS, DualTurnNetwork, DualTurnParts
from tests.networks.dualturn_cases import QWEN, noise, random_mimi, random_network

LENGTHS = [60_000, 1, 1920, 30_001]


def dualturn(**parts) -> DualTurn:
    return DualTurn(random_mimi(), random_network(**parts))


def dialogues() -> list[np.ndarray]:
    return [noise(2, samples, seed=samples) for samples in LENGTHS]


def features(frames: int = 30) -> torch.Tensor:
    return torch.randn(2, frames, 32, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("native", "width"), [(False, 256), (True, 8)])
def test_each_dialogue_of_a_batch_is_what_it_is_alone(native, width):
    model = dualturn()
    batch = model.frame_logits(dialogues(), native)
    for audio, logits in zip(dialogues(), batch, strict=True):
        assert logits.dtype == np.float32
        assert logits.shape == (-(-audio.shape[1] // 1920), width)
        np.testing.assert_allclose(logits, model.frame_logits([audio], native)[0], rtol=0, atol=1e-5)


def test_a_frame_does_not_hear_what_comes_after_it():
    model, audio = dualturn(), noise(2, 40 * 1920)
    changed = audio.copy()
    changed[:, 20 * 1920 :] = 0
    before, after = (model.frame_logits([given])[0] for given in (audio, changed))
    np.testing.assert_allclose(after[:20], before[:20], rtol=0, atol=1e-6)
    assert np.abs(after[20:] - before[20:]).max() > 1e-3


def test_channels_are_told_apart():
    model, audio = dualturn(), noise(2, 20_000)
    as_given, swapped = (model.frame_logits([given])[0] for given in (audio, audio[::-1]))
    assert np.abs(as_given - swapped).max() > 1e-3


def test_no_dialogues_give_no_logits():
    assert dualturn().frame_logits([]) == []


def test_bfloat16_moves_logits_by_less_than_a_hundredth_of_their_spread_on_average():
    model = dualturn()
    exact, rounded = (np.concatenate(model.frame_logits(dialogues(), bf16=bf16)) for bf16 in (False, True))
    error = np.abs(rounded - exact)
    assert exact.dtype == rounded.dtype == np.float32
    assert 0 < error.mean() < 0.01 * exact.std()
    assert error.max() < 0.05 * exact.std()


def test_float32_is_the_default_on_a_cpu():
    model = dualturn()
    for default, exact in zip(
        model.frame_logits(dialogues()), model.frame_logits(dialogues(), bf16=False), strict=True
    ):
        np.testing.assert_array_equal(default, exact)


@pytest.mark.parametrize("shape", [(100,), (1, 100), (3, 100), (1, 2, 100)])
def test_anything_but_two_channels_is_refused(shape):
    with pytest.raises(AudioChannels, match=r"shape \[2, samples\], not"):
        dualturn().frame_logits([noise(*shape)])


def test_audio_without_samples_is_refused():
    with pytest.raises(AudioEmpty, match="at least one sample"):
        dualturn().frame_logits([noise(2, 100), noise(2, 0)])


def test_each_task_reads_its_own_weighted_sum_of_hidden_states():
    network = random_network()
    states = torch.stack(network.hidden_states(features()))
    logits = network.all_logits(features())
    for task in CHANNEL_TASKS:
        shares = network.task_layer_weights[task].detach().softmax(0)
        hidden = torch.einsum("l,lbth->bth", shares, states)
        heads = [network.get_submodule(f"{task}_head_ch{channel}") for channel in (0, 1)]
        expected = torch.cat([hidden @ head.weight.T + head.bias for head in heads], -1)
        torch.testing.assert_close(logits[task], expected, rtol=0, atol=1e-5)


def test_all_logits_agree_with_the_future_head_alone():
    network = random_network()
    for native in (False, True):
        logits = network.all_logits(features(), native)
        assert set(logits) == set(TASKS)
        torch.testing.assert_close(logits["fvad"], network.fvad_logits(features(), native), rtol=0, atol=1e-6)


def test_the_wrappers_probabilities_ignore_layer_weights():
    probabilities = random_network().wrapper_probabilities(features())
    plain = random_network(layer_weights=False)
    plain.load_state_dict(
        {key: value for key, value in random_network().state_dict().items() if not key.startswith("task_layer")}
    )
    for task, logits in plain.all_logits(features(), native=True).items():
        torch.testing.assert_close(probabilities[f"{task}_probs"], logits.sigmoid(), rtol=0, atol=1e-6)


def test_hidden_states_are_not_kept_for_the_future_head():
    network, refs, alive = random_network(), [], []
    plain = network.backbone.forward

    def watched(hidden):
        for state in plain(hidden):
            refs.append(weakref.ref(state))
            alive.append(sum(ref() is not None for ref in refs))
            yield state

    network.backbone.forward = watched
    network.fvad_logits(features())
    assert len(alive) == QWEN["num_hidden_layers"] + 1
    assert max(alive) <= 3  # the one that came before, and the last one beside its norm


def test_a_head_may_be_a_perceptron():
    network = random_network(head_widths={"eot": 20})
    first, last = network.eot_head_ch0[0], network.eot_head_ch0[3]
    assert first.weight.shape == (20, 32)
    assert last.weight.shape == (1, 20)
    assert network.all_logits(features())["eot"].shape == (2, 30, 2)


def test_without_its_head_256_classes_are_refused_by_the_checkpoints_name():
    model = dualturn(classes=False, source="native.safetensors")
    with pytest.raises(PrerequisiteError, match=r"native\.safetensors has no head of 256 classes"):
        model.frame_logits(dialogues())
    assert model.frame_logits(dialogues(), native=True)[0].shape[1] == 8


def test_a_backbone_with_sliding_windows_is_refused():
    config = Qwen2Config.from_dict(QWEN | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1})
    with pytest.raises(PrerequisiteError, match="use_sliding_window is true"):
        DualTurnNetwork(config, DualTurnParts(feature_width=16))
