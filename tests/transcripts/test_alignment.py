"""Paths through attention, against transformers' own and against what cannot be otherwise."""

from itertools import pairwise

import numpy as np
import pytest
from transformers.models.whisper.generation_whisper import _dynamic_time_warping

from spear_ray.transcripts.alignment import FRAME_S, monotonic_path, token_starts


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (2, 2), (5, 40), (40, 5), (17, 100)])
def test_the_path_is_transformers_own(shape):
    cost = np.random.default_rng(sum(shape)).standard_normal(shape)
    for ours, theirs in zip(monotonic_path(cost), _dynamic_time_warping(cost), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_equal_costs_go_where_transformers_goes():
    for ours, theirs in zip(monotonic_path(np.ones((4, 6))), _dynamic_time_warping(np.ones((4, 6))), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def attention(begins: list[int], frames: int) -> np.ndarray:
    """Two heads that look at one stretch of frames after the other."""
    edges = [*begins, frames]
    rows = np.full((len(begins), frames), 0.01)
    for row, (start, end) in enumerate(pairwise(edges)):
        rows[row, start:end] = 1.0
    return np.stack([rows, rows])


def test_tokens_begin_where_attention_moves_on():
    begins = [0, 20, 55, 90]
    np.testing.assert_allclose(token_starts(attention(begins, 120), 7), np.multiply(begins, FRAME_S), atol=1e-9)


def test_a_single_frame_that_flickers_moves_nothing():
    begins = [0, 40, 80]
    flickering = attention(begins, 120)
    flickering[:, 2, 10] = 5.0
    np.testing.assert_allclose(token_starts(flickering, 7), np.multiply(begins, FRAME_S), atol=1e-9)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 50), (2, 5, 1), (1, 3, 2)])
def test_short_audio_and_single_tokens_have_finite_times(shape):
    starts = token_starts(np.random.default_rng(0).random(shape), 7)
    assert starts.shape == (shape[1],)
    assert np.isfinite(starts).all()
    assert (np.diff(starts) >= 0).all()


def test_attention_that_is_the_same_everywhere_gives_finite_times():
    assert np.isfinite(token_starts(np.full((2, 4, 30), 1 / 30), 7)).all()
