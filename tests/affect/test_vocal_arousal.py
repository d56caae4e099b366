import math

import numpy as np
import pytest
from scipy.stats import spearmanr

from spear_ray.affect.vocal_arousal import (
    MIN_BASELINE,
    VoiceFeatures,
    arousal,
    fusion_weights,
    ranked,
    voice_features,
)

RATE_HZ = 16_000


def voice(f0_hz: float = 120, gain: float = 0.1, tilt: float = 1.5, seconds: float = 0.6) -> np.ndarray:
    """A harmonic sound; the smaller the tilt, the brighter."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    harmonics = range(1, int(4_800 / f0_hz))
    tone = sum(k**-tilt * np.sin(2 * np.pi * k * f0_hz * time_s + k * k) for k in harmonics)
    return (gain * tone / np.sqrt(np.mean(tone**2))).astype(np.float32)


def rows(count: int, seed: int = 0) -> np.ndarray:
    """Features that rise together, with chance."""
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal((count, 1))
    return (shared + rng.standard_normal((count, 3))) * [0.2, 4, 3] + [4.8, -30, -8]


def baseline() -> list[VoiceFeatures]:
    return [VoiceFeatures(4.8 + step / 100, -30.0 + step, -8.0 + step) for step in range(9)]


def test_features_are_pitch_level_and_brightness():
    found = voice_features(voice(120, gain=0.1))
    assert found is not None
    assert math.exp(found.log_f0) == pytest.approx(120, rel=0.005)
    assert found.intensity_db == pytest.approx(-20, abs=0.3)
    assert found.hf500_db < 0


def test_a_brighter_voice_has_a_higher_hf500_and_nothing_else():
    dull, bright = voice_features(voice(tilt=2.0)), voice_features(voice(tilt=1.0))
    assert bright.hf500_db > dull.hf500_db + 3
    assert bright.log_f0 == pytest.approx(dull.log_f0, abs=0.005)
    assert bright.intensity_db == pytest.approx(dull.intensity_db, abs=0.3)


def test_only_frames_within_the_speech_spans_count():
    samples = np.concatenate([voice(120), voice(240)])
    first, second = (voice_features(samples, [span]) for span in [(0.0, 0.55), (0.65, 1.2)])
    assert math.exp(first.log_f0) == pytest.approx(120, rel=0.01)
    assert math.exp(second.log_f0) == pytest.approx(240, rel=0.01)


def test_without_spans_the_whole_audio_counts():
    samples = voice()
    assert voice_features(samples) == voice_features(samples, [(0.0, 0.3), (0.3, 9.0)])


def test_silence_around_an_utterance_changes_nothing():
    alone = voice_features(voice(seconds=2.0))
    padded = voice_features(np.pad(voice(seconds=2.0), RATE_HZ))
    np.testing.assert_allclose(padded, alone, atol=0.05)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(np.zeros(2 * RATE_HZ, dtype=np.float32), id="silence"),
        pytest.param(np.random.default_rng(0).standard_normal(10 * RATE_HZ).astype(np.float32), id="noise"),
        pytest.param(voice(seconds=0.2), id="too-short"),
        pytest.param(np.zeros(0, dtype=np.float32), id="nothing"),
    ],
)
def test_what_is_hardly_voiced_has_no_features(samples):
    assert voice_features(samples) is None


def test_speech_spans_without_speech_have_no_features():
    assert voice_features(voice(), []) is None
    assert voice_features(voice(), [(5.0, 9.0)]) is None


def test_an_utterance_above_the_whole_baseline_scores_1_and_one_below_minus_1():
    assert arousal(VoiceFeatures(6, 0, 0.5), baseline()) == pytest.approx(1)
    assert arousal(VoiceFeatures(4, -60, -40), baseline()) == pytest.approx(-1)


def test_the_middle_of_the_baseline_scores_0_with_its_tie_half():
    assert arousal(baseline()[4], baseline()) == pytest.approx(0)


def test_a_tie_counts_half():
    # Two of nine lie below, one is equal.
    assert arousal(baseline()[2], baseline()) == pytest.approx(2 * 2.5 / 9 - 1)


def test_weights_say_which_feature_counts():
    mixed = VoiceFeatures(6, -60, -4)
    assert arousal(mixed, baseline(), (1, 0, 0)) == pytest.approx(1)
    assert arousal(mixed, baseline(), (0, 1, 0)) == pytest.approx(-1)
    assert arousal(mixed, baseline(), (2, 1, 1)) == pytest.approx((2 - 1 + 0) / 4)


def test_a_small_baseline_gives_no_score():
    assert arousal(baseline()[0], baseline()[: MIN_BASELINE - 1]) is None
    assert arousal(baseline()[0], baseline()[:MIN_BASELINE]) is not None


def test_a_louder_higher_brighter_voice_is_more_aroused():
    usual = [voice_features(voice(118 + step, 0.1 + step / 200, 1.5 - step / 50)) for step in range(6)]
    calm, excited = voice_features(voice(105, 0.04, 1.9)), voice_features(voice(190, 0.3, 0.9))
    assert arousal(calm, usual) == pytest.approx(-1)
    assert arousal(excited, usual) == pytest.approx(1)
    scores = ranked([*usual, calm, excited])
    assert scores.argmin() == 6
    assert scores.argmax() == 7


def test_weights_are_shares_of_the_rank_correlations_with_the_mean():
    scores = np.random.default_rng(1).uniform(-1, 1, (40, 3))
    scores[:, 1] += scores[:, 0]
    expected = [spearmanr(column, scores.mean(axis=1)).statistic for column in scores.T]
    assert min(expected) > 0
    np.testing.assert_allclose(fusion_weights(scores), np.array(expected) / sum(expected), rtol=1e-9)


def test_a_feature_that_runs_against_the_others_counts_nothing():
    rise = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(fusion_weights(np.column_stack([rise, rise, -rise])), [0.5, 0.5, 0])


def test_a_feature_that_never_changes_counts_nothing():
    rise = np.linspace(-1, 1, 21)
    np.testing.assert_allclose(fusion_weights(np.column_stack([rise, rise, 0 * rise])), [0.5, 0.5, 0])


@pytest.mark.parametrize("scores", [np.zeros((8, 3)), np.zeros((0, 3)), np.ones((1, 3))])
def test_weights_are_equal_where_nothing_can_be_correlated(scores):
    np.testing.assert_allclose(fusion_weights(scores), [1 / 3] * 3)


def test_features_that_cancel_out_count_the_same():
    rise = np.linspace(-1, 1, 20)
    away = np.roll(rise, 7)
    np.testing.assert_allclose(fusion_weights(np.column_stack([rise, away, -rise - away])), [1 / 3] * 3)


def test_each_row_is_ranked_against_all_others():
    features = rows(30)
    features[3] = features[4]
    voices = [VoiceFeatures(*row) for row in features]
    alone = [
        [arousal(row, voices[:at] + voices[at + 1 :], weights) for weights in np.eye(3)]
        for at, row in enumerate(voices)
    ]
    expected = np.average(alone, axis=1, weights=fusion_weights(alone))
    np.testing.assert_allclose(ranked(features), expected, atol=1e-12)


def test_ranks_lie_between_minus_1_and_1():
    for seed in range(20):
        scores = ranked(rows(MIN_BASELINE + 1 + seed, seed))
        assert (np.abs(scores) <= 1).all()
        assert scores.std() > 0


def test_the_most_aroused_of_all_scores_1():
    features = rows(12)
    features[5] = features.max(axis=0) + 1
    features[7] = features.min(axis=0) - 1
    scores = ranked(features)
    assert (scores[5], scores[7]) == (1, -1)


def test_gain_of_the_whole_set_leaves_the_ranks():
    features = rows(25)
    np.testing.assert_allclose(ranked(features + np.array([0, 12.5, 0])), ranked(features), atol=1e-12)


def test_gain_of_one_utterance_does_not():
    features = rows(25)
    louder = features.copy()
    louder[4, 1] += 60
    assert ranked(louder)[4] > ranked(features)[4]


def test_order_of_the_rows_does_not_matter():
    features, order = rows(25), np.random.default_rng(3).permutation(25)
    np.testing.assert_allclose(ranked(features[order]), ranked(features)[order], atol=1e-12)


def test_equal_rows_score_the_same_and_alike_rows_score_0():
    features = rows(12)
    features[2] = features[9]
    assert ranked(features)[2] == ranked(features)[9]
    np.testing.assert_allclose(ranked(np.tile(features[:1], (8, 1))), 0)


@pytest.mark.parametrize("gap", [np.nan, np.inf])
def test_rows_with_gaps_are_left_out(gap):
    features = rows(15)
    with_gaps = np.insert(features, [0, 7], gap, axis=0)
    with_gaps[0, 1] = -30.0
    scores = ranked(with_gaps)
    assert np.isnan(scores[[0, 8]]).all()
    np.testing.assert_allclose(np.delete(scores, [0, 8]), ranked(features))


def test_too_few_others_give_no_ranks():
    assert np.isnan(ranked(rows(MIN_BASELINE))).all()
    assert np.isfinite(ranked(rows(MIN_BASELINE + 1))).all()
    assert ranked(np.empty((0, 3))).shape == (0,)


def test_rows_of_another_width_are_refused():
    with pytest.raises(ValueError, match="rows, 3"):
        ranked(np.zeros((9, 2)))
