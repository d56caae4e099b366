import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import MimiConfig
from transformers.models.mimi.modeling_mimi import MimiTransformerModel

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks import mimi as module
from spear_ray.networks.mimi import load_mimi
from tests.networks.dualturn_cases import MIMI, config_folder, mimi_folder, noise, random_mimi

LENGTHS = [1, 959, 960, 961, 1919, 1920, 1921, 20_000, 30_001]


def audio(samples: int, rows: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(noise(rows, samples, seed=seed))


@pytest.mark.parametrize("samples", LENGTHS)
def test_a_frame_begins_every_80_ms(samples):
    features = random_mimi()(audio(samples))
    assert features.shape == (2, -(-samples // 1920), MIMI["hidden_size"])


@pytest.mark.parametrize("sliding_window", [True, False])
def test_each_dialogue_of_a_batch_is_what_it_is_alone(sliding_window):
    mimi = random_mimi(sliding_window=sliding_window)
    batch = [audio(samples, seed=samples) for samples in LENGTHS]
    for one, features in zip(batch, mimi.features(batch), strict=True):
        torch.testing.assert_close(features, mimi(one), rtol=0, atol=1e-5)


@pytest.mark.parametrize("samples", [1, 2880, 2881, 30_001])
def test_convolutions_in_blocks_give_what_one_block_gives(monkeypatch, samples):
    mimi = random_mimi()
    whole = mimi(audio(samples))
    monkeypatch.setattr(module, "_BLOCK_FRAMES", 3)
    torch.testing.assert_close(mimi(audio(samples)), whole, rtol=0, atol=1e-6)


def test_convolutions_in_blocks_never_see_more_than_a_block_and_its_context(monkeypatch):
    mimi = random_mimi()
    monkeypatch.setattr(module, "_BLOCK_FRAMES", 3)
    seen = []
    mimi.encoder.register_forward_pre_hook(lambda _, given: seen.append(given[0].shape[-1]))
    mimi(audio(100_000))
    assert sum(seen) >= 100_000
    assert max(seen) <= (3 + mimi._context) * 960 < 10_000


@pytest.mark.parametrize("frames", [1, 5, 6, 7, 12, 13, 50])
@pytest.mark.parametrize("window", [1, 2, 6, 50])
def test_windowed_attention_is_that_of_a_mask_of_all_frames(frames, window):
    torch.manual_seed(0)
    query = torch.randn(2, 4, frames, 8)
    key, value = torch.randn(2, 2, 2, frames, 8)
    found, _ = module._causal_window(mimi_layer(), query, key, value, None, scaling=0.3, sliding_window=window)
    age = torch.arange(frames)[:, None] - torch.arange(frames)
    scores = 0.3 * query @ key.repeat_interleave(2, 1).transpose(2, 3)
    weights = scores.masked_fill((age < 0) | (age >= window), -torch.inf).softmax(-1)
    expected = (weights @ value.repeat_interleave(2, 1)).transpose(1, 2)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def mimi_layer() -> torch.nn.Module:
    return random_mimi().encoder_transformer.layers[0].self_attn


@pytest.mark.parametrize("sliding_window", [True, False])
def test_the_transformer_gives_what_transformers_own_masks_give(sliding_window):
    ours = random_mimi(sliding_window=sliding_window).encoder_transformer
    config = MimiConfig.from_dict(MIMI if sliding_window else MIMI | {"sliding_window": 10_000})
    config._attn_implementation = "sdpa"
    theirs = MimiTransformerModel(config).eval()
    theirs.load_state_dict(ours.state_dict())
    frames = torch.randn(2, 40, MIMI["hidden_size"])
    with torch.inference_mode():
        expected, found = (part(frames, use_cache=False).last_hidden_state for part in (theirs, ours))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_attention_within_a_window_never_reaches_over_more_than_two_windows(monkeypatch):
    plain, reached = module.scaled_dot_product_attention, []

    def watched(query, key, value, **options):
        reached.append(key.shape[-2])
        return plain(query, key, value, **options)

    monkeypatch.setattr(module, "scaled_dot_product_attention", watched)
    random_mimi()(audio(100_000))
    assert max(reached) == 2 * MIMI["sliding_window"]


def test_the_window_switch_matters_only_after_the_window():
    windowed, whole = (random_mimi(sliding_window=switch)(audio(30_000)) for switch in (True, False))
    within = MIMI["sliding_window"] // 2
    torch.testing.assert_close(windowed[:, :within], whole[:, :within], rtol=0, atol=1e-5)
    assert (windowed[:, within:] - whole[:, within:]).abs().max() > 1e-3


@pytest.mark.parametrize("sliding_window", [True, False])
def test_a_published_folder_gives_the_features_of_its_weights(tmp_path, sliding_window):
    mimi = random_mimi(seed=3, sliding_window=sliding_window)
    found = load_mimi(mimi_folder(tmp_path, mimi), sliding_window)
    np.testing.assert_array_equal(found(audio(20_000)), mimi(audio(20_000)))


def test_a_folder_that_is_not_there_says_how_to_fetch_it(tmp_path):
    with pytest.raises(CheckpointMissing, match=r"nowhere/config\.json does not exist: hf download kyutai/mimi"):
        load_mimi(tmp_path / "nowhere")


def test_a_folder_without_weights_says_which_file_it_lacks(tmp_path):
    with pytest.raises(CheckpointMissing, match=r"model\.safetensors does not exist"):
        load_mimi(config_folder(tmp_path, MIMI))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "encodec"}, "model_type is 'encodec', must be 'mimi'"),
        ({"use_causal_conv": False}, "use_causal_conv is False, must be True"),
        ({"audio_channels": 2}, "audio_channels is 2, must be 1"),
        ({"sampling_rate": 48_000, "frame_rate": 25}, "sampling_rate is 48000, must be 24000"),
        ({"hidden_size": "wide"}, r"mimi/config\.json does not describe a Mimi: (.|\n)*'hidden_size'"),
    ],
)
def test_another_models_config_is_refused(tmp_path, changes, message):
    folder = config_folder(mimi_folder(tmp_path / "mimi"), MIMI | changes)
    with pytest.raises(PrerequisiteError, match=message):
        load_mimi(folder)


def test_a_config_that_is_not_json_is_refused(tmp_path):
    (mimi_folder(tmp_path) / "config.json").write_text("{")
    with pytest.raises(PrerequisiteError, match=r"config\.json is not JSON"):
        load_mimi(tmp_path)


def test_damaged_weights_are_refused(tmp_path):
    (mimi_folder(tmp_path) / "model.safetensors").write_bytes(b"\x00" * 100)
    with pytest.raises(PrerequisiteError, match="is not a whole safetensors file"):
        load_mimi(tmp_path)


def test_every_tensor_that_does_not_fit_is_named_with_the_file(tmp_path):
    path = mimi_folder(tmp_path) / "model.safetensors"
    weights = load_file(path)
    del weights["encoder.layers.0.conv.bias"]
    weights["downsample.conv.weight"] = weights["downsample.conv.weight"][:, :3].contiguous()
    save_file(weights | {"encoder.extra": torch.zeros(1)}, path)
    with pytest.raises(PrerequisiteError) as caught:
        load_mimi(tmp_path)
    message = str(caught.value)
    assert str(path) in message
    assert "lacks encoder.layers.0.conv.bias" in message
    assert "has unknown encoder.extra" in message
    assert "has a wrong shape for downsample.conv.weight (16, 3, 4) instead of (16, 16, 4)" in message
