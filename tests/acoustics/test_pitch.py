import tracemalloc

import numpy as np
import pytest

from spear_ray.acoustics.pitch import Pitch, pitch
from spear_ray.sample.script import SYSTEMS
from tests.bundled import dialogues

RATE_HZ = 16_000
FREQUENCIES_HZ = (80, 97.3, 150, 211, 333, 450)


def complex_tone(f0_hz: float, seconds: float = 1.0, first: int = 1, tilt: float = 1.0) -> np.ndarray:
    """Harmonics up to 7 kHz from number `first` on, the k-th of amplitude k ** -tilt, phases at random."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, 200)
    tone = sum(k**-tilt * np.sin(2 * np.pi * k * f0_hz * time_s + phases[k]) for k in range(first, int(7e3 / f0_hz)))
    return (0.5 * tone / np.abs(tone).max()).astype(np.float32)


def noise(seconds: float, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(round(seconds * RATE_HZ)).astype(np.float32)


def noisy(samples: np.ndarray, snr_db: float) -> np.ndarray:
    return samples + noise(samples.size / RATE_HZ) * np.sqrt(np.mean(samples**2) / 10 ** (snr_db / 10))


def sweep(start_hz: float, end_hz: float, seconds: float, rate_hz: int = RATE_HZ) -> np.ndarray:
    """Twelve harmonics whose fundamental moves along a line."""
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    cycles = start_hz * time_s + (end_hz - start_hz) * time_s**2 / (2 * seconds)
    return 0.05 * sum(np.sin(2 * np.pi * k * cycles) for k in range(1, 13))


def assert_everywhere(track: Pitch, f0_hz: float | np.ndarray, tolerance: float = 0.01) -> None:
    assert track.f0_hz.size
    np.testing.assert_allclose(track.f0_hz, f0_hz, rtol=tolerance)


@pytest.mark.parametrize("tilt", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("f0_hz", FREQUENCIES_HZ)
def test_every_frame_of_a_harmonic_sound_shows_its_fundamental(f0_hz, tilt):
    track = pitch(complex_tone(f0_hz, tilt=tilt))
    assert_everywhere(track, f0_hz)
    assert (track.strength > 0.95).all()


@pytest.mark.parametrize("f0_hz", FREQUENCIES_HZ)
def test_noise_10_db_below_changes_the_pitch_by_less_than_1_percent(f0_hz):
    assert_everywhere(pitch(noisy(complex_tone(f0_hz), 10)), f0_hz)


def test_strength_is_the_share_of_the_periodic_energy():
    # r / (1 - r) is the harmonics-to-noise ratio (Boersma 1993): 10 at 10 dB.
    assert pitch(noisy(complex_tone(150), 10)).strength.mean() == pytest.approx(10 / 11, abs=0.01)


@pytest.mark.parametrize("f0_hz", [100, 200])
def test_a_missing_fundamental_is_heard(f0_hz):
    assert_everywhere(pitch(complex_tone(f0_hz, first=3)), f0_hz)


def test_a_pure_tone_has_its_own_pitch_and_not_that_of_an_octave_below():
    assert_everywhere(pitch(np.sin(2 * np.pi * 440 * np.arange(RATE_HZ) / RATE_HZ)), 440)


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 44_100])
def test_a_glide_is_followed_at_any_rate(rate_hz):
    track = pitch(sweep(110, 320, 2, rate_hz), rate_hz)
    assert_everywhere(track, 110 + (320 - 110) * track.times_s / 2)


def test_frames_come_every_hop_and_stand_for_their_centres():
    track = pitch(complex_tone(150))
    assert track.times_s[0] == pytest.approx(0.02)
    np.testing.assert_allclose(np.diff(track.times_s), 0.01)
    assert track.times_s[-1] <= 0.98 + 1e-9
    assert pitch(complex_tone(150), hop_s=0.005).times_s[1] == pytest.approx(0.025)


def test_silence_is_unvoiced():
    for level in (0, 0.1):
        track = pitch(np.full(RATE_HZ, level, dtype=np.float32))
        assert track.f0_hz.size == 97
        assert not track.voiced.any()
        assert not track.strength.any()


@pytest.mark.parametrize("seed", range(5))
def test_white_noise_is_unvoiced(seed):
    assert pitch(noise(5, seed)).voiced.mean() < 0.05


def test_only_the_voiced_part_is_voiced():
    track = pitch(np.concatenate([1e-3 * noise(1), complex_tone(120), np.zeros(RATE_HZ)]))
    middle = (track.times_s > 1.03) & (track.times_s < 1.97)
    outside = (track.times_s < 0.97) | (track.times_s > 2.03)
    assert track.voiced[middle].all()
    assert not track.voiced[outside].any()


def test_a_faint_hum_under_the_silence_threshold_is_unvoiced():
    hum = 1e-3 * complex_tone(100, 3)
    assert pitch(hum).voiced.all()
    assert not pitch(np.concatenate([hum, complex_tone(200)])).voiced[:290].any()


@pytest.mark.parametrize("gain", [1e-3, 0.37, 20.0])
def test_gain_changes_neither_pitch_nor_voicing(gain):
    samples = np.concatenate([noisy(sweep(90, 300, 2), 15), 0.3 * noise(1)])
    expected, found = pitch(samples), pitch(gain * samples)
    np.testing.assert_array_equal(found.voiced, expected.voiced)
    np.testing.assert_allclose(found.f0_hz, expected.f0_hz, rtol=1e-4)


def test_an_offset_changes_nothing():
    np.testing.assert_allclose(pitch(complex_tone(150) + 0.2).f0_hz, 150, rtol=1e-3)


def test_pitch_stays_within_the_limits():
    track = pitch(complex_tone(150), floor_hz=200, ceiling_hz=400)
    assert (track.f0_hz[track.voiced] >= 200).all()
    assert_everywhere(pitch(complex_tone(60), floor_hz=50), 60)


@pytest.mark.parametrize("samples", [0, 1, 639])
def test_audio_shorter_than_a_frame_has_no_frames(samples):
    assert [part.size for part in pitch(complex_tone(150)[:samples])] == [0, 0, 0]


def test_one_frame_is_enough():
    assert_everywhere(pitch(complex_tone(150)[:640]), 150)


@pytest.mark.parametrize("limits", [(0, 500), (300, 300), (75, 9_000)])
def test_limits_that_do_not_fit_are_refused(limits):
    with pytest.raises(ValueError, match="floor_hz"):
        pitch(complex_tone(150), RATE_HZ, *limits)


def test_two_channels_are_refused():
    with pytest.raises(ValueError, match="one channel"):
        pitch(np.zeros((2, RATE_HZ), dtype=np.float32))


def test_long_audio_takes_bounded_memory():
    samples = np.tile(complex_tone(150), 120)
    tracemalloc.start()
    try:
        assert pitch(samples).voiced.all()
        assert tracemalloc.get_traced_memory()[1] < 60e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("voice", "low_hz", "high_hz"), [("slt", 155, 255), ("kal16", 80, 155), ("awb", 80, 155)])
def test_synthetic_voices_speak_where_women_and_men_do(voice, low_hz, high_hz):
    systems = {system.name for system in SYSTEMS if system.voice == voice}
    answers = [dialogue.answer for dialogue in dialogues() if dialogue.system in systems]
    tracks = [pitch(answer) for answer in answers if answer is not None]
    medians_hz = [float(np.nanmedian(track.f0_hz)) for track in tracks if track.voiced.any()]
    assert medians_hz
    assert all(low_hz < median_hz < high_hz for median_hz in medians_hz), medians_hz
