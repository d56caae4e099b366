"""The turn_taking scorer with the predictor that ships, on real speech (the bundled sample)."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from bundled import dialogues

from spear_ray.config import load
from spear_ray.dialogue import Score, Status
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.leaderboard.board import POOLED, build
from spear_ray.ledger import table_of
from spear_ray.scorers.base import Resources
from spear_ray.scorers.turn_taking import TurnTakingConfig, TurnTakingScorer
from spear_ray.turntaking.predictors.base import TimingSettings


@cache
def scorer() -> TurnTakingScorer:
    made = TurnTakingScorer(TurnTakingConfig())
    made.setup()
    return made


@cache
def rows() -> tuple[Score, ...]:
    return tuple(scorer().score(dialogues()))


def test_every_dialogue_of_the_sample_is_scored():
    assert {row.status for row in rows()} == {Status.OK}
    assert len(rows()) == len(dialogues())


def test_metrics_are_the_documented_ones_and_fit_together():
    for row in rows():
        assert set(row.metrics) == {"mean_nll", "tail_nll", "dialog_nll", "nat_score", "units"}
        assert row.metrics["nat_score"] == -row.metrics["dialog_nll"]
        assert row.metrics["dialog_nll"] == pytest.approx((row.metrics["mean_nll"] + row.metrics["tail_nll"]) / 2)
        assert row.metrics["tail_nll"] >= row.metrics["mean_nll"] - 0.5


def test_timing_does_not_fill_the_column_of_spearbench():
    assert all("turn_taking_naturalness" not in row.metrics for row in rows())
    assert scorer().columns == ()
    for name in ("vap", "dualturn"):
        assert TurnTakingScorer(TurnTakingConfig(predictor=name)).columns == ("turn_taking_naturalness",)


def test_details_hold_activity_and_units_for_the_report():
    for row, dialogue in zip(rows(), dialogues(), strict=True):
        details = row.details
        assert details["predictor"] == "timing"
        assert details["seconds"] == pytest.approx(dialogue.audio.shape[1] / 16_000)
        assert len(details["units"]) == row.metrics["units"]
        assert set(details["activity"]) == {"asking", "answering"}
        for _, side, start_s, end_s, nll in details["units"]:
            assert side in (0, 1)
            assert 0 <= start_s <= end_s <= details["seconds"] + 1e-3
            assert np.isfinite(nll)


def test_a_batch_changes_nothing():
    one_by_one = [scorer().score([dialogue])[0] for dialogue in dialogues()[::7]]
    assert one_by_one == list(rows()[::7])


def test_people_are_more_natural_than_the_systems_made_to_be_early_slow_or_silent():
    config = load(["leaderboard.resamples=1000"]).leaderboard
    board = build({"turn_taking": table_of(rows())}, {"turn_taking": TurnTakingScorer.metrics}, config)
    for difference in board.differences:
        entry = difference.entry
        if entry.metric.startswith("nat_score") and entry.subset == POOLED:
            assert entry.ci_high < 0, (entry.system, entry.value, entry.ci_low, entry.ci_high)
    compared = {one.entry.system for one in board.differences if one.entry.metric.startswith("nat_score")}
    assert compared == {"early", "slow", "sometimes-silent"}


def test_silence_is_skipped_with_a_code():
    silent = replace(dialogues()[0], clip=np.zeros((2, 160_000), np.float32), answer=np.zeros(16_000, np.float32))
    (row,) = scorer().score([silent])
    assert (row.status, row.code) == (Status.SKIPPED, "no_turns")


def test_the_answer_goes_where_the_data_set_says():
    dialogue = next(one for one in dialogues() if one.system == "slow")
    own, both = (scorer().score([replace(dialogue, answer_channels=name)])[0] for name in ("own", "both"))
    answer_s = dialogue.answer_onset_s
    assert not [unit for unit in own.details["activity"]["asking"] if unit[1] > answer_s + 0.5]
    assert [unit for unit in both.details["activity"]["asking"] if unit[1] > answer_s + 0.5]


def test_predictors_have_fingerprints_of_their_own():
    prints = {TurnTakingScorer(TurnTakingConfig(predictor=name)).fingerprint for name in ("timing", "vap", "dualturn")}
    assert len(prints) == 3


def test_fingerprint_follows_statistics_and_speech_settings_but_not_other_predictors_or_resources():
    base = TurnTakingScorer(TurnTakingConfig()).fingerprint
    other = TurnTakingConfig(timing=TimingSettings(statistics="meeting"))
    assert TurnTakingScorer(other).fingerprint != base
    loud = TurnTakingConfig()
    loud.speech.threshold = 0.7
    assert TurnTakingScorer(loud).fingerprint != base
    same = TurnTakingConfig(resources=Resources(num_cpus=2), min_utterance_s=0.2)
    same.vap.checkpoint = "x.pt"
    assert TurnTakingScorer(same).fingerprint == base


def test_statistics_by_another_name_with_the_same_content_are_the_same(tmp_path):
    from spear_ray.turntaking.timing_model import load_statistics

    path = tmp_path / "mine.json"
    path.write_text(load_statistics("telephone"))
    config = TurnTakingConfig(timing=TimingSettings(statistics=str(path)))
    assert TurnTakingScorer(config).fingerprint == TurnTakingScorer(TurnTakingConfig()).fingerprint


def test_nothing_is_missing_here():
    assert scorer().missing() is None


def test_missing_statistics_are_a_missing_prerequisite():
    lacking = TurnTakingScorer(TurnTakingConfig(timing=TimingSettings(statistics="nowhere")))
    assert isinstance(lacking.missing(), PrerequisiteError)
    assert "telephone" in str(lacking.missing())


def test_an_unknown_predictor_is_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"oracle: must be one of timing, vap, dualturn"):
        load(["scorer.turn_taking.predictor=oracle"])
