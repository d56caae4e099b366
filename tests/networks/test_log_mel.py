import numpy as np
import pytest
import torch
from transformers import WhisperFeatureExtractor

from spear_ray.networks.log_mel import LogMel
from tests.clips import speech


@pytest.mark.parametrize("mels", [80, 128])
@pytest.mark.parametrize("seconds", [0.3, 4.0, 15.0])
def test_log_mel_is_that_of_transformers(mels, seconds):
    extractor = WhisperFeatureExtractor(feature_size=mels, chunk_length=15)
    clip = speech(seconds)
    expected = extractor(clip, sampling_rate=16_000, return_tensors="np").input_features[0]
    found = LogMel(mels)(torch.from_numpy(np.pad(clip, (0, 240_000))[:240_000])[None])[0].numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_each_clip_is_scaled_by_its_own_maximum():
    pair = torch.from_numpy(np.stack([speech(2.0), 0.01 * speech(2.0, voice=1)]))
    together, alone = LogMel(80)(pair), [LogMel(80)(one[None])[0] for one in pair]
    for found, expected in zip(together, alone, strict=True):
        torch.testing.assert_close(found, expected)


def test_the_spectrogram_is_float32_also_where_the_encoder_runs_in_bf16():
    clip = torch.from_numpy(speech(2.0))[None]
    expected = LogMel(80)(clip)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(LogMel(80)(clip), expected)
