import numpy as np
import pytest

from spear_ray.affect.sequences import LEAST_VECTORS, duplicated, interleaved, unit_rows, windows
from spear_ray.errors import ScorerError


def vectors(count: int, width: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)


@pytest.mark.parametrize(("seconds", "count"), [(0, 0), (0.5, 1), (1, 1), (1.001, 2), (3, 3), (10.2, 11)])
def test_a_window_starts_in_every_second_of_audio(seconds, count):
    spans = windows(round(seconds * 16_000))
    assert [start for start, _ in spans] == [16_000 * place for place in range(count)]


@pytest.mark.parametrize("samples", [1, 47_999, 48_000, 100_003])
def test_no_window_ends_behind_the_audio_or_is_longer_than_3_s(samples):
    assert all(start < end <= min(samples, start + 48_000) for start, end in windows(samples))
    assert windows(samples)[-1][1] == samples


def test_without_padding_only_whole_windows_are_left():
    assert windows(64_001, pad_last=False) == [(0, 48_000), (16_000, 64_000)]
    assert windows(47_999, pad_last=False) == []


def test_windows_of_other_sizes():
    assert windows(10, window=4, hop=3) == [(0, 4), (3, 7), (6, 10), (9, 10)]


def test_vectors_become_unit_vectors_of_the_same_direction():
    given = 30 * vectors(5)
    found = unit_rows(given)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found * np.linalg.norm(given, axis=1, keepdims=True), given, rtol=1e-4)


def test_a_zero_vector_stays_zero():
    np.testing.assert_array_equal(unit_rows([np.zeros(4)]), np.zeros((1, 4)))


def test_nan_is_nothing_and_infinity_outweighs_the_rest():
    found = unit_rows([np.array([np.nan, np.inf, -np.inf, 5.0])])
    np.testing.assert_allclose(found, [[0, 0.70710, -0.70710, 0.00354]], atol=1e-5)


def test_frames_are_made_unit_vectors_before_they_are_averaged():
    frames = np.array([[100.0, 0.0], [0.0, 0.5]])
    np.testing.assert_allclose(unit_rows([frames]), [[0.5, 0.5]], atol=1e-5)


def test_too_few_vectors_are_refused_with_the_number():
    assert unit_rows(vectors(LEAST_VECTORS), LEAST_VECTORS).shape == (LEAST_VECTORS, 6)
    with pytest.raises(ScorerError, match="only 9 emotion vectors of a speaker: TRACE needs 10"):
        unit_rows(vectors(9), LEAST_VECTORS)
    with pytest.raises(ScorerError, match="only 0 "):
        unit_rows([])


@pytest.mark.parametrize(("first", "second"), [(3, 3), (4, 2), (1, 5)])
def test_speakers_take_turns_and_the_shorter_goes_on_with_zeros(first, second):
    a, b = vectors(first), vectors(second, seed=1)
    found = interleaved(a, b, 256)
    assert found.shape == (2 * max(first, second), 6)
    np.testing.assert_array_equal(found[0::2][:first], a)
    np.testing.assert_array_equal(found[1::2][:second], b)
    assert not found[0::2][first:].any()
    assert not found[1::2][second:].any()


def test_only_the_first_vectors_of_each_speaker_are_used():
    a, b = vectors(9), vectors(5, seed=1)
    np.testing.assert_array_equal(interleaved(a, b, 3), interleaved(a[:3], b[:3], 3))


def test_spearbench_gives_each_vector_twice():
    given = vectors(4)
    np.testing.assert_array_equal(duplicated(given, 256), np.repeat(given, 2, axis=0))
    np.testing.assert_array_equal(duplicated(given, 2), np.repeat(given[:2], 2, axis=0))
