"""Language identifiers: MMS-LID's format and Whisper's own tokens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForAudioClassification, Wav2Vec2FeatureExtractor, WhisperForConditionalGeneration

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.language import ClassifiedLanguage, WhisperLanguage, load_language
from tests import tiny_checkpoints as tiny
from tests.clips import speech

FETCH = "fetch it"
CLIPS = [speech(seconds) for seconds in (0.3, 1.0, 4.5, 29.0)]


@pytest.fixture(scope="module")
def mms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.mms_lid(tmp_path_factory.mktemp("mms"))


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.whisper_lid(tmp_path_factory.mktemp("whisper"))


@pytest.fixture
def copied(mms: Path, tmp_path: Path) -> Path:
    return shutil.copytree(mms, tmp_path / "copy")


def test_mms_gives_what_transformers_own_front_end_and_model_give(mms):
    ours = load_language(mms, FETCH)
    assert isinstance(ours, ClassifiedLanguage)
    assert ours.labels == ("eng", "deu", "cmn")
    theirs = AutoModelForAudioClassification.from_pretrained(mms).eval()
    extractor = Wav2Vec2FeatureExtractor(do_normalize=True)
    for clip, found in zip(CLIPS, ours.read(CLIPS), strict=True):
        with torch.inference_mode():
            inputs = extractor(clip, sampling_rate=16_000, return_tensors="pt")
            expected = theirs(inputs.input_values).logits.softmax(-1)[0].numpy()
        np.testing.assert_allclose(found["probabilities"], expected, atol=1e-4)


def test_whisper_says_what_its_own_generation_detects(whisper):
    ours = load_language(whisper, FETCH)
    assert isinstance(ours, WhisperLanguage)
    assert set(ours.labels) == {"en", "de", "zh"}
    assert ours.longest_s == 30.0
    theirs = WhisperForConditionalGeneration.from_pretrained(whisper).eval()
    # transformers keeps keys of a generation_config.json that it does not know only in its own hub models
    theirs.generation_config.lang_to_id = json.loads((whisper / "generation_config.json").read_text())["lang_to_id"]
    for clip, found in zip(CLIPS, ours.read(CLIPS), strict=True):
        mels = ours.log_mel(torch.from_numpy(np.pad(clip, (0, 480_000))[:480_000])[None])
        with torch.inference_mode():
            token = int(theirs.detect_language(input_features=mels)[0])
        assert found["probabilities"].sum() == pytest.approx(1.0, abs=1e-5)
        best = ours.labels[int(found["probabilities"].argmax())]
        assert token == theirs.generation_config.lang_to_id[f"<|{best}|>"]


@pytest.mark.parametrize("kind", ["mms", "whisper"])
def test_a_clip_in_a_batch_gives_what_it_gives_alone(kind, request):
    model = load_language(request.getfixturevalue(kind), FETCH)
    with torch.inference_mode():
        together = model.encode(CLIPS)
    for clip, outputs in zip(CLIPS, together, strict=True):
        np.testing.assert_allclose(outputs["probabilities"], model.read([clip])[0]["probabilities"], atol=1e-4)


@pytest.mark.parametrize("kind", ["mms", "whisper"])
def test_bf16_moves_a_probability_by_less_than_its_stated_tolerance(kind, request):
    folder = request.getfixturevalue(kind)
    exact, half = load_language(folder, FETCH), load_language(folder, FETCH)
    half.precision = "bf16"
    for one, other in zip(exact.read(CLIPS), half.read(CLIPS), strict=True):
        assert np.abs(one["probabilities"] - other["probabilities"]).max() < 0.05


def test_a_head_that_is_missing_is_refused_and_never_made_up(copied):
    tensors = load_file(copied / "model.safetensors")
    kept = {key: value for key, value in tensors.items() if not key.startswith("classifier.")}
    save_file(kept, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PrerequisiteError, match=r"lacks classifier\.bias, classifier\.weight"):
        load_language(copied, FETCH)


def test_a_tensor_that_is_not_known_is_refused(copied):
    tensors = load_file(copied / "model.safetensors") | {"surprise": torch.zeros(3)}
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PrerequisiteError, match="has unknown surprise"):
        load_language(copied, FETCH)


def test_a_head_of_another_size_is_refused(copied):
    tensors = load_file(copied / "model.safetensors")
    tensors["classifier.bias"] = torch.zeros(5)
    save_file(tensors, copied / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(PrerequisiteError):
        load_language(copied, FETCH)


def test_labels_without_names_are_refused(copied):
    config = json.loads((copied / "config.json").read_text())
    names = {str(place): f"LABEL_{place}" for place in range(3)}
    (copied / "config.json").write_text(json.dumps(config | {"id2label": names}))
    with pytest.raises(PrerequisiteError, match="names no languages"):
        load_language(copied, FETCH)


def test_code_in_a_checkpoint_is_never_run(copied):
    (copied / "evil.py").write_text("raise SystemExit('ran')\n")
    config = json.loads((copied / "config.json").read_text())
    config |= {
        "model_type": "evil",
        "auto_map": {"AutoModelForAudioClassification": "evil.Evil", "AutoConfig": "evil.E"},
    }
    (copied / "config.json").write_text(json.dumps(config))
    with pytest.raises(PrerequisiteError, match="cannot be loaded"):
        load_language(copied, FETCH)


def test_pickled_weights_are_not_read(copied):
    (copied / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1)}, copied / "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match="cannot be loaded"):
        load_language(copied, FETCH)


def test_an_english_only_whisper_tells_no_languages(whisper, tmp_path):
    folder = shutil.copytree(whisper, tmp_path / "en")
    generation = json.loads((folder / "generation_config.json").read_text())
    generation.pop("lang_to_id")
    (folder / "generation_config.json").write_text(json.dumps(generation))
    with pytest.raises(PrerequisiteError, match="English-only"):
        load_language(folder, FETCH)


def test_nothing_there_names_the_command(tmp_path):
    with pytest.raises(CheckpointMissing, match="fetch it"):
        load_language(tmp_path, FETCH)
