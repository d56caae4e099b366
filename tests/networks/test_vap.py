"""VAP is causal, does not depend on the batch, and streams dialogues of any length exactly."""

import numpy as np
import pytest
import torch

from spear_ray.errors import AudioChannels, AudioTooShort
from spear_ray.networks import vap_layers
from spear_ray.networks.cpc import HOP, REACH
from spear_ray.networks.vap_layers import slopes

from .tiny_vap import noise, tiny


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(vap_layers, "QUERY_BLOCK", 64)


@pytest.mark.parametrize("recurrence", ["LSTM", "GRU"])
@pytest.mark.parametrize(("kernel", "stride"), [(5, 2), (5, 5), (10, 10), (20, 20)])
@pytest.mark.parametrize("window_s", [1, 2.5, 7])
def test_streaming_equals_one_pass(recurrence, kernel, stride, window_s):
    model = tiny(recurrence=recurrence, levels=2, kernel=kernel, stride=stride)
    audio = noise(9.37)
    streamed = model.stream(audio.numpy(), round(window_s * 16_000))
    np.testing.assert_allclose(streamed.numpy(), model(audio[None]).logits[0].numpy(), atol=1e-5)


def test_what_is_left_out_of_a_long_dialogues_attention_weighs_nothing(monkeypatch):
    model, audio = tiny(heads=2), noise(60).numpy()
    near = model.stream(audio)
    monkeypatch.setattr(vap_layers, "_reach", lambda q, k, rate, scale: q.shape[1])
    np.testing.assert_allclose(near.numpy(), model.stream(audio).numpy(), atol=1e-5)


def test_reach_is_shorter_than_a_long_dialogue_and_bounds_what_is_left_out():
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 20_000, 8, generator=generator) for _ in range(2))
    rate, scale = 0.0625, 0.25
    reach = vap_layers._reach(q, k, rate, scale)
    assert reach < 5_000
    scores = (q[0, -1] @ k[0].T) * scale + rate * (torch.arange(20_000) - 19_999)
    weights = torch.softmax(scores.double(), -1)
    assert weights[: 20_000 - reach].sum() < vap_layers.NEGLIGIBLE


def test_sound_that_comes_later_changes_nothing_before():
    model, audio = tiny(), noise(6, batch=1)
    changed = audio.clone()
    changed[..., 64_000:] = 0.7
    before, after = model(audio).logits[0], model(changed).logits[0]
    np.testing.assert_allclose(before[:198].numpy(), after[:198].numpy(), atol=1e-5)
    assert (before[205:] - after[205:]).abs().max() > 1e-3


def test_a_padded_batch_gives_each_dialogues_own_logits():
    model, long, short = tiny(), noise(5), noise(3, seed=1)
    padded = torch.zeros(2, 2, long.shape[1])
    padded[0], padded[1, :, : short.shape[1]] = long, short
    together = model(padded).logits
    frames = model(short[None]).logits.shape[1]
    np.testing.assert_allclose(together[1, : frames - 1].numpy(), model(short[None]).logits[0, :-1].numpy(), atol=1e-5)
    np.testing.assert_allclose(together[0].numpy(), model(long[None]).logits[0].numpy(), atol=1e-5)


def test_attention_never_holds_frames_by_frames(monkeypatch):
    sizes, plain = [], torch.nn.functional.scaled_dot_product_attention

    def watched(q, k, v, **words):
        sizes.append(q.shape[-2])
        return plain(q, k, v, **words)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)
    assert len(tiny().stream(noise(30).numpy())) == 1500
    assert max(sizes) == 64


def test_encoding_holds_a_window_at_a_time(monkeypatch):
    model, longest = tiny(), []
    encode = model.encoder.encoder.gEncoder.forward
    monkeypatch.setattr(
        model.encoder.encoder.gEncoder, "forward", lambda part: (longest.append(part.shape[1]), encode(part))[1]
    )
    model.stream(noise(30).numpy(), 32_000)
    assert max(longest) <= 32_000 + 2 * REACH * HOP


def test_both_channels_are_treated_alike():
    model, audio = tiny(), noise(4, batch=1)
    out, swapped = model(audio), model(audio.flip(1))
    np.testing.assert_allclose(out.x1.numpy(), swapped.x2.numpy(), atol=1e-6)
    np.testing.assert_allclose(out.vad_logits.numpy(), swapped.vad_logits.flip(-1).numpy(), atol=1e-5)


@pytest.mark.parametrize("samples", [0, 1, 159])
def test_audio_without_a_frame_is_too_short(samples):
    with pytest.raises(AudioTooShort, match="160"):
        tiny().stream(np.zeros((2, samples), np.float32))


def test_one_channel_is_refused():
    with pytest.raises(AudioChannels, match=r"\[2, samples\]"):
        tiny().stream(np.zeros((1, 16_000), np.float32))


def test_slopes_fall_by_powers_of_two():
    assert slopes(4) == [0.25, 0.0625, 0.015625, 0.00390625]
