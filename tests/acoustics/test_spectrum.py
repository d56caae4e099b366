import numpy as np
import pytest

from spear_ray.acoustics.pitch import pitch
from spear_ray.acoustics.spectrum import SILENCE_DB, band_ratio_db, level_db

RATE_HZ = 16_000


def tone(f_hz: float, amplitude: float = 1.0, seconds: float = 0.5, rate_hz: int = RATE_HZ) -> np.ndarray:
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    return (amplitude * np.sin(2 * np.pi * f_hz * time_s)).astype(np.float32)


def test_a_full_scale_square_wave_has_0_db():
    np.testing.assert_allclose(level_db(np.tile(np.float32([1, -1]), 4_000)), 0, atol=1e-6)


def test_a_full_scale_sine_has_minus_3_db():
    np.testing.assert_allclose(level_db(tone(200)), 10 * np.log10(0.5), atol=1e-3)


def test_silence_has_the_lowest_level():
    np.testing.assert_allclose(level_db(np.zeros(8_000, dtype=np.float32)), SILENCE_DB)


def test_level_follows_a_change_of_loudness():
    levels_db = level_db(np.concatenate([tone(200), tone(200, 0.1)]))
    assert levels_db[0] - levels_db[-1] == pytest.approx(20, abs=1e-3)


@pytest.mark.parametrize("gain_db", [-20.0, 6.0])
def test_gain_adds_to_the_level_and_leaves_the_ratio(gain_db):
    samples = tone(200, 0.2) + tone(1_500, 0.1)
    louder = samples * 10 ** (gain_db / 20)
    np.testing.assert_allclose(level_db(louder) - level_db(samples), gain_db, atol=1e-3)
    np.testing.assert_allclose(band_ratio_db(louder), band_ratio_db(samples), atol=1e-3)


@pytest.mark.parametrize(("high", "ratio_db"), [(1.0, 0.0), (0.1, -20.0), (2.0, 6.02)])
def test_the_ratio_is_that_of_the_energies_in_the_two_bands(high, ratio_db):
    np.testing.assert_allclose(band_ratio_db(tone(250, 0.3) + tone(2_000, 0.3 * high)), ratio_db, atol=0.05)


@pytest.mark.parametrize("outside_hz", [20, 6_500])
def test_sound_outside_both_bands_does_not_count(outside_hz):
    inside = tone(250, 0.1) + tone(2_000, 0.1)
    np.testing.assert_allclose(band_ratio_db(inside + tone(outside_hz, 0.1)), 0, atol=0.2)


def test_the_split_decides_what_is_high():
    samples = tone(250, 0.1) + tone(800, 0.1) + tone(2_000, 0.1)
    assert band_ratio_db(samples).mean() == pytest.approx(10 * np.log10(2), abs=0.1)
    assert band_ratio_db(samples, split_hz=1_200).mean() == pytest.approx(-10 * np.log10(2), abs=0.1)


def test_the_high_band_of_narrow_audio_ends_at_its_nyquist_frequency():
    rate_hz = 8_000
    samples = tone(250, 0.1, rate_hz=rate_hz) + tone(2_000, 0.1, rate_hz=rate_hz)
    np.testing.assert_allclose(band_ratio_db(samples, rate_hz), 0, atol=0.05)


def test_silence_has_no_ratio():
    assert np.isnan(band_ratio_db(np.zeros(8_000, dtype=np.float32))).all()


@pytest.mark.parametrize("samples", [0, 639, 640, 799, 800, 12_345, 200_000])
def test_level_ratio_and_pitch_have_the_same_frames(samples):
    audio = np.random.default_rng(0).standard_normal(samples).astype(np.float32)
    frames = pitch(audio).times_s.size
    assert frames == (0 if samples < 640 else (samples - 640) // 160 + 1)
    assert level_db(audio).size == band_ratio_db(audio).size == frames


def test_frames_of_another_floor_and_hop_have_the_same_grid_too():
    audio, chosen = tone(200), {"floor_hz": 60.0, "hop_s": 0.005}
    assert pitch(audio, **chosen).times_s.size == level_db(audio, **chosen).size == band_ratio_db(audio, **chosen).size


@pytest.mark.parametrize("split_hz", [80, 5_000, 7_000])
def test_a_split_that_leaves_no_band_is_refused(split_hz):
    with pytest.raises(ValueError, match="split_hz"):
        band_ratio_db(tone(200), split_hz=split_hz)


@pytest.mark.parametrize("wrong", [{"hop_s": 0.0}, {"floor_hz": 0.0}, {"floor_hz": -75.0}])
def test_frames_without_length_are_refused(wrong):
    with pytest.raises(ValueError, match="no frames"):
        level_db(tone(200), **wrong)
