import numpy as np
import pytest

from spear_ray.turntaking.tracks import (
    active_before,
    at_model_rate,
    clean_track,
    rms_track,
    row_from_runs,
    runs_of,
    track_from_timestamps,
)


def cleaned(*runs, frames=100):
    return runs_of(clean_track(row_from_runs(runs, frames)[np.newaxis])[0]).tolist()


def test_both_ends_of_a_timestamp_are_rounded_down_to_a_frame():
    track = track_from_timestamps([[(639, 1279)], []], 16_000)
    assert track.shape == (2, 50)
    assert [runs_of(row).tolist() for row in track] == [[[1, 3]], []]


def test_speech_that_ends_in_an_incomplete_last_frame_is_cut_off():
    assert runs_of(track_from_timestamps([[(320, 3000)]], 2000)[0]).tolist() == [[1, 6]]


@pytest.mark.parametrize("runs", [[], [[0, 4]], [[3, 5], [6, 10]], [[0, 10]]])
def test_runs_and_rows_are_each_others_inverse(runs):
    assert runs_of(row_from_runs(runs, 10)).tolist() == runs


def test_speech_under_seven_frames_goes_and_seven_frames_stay():
    assert cleaned((20, 26), (50, 57)) == [[50, 57]]


def test_silence_under_seven_frames_is_filled_and_seven_frames_stay():
    assert cleaned((20, 40), (46, 60), (67, 80)) == [[20, 60], [67, 80]]


def test_short_speech_goes_before_silence_is_filled():
    assert cleaned((20, 40), (44, 48), (52, 70)) == [[20, 40], [52, 70]]


def test_short_silence_before_the_first_speech_is_filled():
    assert cleaned((6, 40)) == [[0, 40]]
    assert cleaned((7, 40)) == [[7, 40]]


def test_short_runs_that_last_to_the_end_stay():
    assert cleaned((97, 100)) == [[97, 100]]
    assert cleaned((50, 97)) == [[50, 97]]


def test_cleaning_leaves_its_input_alone():
    raw = row_from_runs([(20, 24)], 100)[np.newaxis]
    clean_track(raw)
    assert runs_of(raw[0]).tolist() == [[20, 24]]


def test_a_frame_as_loud_as_the_threshold_is_speech():
    audio = np.repeat(np.array([[0.5, 0.49, 0.51]], dtype=np.float32), 320, axis=1)
    assert rms_track(audio, 0.5).tolist() == [[True, False, True]]


def test_the_published_threshold_lies_between_quiet_and_loud_frames():
    audio = np.repeat(np.array([[0.0149, 0.0151]], dtype=np.float32), 320, axis=1)
    assert rms_track(audio).tolist() == [[False, True]]


def test_the_last_frame_of_the_loudness_track_is_filled_up_with_silence():
    audio = np.full((1, 320 + 80), 0.02, dtype=np.float32)
    assert rms_track(audio).tolist() == [[True, False]]
    assert rms_track(2 * audio).tolist() == [[True, True]]


def test_differences_of_active_before_count_any_stretch():
    before = active_before(row_from_runs([(2, 5)], 8)[np.newaxis])
    assert before.shape == (1, 9)
    assert before[0, 6] - before[0, 3] == 2


def test_a_model_frame_is_active_when_half_of_it_is():
    track = row_from_runs([(2, 4), (7, 8)], 8)[np.newaxis]
    assert at_model_rate(track, 2, 12.5).tolist() == [[True, False]]


def test_model_frames_past_the_end_of_the_track_are_silent_and_a_part_of_one_counts_by_itself():
    track = row_from_runs([(0, 5)], 5)[np.newaxis]
    assert at_model_rate(track, 3, 12.5).tolist() == [[True, True, False]]


def test_a_model_of_the_tracks_own_rate_sees_the_track():
    track = row_from_runs([(2, 4)], 8)[np.newaxis]
    np.testing.assert_array_equal(at_model_rate(track, 8, 50.0), track)
