"""The shipped statistics: what they find surprising, and that they are what their file and card say."""

import json

import numpy as np
import pytest

from spear_ray.errors import ConfigError
from spear_ray.turntaking.card import card
from spear_ray.turntaking.pooling import pool
from spear_ray.turntaking.timing_model import (
    CONTEXT_S,
    Calibration,
    load_statistics,
    model_of,
    shipped_names,
)

from .talk import line, talk

NAMES = shipped_names()


def model(name: str = "telephone"):
    return model_of(load_statistics(name), name)


def after_question(gap_s: float, answer_s: float = 2.0, silence_s: float = 0.5):
    """A question from 3 to 6 s after a first exchange, and an answer `gap_s` after its end."""
    answer = 6 + gap_s
    return line([(0.2, 1.5), (3.0, 6.0)], [(1.8, 2.6), (answer, answer + answer_s)], answer + answer_s + silence_s)


def nll(timeline) -> float:
    return model().score(timeline).dialog_nll


def test_two_populations_ship():
    assert {"telephone", "meeting"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_statistics_are_small_and_come_back_from_their_text(name):
    text = load_statistics(name)
    assert len(text) < 64_000
    assert model(name).as_json() == text


@pytest.mark.parametrize("name", NAMES)
def test_the_card_is_the_one_of_these_statistics(name):
    from importlib.resources import files

    shipped = (files("spear_ray.turntaking") / "statistics" / f"{name}.md").read_text(encoding="utf-8")
    assert card(model(name)) == shipped


@pytest.mark.parametrize("name", NAMES)
def test_statistics_hold_no_intervals_and_no_conversation_ids(name):
    facts = model(name).facts
    assert all(len(key) == 8 and int(key, 16) >= 0 for key in facts["fitted_on"])
    assert len(facts["fitted_on"]) == facts["fitted_conversations"]


def test_shipped_accuracy_is_what_was_asked_for():
    accuracy = model().facts["accuracy"]
    assert accuracy["overall"]["pairwise_accuracy"] >= 0.78
    for kind in ("early_entry", "late_response"):
        assert accuracy["types"][kind]["pairwise_accuracy"] >= 0.95


def test_a_late_answer_is_the_more_surprising_the_later_it_comes():
    scores = [nll(after_question(gap_s)) for gap_s in (0.3, 1.5, 3.0, 6.0)]
    assert scores == sorted(scores)
    assert scores[-1] - scores[0] > 0.5


def test_talking_over_the_question_is_surprising():
    assert nll(after_question(-1.5)) > nll(after_question(0.2))


def test_no_answer_at_all_is_surprising():
    silent = line([(0.2, 1.5), (3.0, 6.0)], [(1.8, 2.6)], 10.5)
    assert nll(silent) > nll(after_question(0.2))


def test_the_first_three_seconds_do_not_count():
    units = model().surprises(talk(0))
    assert min(unit.end_s for unit in units) >= CONTEXT_S
    early = line([(0.1, 1.0), (1.2, 2.0)], [(0.5, 2.5)], 2.9)
    assert model().surprises(early) == []
    assert model().score(early) is None


def test_the_score_is_half_mean_and_half_worst_quarter_of_its_units():
    timeline = talk(4, seconds=22.5)
    units = model().surprises(timeline)
    pooled = model().score(timeline)
    plain = pool([unit.nll for unit in units])
    seconds = model().calibration.seconds
    assert 22.5 in seconds
    assert pooled.dialog_nll == pytest.approx(plain.dialog_nll)
    assert pooled.units == len(units)
    assert pooled.dialog_nll == pytest.approx((pooled.mean_nll + pooled.tail_nll) / 2)
    assert pooled.nat_score == -pooled.dialog_nll


def test_one_dialogue_scores_the_same_whatever_was_scored_before():
    lines = [talk(seed, seconds=20 + 7 * seed) for seed in range(6)]
    one = model()
    forward = [one.score(timeline) for timeline in lines]
    assert forward == [model().score(timeline) for timeline in reversed(lines)][::-1]


def test_calibration_is_linear_in_log_length_and_constant_beyond_its_ends():
    plain = pool([1.0, 2.0, 3.0, 4.0])
    calibration = Calibration((10.0, 40.0), (0.2, 0.0), (0.4, 0.0))
    assert calibration.apply(plain, 5.0).mean_nll == pytest.approx(2.7)
    assert calibration.apply(plain, 20.0).mean_nll == pytest.approx(2.6)
    assert calibration.apply(plain, 20.0).tail_nll == pytest.approx(4.2)
    assert calibration.apply(plain, 400.0) == plain


@pytest.mark.parametrize("name", NAMES)
def test_natural_dialogues_of_all_lengths_score_about_alike(name):
    means = [row["mean"] for row in model(name).facts["by_length"]]
    assert len(means) >= 3
    assert np.ptp(means) < 0.1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not timing statistics"),
        ("[]", "not timing statistics"),
        (json.dumps({"format": "other"}), "format is 'other'"),
    ],
)
def test_a_file_that_is_something_else_is_refused(text, words):
    with pytest.raises(ConfigError, match=words):
        model_of(text, "x.json")


def test_unknown_columns_are_refused():
    plain = json.loads(load_statistics("telephone"))
    with pytest.raises(ConfigError, match="mood"):
        model_of(json.dumps(plain | {"groups": ["mood"]}), "x.json")


def test_an_unknown_population_names_those_that_ship():
    with pytest.raises(ConfigError, match=r"nowhere.*meeting, telephone"):
        load_statistics("nowhere")
