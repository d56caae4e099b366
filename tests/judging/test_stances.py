import json

import pytest

from spear_ray.errors import FieldInvalid
from spear_ray.judging.choice import read_choice
from spear_ray.judging.prompts import stance_texts
from spear_ray.judging.stance_rows import CHOICES, ORDERS, compared, judgement
from spear_ray.judging.stances import IDS, STANCES, Target, flipped, mapped, target_of
from tests.golden_cases import GOLDEN

RECORDED = json.loads((GOLDEN / "stance_score_cases.json").read_text())["scores"]


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case['choice'].strip()}-{case['probability']}")
def test_recorded_scores(case):
    assert mapped(case["choice"], float(case["probability"])) == case["score"]


def test_other_choices_are_refused():
    with pytest.raises(FieldInvalid, match="must be P or N"):
        mapped("X", 0.9)


def test_ids_are_spearbenchs_and_stancebenchs_shift_after_the_sixth():
    assert tuple(f"Q{place}" for place in range(10)) == IDS
    assert [stance.stancebench for stance in STANCES] == ["S0", "S1", "S2", "S3", "S4", "S5", "", "S6", "S7", "S8"]
    assert [stance.id for stance in STANCES if stance.interaction] == ["Q7", "Q8", "Q9"]


def test_each_stance_has_a_question_and_both_descriptions():
    asked = stance_texts()["stances"]
    assert tuple(asked) == IDS
    for texts in asked.values():
        assert texts["question"].endswith("?")
        assert [texts[letter][:3] for letter in ("P", "N")] == ["P: ", "N: "]


def test_no_role_or_category_belongs_to_two_poles():
    words = [w.lower() for s in STANCES for w in (*s.positive_roles, *s.negative_roles)]
    assert len(words) == len(set(words)) == 76
    assert len({w for s in STANCES for w in s.categories}) == 21


@pytest.mark.parametrize(
    ("role", "category", "expected"),
    [
        ("friendly", "", ("Q0", 1, "Warmth")),
        ("Timid", "Inhibition", ("Q3", -1, "Inhibition")),
        ("", "avoidance", ("Q9", 1, "avoidance")),
        ("nobody knows", "Dominance", ("Q8", -1, "Dominance")),
    ],
)
def test_role_or_category_tells_stance_and_pole(role, category, expected):
    found = target_of(role, category)
    assert (found.stance.id, found.pole, found.category) == expected


@pytest.mark.parametrize(("role", "category"), [("", ""), ("Tall", "Height"), (" ", " ")])
def test_unknown_words_tell_nothing(role, category):
    assert target_of(role, category) is None


def decided(*positives):
    import math

    return judgement([read_choice({"P": math.log(p / 2), "N": math.log((1 - p) / 2)}, CHOICES) for p in positives])


def test_both_orders_are_averaged():
    found = decided(0.9, 0.6)
    assert (found.scores, found.score, found.flipped) == ((2, 1), 1.5, False)
    assert found.metrics("Q3") == pytest.approx({"stance_score_Q3": 1.5, "stance_probability_Q3": 0.75})
    assert found.mass == pytest.approx(0.5)
    assert ORDERS == (("P", "N"), ("N", "P"))


def test_liking_for_the_first_description_is_a_flip_and_no_stance():
    found = decided(0.9, 0.1)
    assert (found.score, found.flipped) == (0.0, True)
    assert not flipped((0, -2))


@pytest.mark.parametrize(
    ("positives", "pole", "category", "expected"),
    [
        ((0.99, 0.99), 1, "Warmth", (1, 0, 0)),
        ((0.6, 0.6), 1, "Warmth", (1, 1, 0)),
        ((0.1, 0.1), 1, "Warmth", (0, 1, 0)),
        ((0.9, 0.9), -1, "Coldness", (0, 0, 1)),
        ((0.9, 0.9), -1, "Aggression", (0, 1, 0)),
        ((0.9, 0.1), 1, "Warmth", (0, 1, 0)),
    ],
)
def test_comparison_with_the_acted_role(positives, pole, category, expected):
    found = compared(decided(*positives), Target(STANCES[0], pole, category))
    assert tuple(found.values()) == expected
