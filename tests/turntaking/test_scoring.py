import numpy as np
import pytest

from spear_ray.turntaking import scoring
from spear_ray.turntaking.labels import NO_LABEL, vap_classes
from spear_ray.turntaking.pooling import pool
from spear_ray.turntaking.tracks import row_from_runs
from spear_ray.turntaking.units import Unit, UnitSettings

SETTINGS = UnitSettings()
FRAMES = 1000


def track(*channels, frames=FRAMES):
    return np.stack([row_from_runs(runs, frames) for runs in channels])


def surprise(speech, rate_hz=50.0):
    """1 nat for each frame that has a label."""
    frames = round(speech.shape[1] * rate_hz / 50)
    labelled = vap_classes(speech, frames, rate_hz) != NO_LABEL
    return np.where(labelled, np.float32(1), np.float32(np.nan))


def score(speech, nll=None, rate_hz=50.0, settings=SETTINGS):
    nll = surprise(speech, rate_hz) if nll is None else nll
    return scoring.score_dialogue(nll, speech, speech.shape[1] / 50, rate_hz, settings)


def kinds(found):
    return [one.unit.kind for one in found.units]


def test_a_units_surprise_is_the_mean_over_its_frames():
    speech = track([(300, 500)], [])
    nll = surprise(speech)
    nll[200:300], nll[400:450], nll[450:500] = 2, 3, 5
    found = score(speech, nll)
    assert [(one.unit.kind, one.frames, one.nll) for one in found.units] == [
        ("utterance_start", 100, 2.0),
        ("utterance_end", 100, 4.0),
    ]
    assert found.fallback is None
    assert found.pooled == pool([2.0, 4.0])


def test_frames_before_the_context_do_not_count():
    speech = track([(200, 500)], [])
    nll = surprise(speech)
    nll[:150] = 100
    found = score(speech, nll)
    assert (found.units[0].frames, found.units[0].nll) == (50, 1.0)


def test_frames_without_a_label_do_not_count():
    speech = track([(300, 500)], [])
    nll = surprise(speech)
    nll[210:300] = np.nan
    assert score(speech, nll).units[0].frames == 10


def test_frames_that_have_a_surprise_are_counted_over_the_whole_dialogue():
    assert score(track([(300, 500)], [])).num_nll_frames == FRAMES - 100


def test_an_utterance_that_ends_in_the_last_two_seconds_has_no_end_unit():
    assert kinds(score(track([(300, 995)], []))) == ["utterance_start", "utterance_end"]
    assert kinds(score(track([(300, 996)], []))) == ["utterance_start"]


def test_a_unit_needs_five_frames():
    speech, nll = track([(300, 500)], []), surprise(track([(300, 500)], []))
    nll[205:300] = np.nan
    assert kinds(score(speech, nll)) == ["utterance_start", "utterance_end"]
    nll[204] = np.nan
    assert kinds(score(speech, nll)) == ["utterance_end"]
    assert kinds(score(speech, nll, settings=UnitSettings(min_frames=4))) == ["utterance_start", "utterance_end"]


def test_without_units_the_frames_near_changes_of_voice_activity_stand_in():
    found = score(track([(400, 420)], []))
    assert found.fallback == scoring.FALLBACK_VAD_BOUNDARIES
    only = found.units[0]
    assert only.unit == Unit(scoring.FALLBACK_VAD_BOUNDARIES, 6.0, 10.42, None)
    assert only.frames == 221
    assert found.pooled == pool([1.0])


def test_frames_before_the_context_do_not_stand_in_either():
    found = score(track([(200, 220)], []))
    assert (found.fallback, found.units[0].unit.start_s) == (scoring.FALLBACK_VAD_BOUNDARIES, 3.0)


def test_without_changes_all_frames_stand_in():
    found = score(track([], []))
    assert found.fallback == scoring.FALLBACK_ALL_VALID
    assert found.units[0].frames == FRAMES - 100 - 150


def test_too_few_frames_near_a_change_let_all_frames_stand_in():
    found = score(track([(998, 1000)], []))
    assert found.fallback == scoring.FALLBACK_ALL_VALID
    assert found.units[0].frames == FRAMES - 100 - 150


def test_a_slow_models_short_clip_falls_back_where_a_fast_models_has_units():
    speech = track([(20, 170)], [(190, 240)], frames=265)
    assert score(speech).fallback is None
    assert score(speech, rate_hz=12.5).fallback is not None


@pytest.mark.parametrize("frames", [0, 90, 250])
def test_a_clip_without_a_labelled_frame_after_the_context_has_no_score(frames):
    found = score(track([(100, 200)], [], frames=frames))
    assert (found.pooled, found.units, found.fallback) == (None, (), None)


def test_native8_units_lie_on_the_slow_grid():
    found = scoring.score_native8(np.ones(250, dtype=np.float32), track([(301, 501)], []), 20.0)
    assert [(one.unit.start_s, one.unit.end_s) for one in found.units] == [(4.0, 6.0), (8.0, 10.0)]


def test_native8_units_need_three_frames():
    speech, nll = track([(300, 500)], []), np.full(250, np.nan, dtype=np.float32)
    nll[60:63] = 1
    assert [(one.unit.kind, one.frames) for one in scoring.score_native8(nll, speech, 20.0).units] == [
        ("utterance_start", 3)
    ]
    nll[62] = np.nan
    assert scoring.score_native8(nll, speech, 20.0).fallback == scoring.FALLBACK_ALL_VALID


def test_native8_knows_only_one_stand_in():
    found = scoring.score_native8(np.ones(250, dtype=np.float32), track([(400, 420)], []), 20.0)
    assert found.fallback == scoring.FALLBACK_ALL_VALID
    assert found.units[0].frames == 250 - 38


def test_native8_without_a_frame_after_the_context_has_no_score():
    found = scoring.score_native8(np.ones(38, dtype=np.float32), track([(50, 100)], [], frames=152), 3.04)
    assert (found.pooled, found.units, found.num_nll_frames) == (None, (), 38)


def test_half_the_mean_and_half_the_worst_quarter_are_pooled():
    pooled = pool([1.0, 4.0, 2.0, 8.0, 3.0])
    assert (pooled.units, pooled.tail_k) == (5, 2)
    assert (pooled.mean_nll, pooled.tail_nll, pooled.dialog_nll) == pytest.approx((3.6, 6.0, 4.8))
    assert pooled.nat_score == -pooled.dialog_nll


@pytest.mark.parametrize(("units", "tail"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_the_tail_is_rounded_up(units, tail):
    assert pool(np.ones(units)).tail_k == tail


def test_share_and_weight_of_the_tail_are_parameters():
    pooled = pool([1.0, 2.0, 3.0, 4.0], tail_share=0.5, mean_weight=0.0)
    assert (pooled.tail_k, pooled.dialog_nll) == (2, 3.5)


def test_nothing_cannot_be_pooled():
    with pytest.raises(ValueError, match="no unit"):
        pool([])
