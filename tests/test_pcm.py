import io

import numpy as np
import soundfile

from spear_ray.pcm import on_16_bits, wav


def test_file_of_16_bit_samples_reads_back_exactly():
    samples = on_16_bits(np.random.default_rng(0).normal(0, 0.4, 5000).astype(np.float32))
    read, rate = soundfile.read(io.BytesIO(wav(samples)), dtype="float32")
    assert rate == 16_000
    np.testing.assert_array_equal(read, samples)


def test_nearest_step_is_taken_and_full_scale_is_the_end():
    samples = np.array([0.0, 0.6 / 32768, -0.6 / 32768, 1.0, -1.0, 7.0], dtype=np.float32)
    assert (on_16_bits(samples) * 32768).tolist() == [0, 1, -1, 32767, -32768, 32767]
