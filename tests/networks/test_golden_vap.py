"""VAP against what the published code recorded: every case, whatever their names and sizes."""

import json
import os
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spear_ray.networks.vap import FUTURE, NOW, Vap, codebook, entropy_bits, first_side_share
from spear_ray.networks.vap_checkpoint import load_vap
from spear_ray.networks.vap_layers import VapSizes
from spear_ray.turntaking.labels import NO_LABEL, categorical_nll, vap_classes

ROOT = Path(os.environ.get("SPEAR_GOLDEN_DIR") or Path(__file__).parent.parent / "golden") / "02_vap"
TOLERANCE = 1e-4
HALF_RESOLUTION = 2**-11
"""Relative: convolution outputs are stored as float16, rounded to 11 bits."""


@cache
def content(name: str):
    return json.loads((ROOT / name).read_text())


CASES = [pytest.param(case, id=case["name"]) for case in content("cases.json")["cases"]]


@cache
def model_of(name: str) -> Vap:
    (case,) = (one.values[0] for one in CASES if one.id == name)
    if (ROOT / case["weights"]).is_file():
        return load_vap(ROOT / case["weights"])
    config = case["config"]
    sizes = VapSizes(
        encoder_width=config["enc"],
        recurrence=config["mode"],
        levels=config["levels"],
        width=config["dim"],
        feed_forward=3 * config["dim"],
        heads=config["heads"],
        self_layers=config["self_layers"],
        cross_layers=config["cross_layers"],
    )
    model = Vap(sizes).eval()
    model.load_state_dict({key: by_formula(name, key, value) for key, value in model.state_dict().items()})
    return model


def by_formula(name: str, key: str, value: torch.Tensor) -> torch.Tensor:
    """The recorded cases' weights; see the README of the vectors."""
    if key.endswith(".m") or key.startswith("objective.codebook."):
        return value
    shape = tuple(value.shape)
    state = np.random.RandomState(zlib.crc32(f"{name}/{key}".encode()) & 0xFFFFFFFF)
    drawn = state.standard_normal(shape)
    if key.endswith("weight") and any(part in key for part in ("batchNorm", ".ln.", "ln_", "layer_norm")):
        drawn = 1 + 0.1 * drawn
    elif key.endswith("bias") or "bias_" in key:
        drawn = 0.1 * drawn
    elif len(shape) > 1:
        drawn = drawn / np.sqrt(np.prod(shape[1:]))
    return torch.from_numpy(drawn.astype(np.float32))


def audio_of(stored) -> torch.Tensor:
    return torch.from_numpy(stored["pcm16"].astype(np.float32) / 32768)


def outputs(model: Vap, audio: torch.Tensor) -> dict[str, torch.Tensor]:
    with torch.inference_mode():
        out = model(audio)
        convolved = model.encoder.encoder.gEncoder(audio[:, 0])
        recurrent, _ = model.encoder.encoder.gAR(convolved.transpose(1, 2))
    p = out.logits.softmax(-1)
    return {
        "cpc_conv_ch0": convolved,
        "cpc_ar_ch0": recurrent,
        "enc_ch0": model.encoder(audio[:, 0]).detach(),
        "enc_ch1": model.encoder(audio[:, 1]).detach(),
        **out._asdict(),
        "H_bits": entropy_bits(out.logits),
        "p_now": first_side_share(p, NOW),
        "p_future": first_side_share(p, FUTURE),
        "p_all": first_side_share(p, range(4)),
        "p_bins": torch.stack([first_side_share(p, [place]) for place in range(4)]),
    }


@pytest.mark.parametrize("case", CASES)
def test_every_recorded_output(case):
    stored = np.load(ROOT / f"{case['name']}.npz")
    found = outputs(model_of(case["name"]), audio_of(stored))
    compared = [name for name in stored.files if name in found]
    assert set(stored.files) - set(compared) <= {"pcm16", "vad_gt", "loss"}
    for name in compared:
        tolerance = HALF_RESOLUTION if stored[name].dtype == np.float16 else 0
        np.testing.assert_allclose(found[name].numpy(), stored[name], atol=TOLERANCE, rtol=tolerance, err_msg=name)
    assert found["logits"].shape == (case["batch"], case["n_frames"], 256)


@pytest.mark.parametrize("case", CASES)
def test_recorded_loss(case):
    stored = np.load(ROOT / f"{case['name']}.npz")
    if "loss" not in stored.files:
        pytest.skip("this case has no loss")
    logits = outputs(model_of(case["name"]), audio_of(stored))["logits"].numpy()
    for row, vad, loss in zip(logits, stored["vad_gt"], stored["loss"], strict=True):
        classes = vap_classes(vad.T.astype(bool), len(row), 50.0)
        nll = categorical_nll(row, classes)[classes != NO_LABEL]
        np.testing.assert_allclose(nll, loss, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_streaming_gives_the_recorded_logits(case):
    stored = np.load(ROOT / f"{case['name']}.npz")
    for audio, logits in zip(audio_of(stored), stored["logits"], strict=True):
        streamed = model_of(case["name"]).stream(audio.numpy(), 16_000)
        np.testing.assert_allclose(streamed.numpy(), logits, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_the_older_naming_gives_the_same_bits(case, tmp_path):
    model = model_of(case["name"])
    old = {key.removeprefix("transformer."): value for key, value in model.state_dict().items()}
    save_file({key: value.contiguous().clone() for key, value in old.items()}, tmp_path / "old.safetensors")
    stored = np.load(ROOT / f"{case['name']}.npz")
    audio = audio_of(stored)
    assert torch.equal(load_vap(tmp_path / "old.safetensors")(audio).logits, model(audio).logits)


def test_recorded_weights_are_used_to_the_last_tensor():
    for case in (one.values[0] for one in CASES):
        if (ROOT / case["weights"]).is_file():
            tensors = load_file(ROOT / case["weights"])
            assert tensors.keys() == model_of(case["name"]).state_dict().keys()


@pytest.mark.parametrize("naming", content("full_size_state_dict_keys.json"))
def test_full_size_names_and_shapes(naming):
    wanted = {key: tuple(shape) for key, shape in content("full_size_state_dict_keys.json")[naming].items()}
    gates = wanted["encoder.encoder.gAR.baseNet.weight_ih_l0"]
    width = wanted["vap_head.weight"][1]
    sizes = VapSizes(
        encoder_width=gates[1],
        recurrence="LSTM" if gates[0] == 4 * gates[1] else "GRU",
        width=width,
        feed_forward=3 * width,
    )
    ours = {key: tuple(value.shape) for key, value in Vap(sizes).state_dict().items()}
    if not any(key.startswith("transformer.") for key in wanted):
        ours = {key.removeprefix("transformer."): shape for key, shape in ours.items()}
    assert ours == wanted


def test_frame_counts():
    model = Vap(VapSizes(encoder_width=4, width=4, feed_forward=4, heads=2)).eval()
    with torch.inference_mode():
        for samples, cpc, frames in content("frame_counts.json")["rows"]:
            audio = torch.zeros(1, samples)
            assert model.encoder.encoder.gEncoder(audio).shape[2] == cpc
            assert model.encoder(audio).shape[1] == frames
            assert sum(piece.shape[1] for piece in model.encoder.windows(audio, 16_000)) == frames


def test_shares_of_recorded_probabilities():
    stored = np.load(ROOT / "codebook_probs.npz")
    p = torch.from_numpy(stored["probs"])
    np.testing.assert_array_equal(codebook().numpy(), stored["codebook"])
    scaled = first_side_share(p, range(4), [10.0, 20.0, 30.0, 40.0])
    shares = {
        "p_now": first_side_share(p, NOW),
        "p_future": first_side_share(p, FUTURE),
        "p_all": first_side_share(p, range(4)),
    }
    for name, share in (shares | {"p_all_scaled": scaled}).items():
        np.testing.assert_allclose(share.numpy(), stored[name], atol=1e-6)
