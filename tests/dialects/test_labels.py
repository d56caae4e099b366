import math

import numpy as np
import pytest

from spear_ray.dialects.labels import (
    DIALECTS,
    NORTH_AMERICA,
    details_of,
    keys,
    log_odds,
    log_softmax,
    mean_log_probability,
    metrics_of,
)

SURE = np.full(16, -900.0)
SURE[NORTH_AMERICA] = 0.0


def test_north_america_is_the_fifth_logit():
    assert (DIALECTS[NORTH_AMERICA], NORTH_AMERICA, len(DIALECTS)) == ("North America", 4, 16)


def test_log_probabilities_of_saturated_logits_stay_finite():
    logs = log_softmax(SURE)
    assert np.isfinite(logs).all()
    assert logs[NORTH_AMERICA] == 0.0
    assert logs[0] == -900.0


def test_log_odds_are_exact_where_one_minus_p_rounds_to_zero():
    odds = log_odds(log_softmax(SURE))
    assert odds[NORTH_AMERICA] == pytest.approx(900 - math.log(15))
    assert odds[0] == pytest.approx(-900.0)


def test_log_odds_of_ordinary_probabilities():
    p = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    np.testing.assert_allclose(log_odds(np.log(p)), np.log(p / (1 - p)))


def test_parts_of_a_clip_are_averaged_as_probabilities():
    logits = np.random.default_rng(0).normal(scale=4, size=(3, 16))
    mean = np.exp([log_softmax(part) for part in logits]).mean(axis=0)
    np.testing.assert_allclose(np.exp(mean_log_probability(logits)), mean)


def test_metrics_say_whether_both_sides_agree():
    other = np.roll(SURE, 1)
    found = metrics_of({"question": log_softmax(other), "answer": log_softmax(SURE)})
    assert (found["same_dialect"], found["north_american"], found["question_north_american"]) == (0.0, 1.0, 0.0)
    assert set(keys("question")) | set(keys("answer")) <= found.keys()
    assert metrics_of({"answer": log_softmax(SURE)}).keys() == {"answer_dialect", "north_american", *keys("answer")}
    assert metrics_of({}) == {}


def test_details_name_the_dialects():
    found = details_of({"answer": log_softmax(SURE)})["answer_dialect"]
    assert found["label"] == "North America"
    assert found["probabilities"]["Welsh"] == 0.0
