import math

import pytest

from spear_ray.errors import JudgeParseError
from spear_ray.judging.choice import SCORES, expected_score, parse_score, read_choice


def logs(**probabilities):
    return {name.lstrip("_"): math.log(value) if value else -math.inf for name, value in probabilities.items()}


def test_probabilities_are_of_the_choices_alone():
    choice = read_choice(logs(_1=0.1, _3=0.1, _5=0.2, other=0.6), SCORES)
    assert choice.probabilities == pytest.approx({"1": 0.25, "3": 0.25, "5": 0.5})
    assert choice.mass == pytest.approx(0.4)
    assert choice.label == "5"
    assert expected_score(choice) == pytest.approx(3.5)


def test_entropy_is_that_of_a_coin_and_of_a_certainty():
    assert read_choice(logs(P=0.2, N=0.2), ("P", "N")).entropy == pytest.approx(math.log(2))
    assert read_choice(logs(P=0.2, N=0.0), ("P", "N")).entropy == 0.0


def test_first_of_equals_is_the_label():
    assert read_choice(logs(_5=0.3, _3=0.3, _1=0.3), SCORES).label == "1"


def test_very_small_probabilities_lose_nothing():
    choice = read_choice({"P": -2000.0, "N": -2001.0}, ("P", "N"))
    assert choice.probabilities["P"] == pytest.approx(1 / (1 + math.exp(-1)))
    assert choice.mass == 0.0


@pytest.mark.parametrize(
    "found", [{}, {"P": -1.0}, {"P": -1.0, "N": math.nan}, {"P": -1.0, "N": 0.5}, logs(P=0.0, N=0.0)]
)
def test_no_decision_is_an_error_and_no_default(found):
    with pytest.raises(JudgeParseError):
        read_choice(found, ("P", "N"))


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("<score>3</score>", 3),
        ("<think><score>1</score> or so</think><score> 5 </score>.", 5),
        ("<score>5.0</score>", 5),
    ],
)
def test_last_score_of_a_text_counts(text, score):
    assert parse_score(text) == score


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "<score>2</score>",
        "<score>3.5</score>",
        "<score>6</score>",
        "<score>5",
        "<score>3</score>, no, <score>9</score>",
    ],
)
def test_text_without_a_score_is_an_error_that_shows_it(text):
    with pytest.raises(JudgeParseError, match="<score>"):
        parse_score(text)
