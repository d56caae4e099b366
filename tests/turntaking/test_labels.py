import math

import numpy as np
import pytest

from spear_ray.errors import ScorerError
from spear_ray.turntaking import labels
from spear_ray.turntaking.tracks import row_from_runs
from spear_ray.turntaking.units import Unit

FRAMES = 200


def track(*channels, frames=FRAMES):
    return np.stack([row_from_runs(runs, frames) for runs in channels])


def first_class(*channels):
    """Of the frame whose bins are frames 1-10, 11-30, 31-60 and 61-100."""
    return labels.vap_classes(track(*channels), 1, 50.0)[0]


@pytest.mark.parametrize(("place", "run"), [(0, (1, 11)), (1, (11, 31)), (2, (31, 61)), (3, (61, 101))])
def test_each_bin_of_each_speaker_is_one_bit_the_nearest_lowest(place, run):
    assert first_class([run], []) == 1 << place
    assert first_class([], [run]) == 16 << place


def test_a_bin_counts_when_half_of_it_is_active():
    assert first_class([(6, 11)], []) == 1
    assert first_class([(7, 11)], []) == 0


def test_the_current_frame_is_no_future():
    assert first_class([(0, 1)], []) == 0


def test_both_speaking_throughout_is_the_last_class():
    assert first_class([(0, FRAMES)], [(0, FRAMES)]) == labels.CLASSES - 1


def test_a_frame_has_a_label_only_where_its_whole_future_is_known():
    classes = labels.vap_classes(track([], []), FRAMES, 50.0)
    assert np.flatnonzero(classes == labels.NO_LABEL).tolist() == list(range(100, FRAMES))


def test_a_slower_model_looks_ahead_from_the_end_of_its_frame():
    speech = track([(4, 14)], [])
    assert labels.vap_classes(speech, 50, 12.5)[0] == labels.vap_classes(speech, FRAMES, 50.0)[3] == 1
    classes = labels.vap_classes(speech, 50, 12.5)
    assert np.flatnonzero(classes != labels.NO_LABEL).tolist() == list(range(25))


def test_a_clip_of_under_two_seconds_has_no_labels():
    assert set(labels.vap_classes(track([], [], frames=100), 100, 50.0).tolist()) == {labels.NO_LABEL}


def test_native8_targets_are_shares_of_each_bin():
    targets = labels.native8_targets(track([(1, 4)], [(7, 10)], frames=30))
    assert targets.soft[0].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0]


def test_native8_targets_end_25_frames_before_the_track_does():
    targets = labels.native8_targets(track([(0, 30)], [], frames=30))
    assert targets.valid.tolist() == [True] * 5 + [False] * 25
    assert not targets.soft[5:].any()


def test_native8_scorer_drops_an_incomplete_last_frame():
    assert labels.native8_scorer_track(track([(0, 103)], [], frames=103)).shape == (2, 25)
    assert labels.at_model_rate(track([(0, 103)], [], frames=103), 26, 12.5)[0, 25]


def test_training_weights_are_8_inside_units_and_1_elsewhere():
    units = [Unit("utterance_start", 0.8, 1.2, 0), Unit("utterance_end", 1.1, 9.0, 1)]
    weights = labels.training_weights(units, 20, 12.5)
    assert weights.tolist() == [1.0] * 10 + [8.0] * 10
    assert labels.training_weights(units[:1], 20, 12.5).tolist() == [1.0] * 10 + [8.0] * 5 + [1.0] * 5


def test_an_even_guess_costs_ln_256():
    nll = labels.categorical_nll(np.zeros((1, 256), dtype=np.float16), np.array([17]))
    assert nll[0] == pytest.approx(math.log(256), abs=1e-6)


def test_cross_entropy_is_the_negative_log_of_the_softmax():
    rng = np.random.default_rng(0)
    logits, classes = rng.normal(0, 3, (40, 256)), rng.integers(0, 256, 40)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = -np.log(softmax[np.arange(40), classes])
    np.testing.assert_allclose(labels.categorical_nll(logits, classes), expected, atol=1e-5)


def test_large_logits_do_not_overflow():
    logits = np.zeros((1, 256), dtype=np.float32)
    logits[0, 3] = 1000.0
    assert labels.categorical_nll(logits, np.array([3]))[0] == 0.0
    assert labels.categorical_nll(logits, np.array([4]))[0] == 1000.0


def test_a_frame_without_label_has_no_surprise():
    nll = labels.categorical_nll(np.zeros((2, 256)), np.array([labels.NO_LABEL, 0]))
    assert np.isnan(nll).tolist() == [True, False]
    assert np.isnan(labels.categorical_nll(np.zeros((1, 256)), np.array([labels.NO_LABEL]))).all()


def test_native8_surprise_is_summed_or_averaged_over_the_bins():
    targets = labels.Native8Targets(np.ones((1, 8), dtype=np.float32), np.ones(1, dtype=np.bool_))
    half = np.full((1, 8), 0.5)
    assert labels.native8_nll(half, targets)[0] == pytest.approx(8 * math.log(2), abs=1e-6)
    assert labels.native8_nll(half, targets, "mean")[0] == pytest.approx(math.log(2), abs=1e-6)


def test_a_certain_and_wrong_probability_costs_no_more_than_the_clip():
    targets = labels.Native8Targets(np.ones((1, 8), dtype=np.float32), np.ones(1, dtype=np.bool_))
    nll = labels.native8_nll(np.zeros((1, 8)), targets)
    assert nll[0] == pytest.approx(-8 * math.log(labels.PROBABILITY_CLIP), rel=1e-6)


def test_native8_surprise_is_cut_to_the_shorter_side_and_unknown_without_a_future():
    targets = labels.native8_targets(track([], [], frames=30))
    nll = labels.native8_nll(np.full((28, 8), 0.5), targets)
    assert nll.size == 28
    assert np.isfinite(nll).tolist() == [True] * 5 + [False] * 23


def test_published_chunks_leave_a_short_clip_as_it_is():
    speech = track([(50, 150)], [(160, 400)], frames=3000)
    whole = labels.vap_classes(speech, 3000, 50.0)
    np.testing.assert_array_equal(labels.published_chunk_classes(speech), whole[whole != labels.NO_LABEL])


def test_published_chunks_move_later_labels_100_frames_earlier():
    speech = track([(3400, 3700)], [(3900, 4100)], frames=6000)
    chunked, whole = labels.published_chunk_classes(speech), labels.vap_classes(speech, 6000, 50.0)
    assert chunked.size == 5800
    np.testing.assert_array_equal(chunked[2900:], whole[3000:5900])
    assert (chunked[2900:] != whole[2900:5800]).any()


def test_published_chunks_drop_a_last_chunk_of_under_a_second():
    assert labels.published_chunks(3000 + 49) == [(0, 3000)]
    assert labels.published_chunks(3000 + 101) == [(0, 3000), (3000, 3101)]
    assert labels.published_chunks(49) == []


@pytest.mark.parametrize("frames", [50, 100, 3050, 3100])
def test_published_chunks_fail_on_a_chunk_of_one_to_two_seconds(frames):
    with pytest.raises(ScorerError, match="published chunks"):
        labels.published_chunk_classes(track([], [], frames=frames))
