from dataclasses import replace

import numpy as np
import pytest

from spear_ray.config import load
from spear_ray.dialogue import Status
from spear_ray.errors import ConfigError
from spear_ray.judging.clips import mixed
from spear_ray.judging.prompts import stance_texts
from spear_ray.judging.stances import IDS
from spear_ray.scorers.stance import StanceScorer
from spear_ray.sides import question_clip
from tests.clips import dialogue_of, silence, speech
from tests.judge_server import Asked, decides, judged, running

TEXTS = stance_texts()["stances"]
P_LIKELY = decides(P=0.8, N=0.1)


def scorer(url: str, *words: str) -> StanceScorer:
    judge = ["judge.engine=endpoint", f"judge.base_url={url}", "judge.model=m", "judge.retries=0"]
    made = StanceScorer(load([*judge, *words]).scorer.stance)
    made.setup()
    return made


def spoken(**changes):
    return replace(dialogue_of(answer=speech(4, voice=1)), **changes)


def stance_in(asked: Asked) -> str:
    return next(name for name, texts in TEXTS.items() if texts["question"] in asked.texts[0])


def first_letter(asked: Asked) -> str:
    texts = TEXTS[stance_in(asked)]
    return "P" if asked.texts[0].index(texts["P"]) < asked.texts[0].index(texts["N"]) else "N"


def test_ten_stances_in_both_orders_on_one_clip():
    dialogue = spoken()
    with running(P_LIKELY) as server:
        (row,) = scorer(server.url).score([dialogue])
    asked = judged(server)
    assert sorted((stance_in(one), first_letter(one)) for one in asked) == sorted(
        (name, letter) for name in IDS for letter in "PN"
    )
    clip = mixed(question_clip(dialogue, "mixed", with_context=True), dialogue.answer, 0.3, 90)
    for one in asked:
        assert one.kinds == ["input_audio", "text"]
        np.testing.assert_array_equal(one.clips[0], clip)
    assert row.status == Status.OK
    assert {key: row.metrics[key] for key in ("stance_score_Q0", "stance_probability_Q9")} == pytest.approx(
        {"stance_score_Q0": 2.0, "stance_probability_Q9": 8 / 9}
    )
    assert (row.metrics["flip_rate"], row.metrics["mass"]) == (0.0, pytest.approx(0.9))
    assert "same_stance" not in row.metrics


def test_liking_for_the_first_description_cancels_and_is_counted():
    def first(asked: Asked):
        letter = first_letter(asked)
        return decides(**{letter: 0.9, "N" if letter == "P" else "P": 0.05})

    with running(first) as server:
        (row,) = scorer(server.url).score([spoken()])
    assert row.metrics["flip_rate"] == 1.0
    assert {row.metrics[f"stance_score_{name}"] for name in IDS} == {0.0}
    assert row.metrics["stance_probability_Q4"] == pytest.approx(0.5)


def test_acted_role_is_compared_and_never_told():
    roles = {"target_role": "Timid", "target_category": "Inhibition"}
    with running(P_LIKELY) as server:
        (row,) = scorer(server.url).score([spoken(roles=roles, question_text="Shall we?")])
    assert (row.metrics["same_stance"], row.metrics["more_negative"], row.metrics["more_positive"]) == (0, 1, 0)
    assert row.details["target"] == ["Q3", "Inhibition"]
    for asked in judged(server):
        assert "Timid" not in str(asked.body["messages"])
        assert "Shall we?" not in str(asked.body["messages"])
        assert "Inhibition" not in str(asked.body["messages"])


def test_spearbenchs_way_tells_the_role_and_asks_only_its_stance():
    roles = {"target_role": "Timid", "target_category": "Inhibition", "relationship": "strangers"}
    with running(P_LIKELY) as server:
        rows = scorer(server.url, "preset=spearbench").score(
            [spoken(roles=roles, question_text="Shall we?"), spoken(dialogue_id="other")]
        )
    assert [(row.status, row.code) for row in rows] == [(Status.OK, None), (Status.SKIPPED, "stance_no_target")]
    assert [stance_in(asked) for asked in judged(server)] == ["Q3", "Q3"]
    text = judged(server)[0].texts[0]
    assert all(word in text for word in ("act Timid", "Inhibition", "strangers", "Shall we?"))


def test_stancebenchs_clips_are_the_target_alone_and_for_three_stances_what_came_before():
    with running(P_LIKELY) as server:
        scorer(server.url, "scorer.stance.layout=stancebench").score([spoken()])
    clips = {stance_in(asked): len(asked.clips) for asked in judged(server)}
    assert clips == {name: 2 if name in ("Q7", "Q8", "Q9") else 1 for name in IDS}


def test_times_in_the_question_are_those_of_the_clip():
    with running(P_LIKELY) as server:
        scorer(server.url, "scorer.stance.questions=[Q0]").score([spoken()])
    assert "from second 3.3 on" in judged(server)[0].texts[0]
    assert "until second 3.0" in judged(server)[0].texts[0]


@pytest.mark.parametrize(
    ("dialogue", "code"),
    [
        (dialogue_of(answer=silence(2)), "no_speech"),
        (dialogue_of(answer=speech(3), question=silence(3)), "question_no_speech"),
        (dialogue_of(answer=speech(89)), "too_long"),
    ],
)
def test_what_cannot_be_judged_is_skipped(dialogue, code):
    with running(P_LIKELY) as server:
        (row,) = scorer(server.url).score([dialogue])
    assert (row.status, row.code) == (Status.SKIPPED, code)
    assert not server.asked


@pytest.mark.parametrize(
    ("deed", "code"),
    [(500, "judge_endpoint_failed"), (decides(yes=0.9), "judge_parse_error"), ("drop", "judge_endpoint_unreachable")],
)
def test_one_failed_question_fails_its_row_and_no_other(deed, code):
    good = [P_LIKELY] * 7
    with running(*good, deed, P_LIKELY) as server:
        words = ["scorer.stance.questions=[Q0,Q5]", "judge.concurrency=1"]
        rows = scorer(server.url, *words).score([spoken(dialogue_id=f"d{n}") for n in range(3)])
    assert [(row.dialogue_id, row.code) for row in rows] == [("d0", None), ("d1", code), ("d2", None)]
    assert rows[1].details["stance"] == "Q5"


def test_row_does_not_depend_on_order_or_company():
    def by_loudness(asked: Asked):
        level = float(np.sqrt(np.mean(asked.clips[0] ** 2)))
        return decides(P=min(0.9, 10 * level), N=0.05)

    dialogues = [spoken(dialogue_id=f"d{n}", answer=speech(3 + n, voice=1)) for n in range(3)]
    with running(by_loudness) as server:
        made = scorer(server.url, "scorer.stance.questions=[Q1]")
        together = {row.dialogue_id: row.metrics for row in made.score(dialogues)}
        backwards = {row.dialogue_id: row.metrics for row in made.score(dialogues[::-1])}
        alone = {one.dialogue_id: made.score([one])[0].metrics for one in dialogues}
    assert together == backwards == alone


@pytest.mark.parametrize(
    "word", ["questions=[]", "questions=[Q0,Q0]", "questions=[Q10]", "layout=other", "most_seconds=0"]
)
def test_wrong_settings_are_named(word):
    with pytest.raises(ConfigError, match=r"scorer\.stance"):
        load([f"scorer.stance.{word}"])
