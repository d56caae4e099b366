"""`make gpu-check`: the networks at their published sizes on a CUDA device, with random weights."""

import numpy as np
import pytest
import torch
from speed_encoders import exchanges, hours_per_hour, languages, scorer, whisper
from speed_turns import AUDIO_S, full_dualturn, full_vap, report, sound

from spear_ray.dialogue import Status
from tests.clips import speech

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


ENCODER_TOLERANCE = 5e-3
"""Of probabilities and dimensions in float32: CUDA may use TF32 in convolutions."""
BF16_TOLERANCE = 0.05
"""What scorer.*.precision=bf16 states."""


@pytest.mark.parametrize("name", ["dimensions", "languages"])
def test_encoders_give_the_cpus_outputs_and_bf16_is_within_its_stated_tolerance(name):
    sizes = {"arousal_layer": 1, "valence_layer": 1, "dominance_layer": 1}
    model = whisper(True, sizes) if name == "dimensions" else languages(True)
    keys = ("arousal", "valence", "dominance") if name == "dimensions" else ("probabilities",)
    clips = [speech(seconds) for seconds in (1.0, 3.7, 14.0)]
    expected = model.read(clips)
    results = {}
    for precision in ("fp32", "bf16"):
        model = model.to("cuda")
        model.precision = precision
        model._memo._known.clear()
        results[precision] = model.read(clips)
    for precision, tolerance in (("fp32", ENCODER_TOLERANCE), ("bf16", BF16_TOLERANCE)):
        moved = max(
            float(np.abs(one[key] - other[key]).max())
            for one, other in zip(expected, results[precision], strict=True)
            for key in keys
        )
        print(f"{name}: {precision} on the GPU moves outputs by at most {moved:.5f}")
        assert moved < tolerance


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["emotion", "dialect"])
def test_audio_hours_per_gpu_hour(name, precision):
    speed = hours_per_hour(scorer(name, full=True, precision=precision), exchanges(64))
    where = f"{torch.cuda.get_device_name()}, {precision}, published size, random weights"
    print(f"{name}: {speed:.0f} audio-hours per GPU-hour ({where})")


def test_a_batch_that_does_not_fit_the_gpu_is_halved_and_no_row_is_lost():
    made = scorer("emotion", full=True, precision="bf16")
    batch = exchanges(24)
    expected = made.score(batch)
    held = torch.cuda.memory_allocated() + (1 << 30)
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(held / torch.cuda.get_device_properties(0).total_memory)
    try:
        made._model._memo._known.clear()
        rows = made.score(batch)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [row.status for row in rows] == [Status.OK] * len(batch)
    for row, before in zip(rows, expected, strict=True):
        assert row.metrics["answer_arousal"] == pytest.approx(before.metrics["answer_arousal"], abs=BF16_TOLERANCE)


def test_judge_at_its_published_size(tmp_path):
    """Requests and audio-hours per GPU-hour of Qwen2.5-Omni-7B's architecture, weights made up by the engine."""
    pytest.importorskip("vllm", reason="pip install '.[vllm]'")
    import speed_judge

    from spear_ray.judging import engines

    made = speed_judge.judges(tmp_path / "omni", full=True)
    try:
        made["wavreward"].score(speed_judge.exchanges(8, 12.0, seed=9))
        where = f"{torch.cuda.get_device_name()}, bf16, 25 s of audio each, random weights"
        rows, hours = speed_judge.throughput(made["wavreward"], speed_judge.exchanges(256, 12.0, seed=1))
        print(f"wavreward: {rows:.1f} requests/s, {hours:.0f} audio-hours per GPU-hour ({where})")
        rows, hours = speed_judge.throughput(made["stance"], speed_judge.exchanges(64, 12.0, seed=2))
        print(f"stance: {20 * rows:.1f} requests/s, {hours:.0f} audio-hours per GPU-hour ({where})")
    finally:
        made["wavreward"]._engine.close()
        engines._held.clear()
