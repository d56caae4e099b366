"""The heads on published encoders, compared with what the published code gave on small random weights."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import Wav2Vec2Config

from spear_ray.networks.log_mel import LogMel
from spear_ray.networks.profile_checkpoint import profile_of
from spear_ray.networks.profile_heads import true_mean
from spear_ray.networks.regression import audeering_of
from spear_ray.networks.waves import normalised
from spear_ray.networks.whisper_profile import own_frames
from tests.golden_cases import folder, recordings

TOLERANCE = 1e-4
ROOM = "06_voxprofile"
DIMENSIONS = ("arousal", "valence", "dominance")
WHISPER = recordings(ROOM, "whisper*_cases*.json")
WAVES = recordings(ROOM, "wavlm*_cases*.json")
HEADS = recordings(ROOM, "heads*_cases*.json")


def each_case(records: list[Any]) -> Any:
    """A (case, arrays) parameter for each case."""
    pairs = [(case, arrays) for content, arrays, _ in records for case in content["cases"]]
    return pytest.mark.parametrize(("case", "signals"), pairs, ids=[case["name"] for case, _ in pairs])


def each_record(records: list[Any]) -> Any:
    """A (cases, arrays) parameter for each file."""
    pairs = [(content, arrays) for content, arrays, _ in records]
    return pytest.mark.parametrize(("content", "signals"), pairs, ids=[f"file{place}" for place in range(len(pairs))])


def model(case: dict[str, Any]) -> Any:
    weights = load_file(folder(ROOM) / case.get("weights", f"{case['name']}.safetensors"))
    return profile_of(weights, case["name"], **case["backbone_config"])


def as_float(samples: Any) -> Any:
    """int16 to [-1, 1)."""
    return samples.astype(np.float32) / 32768 if samples.dtype.kind == "i" else samples


def clips(signals: Any) -> dict[int, Any]:
    """The single clips by their number."""
    return {int(key.split(".")[1]): as_float(signals[key]) for key in signals.files if key.startswith("pcm.")}


def rows(signals: Any) -> list[Any]:
    """The clips of the recorded batch without their padding."""
    return [row[:n] for row, n in zip(as_float(signals["batch_pcm"]), signals["batch_lengths"], strict=True)]


def fifteen_seconds(clip: Any) -> torch.Tensor:
    return torch.from_numpy(np.pad(clip, (0, 240_000))[:240_000])[None]


def assert_same(found: Any, signals: Any, prefix: str, outputs: list[str], row: int = 0) -> None:
    checked = [name for name in outputs if name in found]
    assert checked
    for name in checked:
        np.testing.assert_allclose(found[name], signals[f"{prefix}.{name}"][row], atol=TOLERANCE, err_msg=name)


@each_case(WHISPER)
def test_a_whisper_model_gives_the_published_outputs_for_each_clip(case: dict[str, Any], signals: Any) -> None:
    ours = model(case)
    for place, clip in clips(signals).items():
        assert_same(ours.read([clip])[0], signals, f"{case['name']}.single{place}", case["outputs"])


@each_case(WHISPER)
def test_a_whisper_model_gives_the_published_outputs_for_a_batch(case: dict[str, Any], signals: Any) -> None:
    for row, outputs in enumerate(model(case).encode(rows(signals))):
        assert_same(outputs, signals, f"{case['name']}.batch", case["outputs"], row)


@each_record(WHISPER)
def test_the_encoder_gives_the_published_frames(content: Any, signals: Any) -> None:
    recorded = [key for key in signals.files if key.endswith(".encoder_last")]
    assert recorded
    for key in recorded:
        name, single, _ = key.split(".")
        ours = model(next(case for case in content["cases"] if case["name"] == name))
        mels = ours.log_mel(fifteen_seconds(clips(signals)[int(single.removeprefix("single"))]))
        frames = ours.encoder(mels).last_hidden_state.numpy()
        np.testing.assert_allclose(frames[:, : signals[key].shape[1]], signals[key], atol=TOLERANCE)


@each_record(WHISPER)
def test_log_mel_is_that_of_the_published_feature_extractor(content: Any, signals: Any) -> None:
    log_mel = LogMel(content["cases"][0]["feature_extractor"]["n_mels"])
    for place, clip in clips(signals).items():
        mels = log_mel(fifteen_seconds(clip))[0].numpy()
        assert mels.sum() == pytest.approx(signals[f"logmel.single{place}.sum"].item(), rel=1e-5)
        first = f"logmel.single{place}_first320"
        if first in signals.files:
            np.testing.assert_allclose(mels[:, :320], signals[first], atol=TOLERANCE)


@each_record(WHISPER)
def test_three_second_windows_give_the_published_vectors_and_dimensions(content: Any, signals: Any) -> None:
    windows = list(as_float(signals["trace.windows"]))
    matching = []
    for case in content["cases"]:
        found = model(case).encode_windows(windows)
        vectors = np.stack([one["vector"] for one in found])
        if (
            vectors.shape == signals["trace.pooled_vec"].shape
            and np.abs(vectors - signals["trace.pooled_vec"]).max() < 1e-4
        ):
            matching.append(case["name"])
            for name in DIMENSIONS:
                values = np.concatenate([one[name] for one in found])
                np.testing.assert_allclose(values, signals[f"trace.{name}"], atol=TOLERANCE)
    assert matching, "no model gives the recorded vectors"


@each_record(WHISPER)
def test_frames_of_a_clip_are_counted_as_published(content: Any, signals: Any) -> None:
    samples, frames = signals["lengths.in"], np.minimum(signals["lengths.out"], 750)
    heard = frames > 0
    assert heard.any()
    assert [own_frames(count) for count in samples[heard].tolist()] == frames[heard].tolist()


@each_record(WHISPER)
def test_the_head_alone_gives_the_published_pooling_and_logits(content: Any, signals: Any) -> None:
    frames, lengths = torch.from_numpy(signals["head.x"]), torch.from_numpy(signals["head.lengths"])
    results = []
    for case in content["cases"]:
        head = model(case).head
        convolved = head.model_seq(frames.transpose(1, 2)).transpose(1, 2).numpy()
        if np.abs(convolved - signals["head.conv"]).max() < TOLERANCE:
            results.append(head(frames, lengths))
    assert results, "no model has the recorded convolutions"
    for found in results:
        np.testing.assert_allclose(found["features"].numpy(), signals["head.pooled"], atol=TOLERANCE)
        np.testing.assert_allclose(found["logits"].numpy(), signals["head.logits"], atol=TOLERANCE)


@each_case(WAVES)
def test_a_wave_model_gives_the_published_outputs_for_each_clip(case: dict[str, Any], signals: Any) -> None:
    ours = model(case)
    for place, clip in clips(signals).items():
        assert_same(ours.read([clip])[0], signals, f"{case['name']}.single{place}", case["outputs"])


@each_case(WAVES)
def test_a_wave_model_hears_a_batch_as_the_published_code_hears_its_clips_alone(
    case: dict[str, Any], signals: Any
) -> None:
    # The published batch normalises each row over its padding too; its rows alone are the clean definition.
    for row, outputs in enumerate(model(case).encode(rows(signals))):
        assert_same(outputs, signals, f"{case['name']}.unpadded{row}", case["outputs"])


@each_record(HEADS)
def test_audeerings_model_gives_the_published_logits(content: Any, signals: Any) -> None:
    case = content["audeering"]
    tensors = load_file(folder(ROOM) / case["weights"])
    ours = audeering_of(tensors, Wav2Vec2Config(**case["config"]).to_dict(), case["weights"])
    found = ours.encode([as_float(signals["audeering.pcm"])])[0]
    np.testing.assert_allclose(found["features"], signals["audeering.hidden"][0], atol=TOLERANCE)
    order = [found[name][0] for name in ("arousal", "dominance", "valence")]
    np.testing.assert_allclose(order, signals["audeering.logits"][0], atol=TOLERANCE)
    head = ours.classify(torch.from_numpy(signals["audeering.head_x"])).numpy()
    np.testing.assert_allclose(head, signals["audeering.head_y"], atol=TOLERANCE)


def test_the_published_full_size_has_no_tensor_that_we_do_not_know() -> None:
    for path in sorted(folder(ROOM).glob("full_size_whisper*.json")):
        for name, shapes in json.loads(path.read_text()).items():
            with torch.device("meta"):
                ours = profile_of({key: torch.empty(shape) for key, shape in shapes.items()}, name)
            layers = {key.split(".")[3] for key in shapes if ".layers." in key}
            assert ours.encoder.config.encoder_layers == len(layers)


def test_a_mean_over_true_frames_leaves_padding_out() -> None:
    frames = torch.tensor([[[1.0], [3.0], [100.0]]])
    assert true_mean(frames, torch.tensor([2])).item() == 2.0


def test_normalised_clips_do_not_depend_on_their_padding() -> None:
    generator = np.random.default_rng(5)
    short, long = (generator.normal(3, 2, n).astype(np.float32) for n in (4000, 9000))
    alone = normalised([short], None, torch.device("cpu")).values[0]
    both = normalised([short, long], None, torch.device("cpu")).values[0]
    np.testing.assert_allclose(both[:4000].numpy(), alone.numpy(), atol=1e-6)
    assert abs(float(alone.mean())) < 1e-5
    assert float(alone.std()) == pytest.approx(1.0, abs=1e-3)
