"""Edits of audio keep the channels on one time line and put sound where the time line says it is."""

import numpy as np
import pytest

from spear_ray.dialogue import SAMPLE_RATE_HZ
from spear_ray.turntaking.edits import Copy, Cut, Edit, Mute, Open, edited
from spear_ray.turntaking.pairs_made import place_edit
from spear_ray.turntaking.perturbations import KINDS
from spear_ray.turntaking.perturbed_audio import RoomTone, edited_audio, joined, same_loudness
from spear_ray.turntaking.timeline import Timeline

from .talk import line, talk

TONE, VOICE = 0.001, 0.3


def sound(timeline: Timeline, seed: int = 0) -> np.ndarray:
    """Noise: faint where a side is silent, loud where it speaks."""
    rng = np.random.default_rng(seed)
    samples = round(timeline.seconds * SAMPLE_RATE_HZ)
    audio = rng.uniform(-1, 1, (2, samples)).astype(np.float32) * TONE
    for side, speech in enumerate(timeline.sides):
        for start, end in speech:
            part = slice(round(start * SAMPLE_RATE_HZ), round(end * SAMPLE_RATE_HZ))
            audio[side, part] = rng.uniform(-VOICE, VOICE, audio[side, part].size)
    return audio


def loud(audio: np.ndarray) -> np.ndarray:
    """bool [2, 50 Hz frames]: whether the frame holds voice."""
    frames = audio.shape[1] // 320
    return np.abs(audio[:, : frames * 320]).reshape(2, frames, 320).mean(axis=2) > 0.03


def spoken(timeline: Timeline, frames: int) -> np.ndarray:
    centres = (np.arange(frames) + 0.5) / 50
    return np.stack(
        [np.array([any(s <= t < e for s, e in speech) for t in centres], dtype=bool) for speech in timeline.sides]
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_edited_audio_sounds_where_the_edited_time_line_has_speech(kind, seed):
    whole = talk(seed, seconds=240)
    session = sound(whole)
    for attempt in range(40):
        placed = place_edit(kind, whole, np.random.default_rng(attempt))
        if placed:
            break
    start_s, clip, edit = placed
    first = round(start_s * SAMPLE_RATE_HZ)
    natural = session[:, first : first + round(clip.seconds * SAMPLE_RATE_HZ)]
    changed = edited_audio(natural, edit, session, whole, np.random.default_rng(0))
    after = edited(clip, edit, whole)
    assert changed.shape[1] == pytest.approx(after.seconds * SAMPLE_RATE_HZ, abs=8)
    heard = loud(changed)
    assert (heard != spoken(after, heard.shape[1])).mean() < 0.01
    assert np.abs(changed).min(axis=1).max() < TONE


def test_the_same_seed_gives_the_same_samples():
    whole = line([(0, 3), (6, 9)], [(4, 5)], 12)
    session = sound(whole)
    edit = Edit("late_response", (Open(0, 3.5, 1.5), Open(1, 3.5, 1.5)))
    first, second, other = (edited_audio(session, edit, session, whole, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_gaps_are_filled_with_the_channels_own_tone():
    whole = line([(0, 3)], [(5, 7)], 10)
    session = sound(whole)
    opened = edited_audio(session, Edit("x", (Open(0, 4, 2), Open(1, 4, 2))), session, whole, np.random.default_rng(0))
    gap = opened[:, round(4.1 * SAMPLE_RATE_HZ) : round(5.9 * SAMPLE_RATE_HZ)]
    np.testing.assert_allclose(gap.std(axis=1), TONE / np.sqrt(3), rtol=0.1)


def test_a_muted_turn_is_gone_and_the_rest_is_untouched():
    whole = line([(0, 3)], [(5, 7)], 10)
    session = sound(whole)
    muted = edited_audio(session, Edit("x", (Mute(1, 4.9, 7.1),)), session, whole, np.random.default_rng(0))
    assert np.abs(muted[1]).max() <= 2 * TONE
    np.testing.assert_array_equal(muted[0], session[0])
    np.testing.assert_array_equal(muted[1, : 4 * SAMPLE_RATE_HZ], session[1, : 4 * SAMPLE_RATE_HZ])


def test_copied_speech_is_added_with_its_gain():
    whole = line([(0, 3)], [(5, 7)], 10)
    session = sound(whole)
    copied = edited_audio(session, Edit("x", (Copy(1, 5, 7, 1, 0.5),)), session, whole, np.random.default_rng(0))
    added = (copied - session)[1, round(1.2 * SAMPLE_RATE_HZ) : round(2.8 * SAMPLE_RATE_HZ)]
    original = session[1, round(5.2 * SAMPLE_RATE_HZ) : round(6.8 * SAMPLE_RATE_HZ)]
    np.testing.assert_allclose(added, original * 0.5, atol=1e-6)


def test_cut_channels_shrink_by_what_was_cut():
    whole = line([(0, 3)], [(5, 7)], 10)
    session = sound(whole)
    cut = edited_audio(session, Edit("x", (Cut(0, 8, 9), Cut(1, 3, 4))), session, whole, np.random.default_rng(0))
    assert cut.shape == (2, 9 * SAMPLE_RATE_HZ)


def test_seams_have_no_step_and_lose_no_sample():
    first, second = np.full(4000, 0.5, np.float32), np.full(4000, -0.5, np.float32)
    seam = joined(first, second)
    assert seam.size == 8000
    assert np.abs(np.diff(seam)).max() < 0.01
    assert joined(first[:0], second).size == 4000


def test_a_channel_without_silence_says_so():
    rng = np.random.default_rng(0)
    tone = RoomTone(np.ones(16_000, np.float32), line([(0, 1)], [], 1).sides.asking, rng)
    assert tone.is_digital_silence
    assert not tone.take(500).any()


def test_both_clips_get_one_gain_and_no_peak_passes_its_limit():
    whole = line([(0, 3)], [(5, 7)], 10)
    quiet = sound(whole) * 0.01
    natural, changed, gain = same_loudness(quiet, quiet[:, :80_000])
    np.testing.assert_allclose(natural, quiet * gain, rtol=1e-5)
    assert 20 * np.log10(np.sqrt(np.mean(natural**2))) == pytest.approx(-20, abs=0.01)
    spiky = quiet.copy()
    spiky[0, 7] = 0.9
    natural, changed, gain = same_loudness(quiet, spiky)
    assert 20 * np.log10(np.abs(changed).max()) == pytest.approx(-1, abs=0.01)
    silent = np.zeros((2, 100), np.float32)
    assert same_loudness(silent, silent)[2] == 1.0
