"""`make gpu-check`: the networks at their published sizes on a CUDA device, with random weights."""

import numpy as np
import pytest
import torch
from speed_turns import AUDIO_S, full_dualturn, full_vap, report, sound

pytestmark = pytest.mark.gpu

VAP_TOLERANCE = 2e-3
"""Of logits that spread by about 1: CUDA's convolutions may use TF32."""

DUALTURN_TOLERANCE = 5e-3
BF16_SPREAD = 0.05
"""bfloat16 moves logits by at most so much of their standard deviation on average."""


@pytest.fixture(autouse=True)
def cuda():
    assert torch.cuda.is_available(), "make gpu-check needs a CUDA device"


def test_vap_gives_the_cpus_logits():
    model, audio = full_vap(), sound(16_000)
    expected = model.stream(audio).numpy()
    found = model.to("cuda").stream(audio).cpu().numpy()
    np.testing.assert_allclose(found, expected, atol=VAP_TOLERANCE)
    report("vap", torch.cuda.get_device_name(), lambda: model.stream(audio).cpu(), AUDIO_S)


def test_half_an_hour_streams_through_vap():
    model, audio = full_vap().to("cuda"), sound(16_000, 1800.0)
    torch.cuda.reset_peak_memory_stats()
    assert model.stream(audio).shape == (90_000, 256)
    print(f"vap: 30 minutes, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB at most")
    report("vap, 30 minutes", torch.cuda.get_device_name(), lambda: model.stream(audio).cpu(), 1800.0)


def test_dualturn_gives_the_cpus_logits_and_bf16_is_near():
    model, audio = full_dualturn(), [sound(24_000), sound(24_000, 15.0, seed=1)]
    expected = model.frame_logits(audio)
    model = model.to("cuda")
    exact, half = model.frame_logits(audio, bf16=False), model.frame_logits(audio, bf16=True)
    for one, other, rough in zip(expected, exact, half, strict=True):
        np.testing.assert_allclose(other, one, atol=DUALTURN_TOLERANCE)
        assert np.abs(rough - one).mean() < BF16_SPREAD * one.std()
        print(f"dualturn: bf16 moves logits by {np.abs(rough - one).mean() / one.std():.4f} standard deviations")


@pytest.mark.parametrize("batch", [1, 16])
def test_dualturn_speed(batch):
    model = full_dualturn().to("cuda")
    audio = [sound(24_000, seed=seed) for seed in range(batch)]
    where = f"{torch.cuda.get_device_name()}, bf16, batch of {batch}"
    report("dualturn", where, lambda: model.frame_logits(audio), AUDIO_S * batch)
