from dataclasses import replace

import numpy as np
import pytest

from spear_ray.config import load
from spear_ray.dialogue import Problem, Status
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.judging import prompts
from spear_ray.judging.clips import exchange
from spear_ray.scorers.wavreward import WavRewardScorer
from spear_ray.sides import answer_clip, question_clip
from tests.clips import dialogue_of, noise, silence, speech
from tests.judge_server import decides, judged, running, says

GOOD = decides(_1=0.1, _3=0.1, _5=0.6)


def scorer(url: str, *words: str) -> WavRewardScorer:
    judge = ["judge.engine=endpoint", f"judge.base_url={url}", "judge.model=m", "judge.retries=0"]
    made = WavRewardScorer(load([*judge, *words]).scorer.wavreward)
    made.setup()
    return made


def test_row_holds_expected_score_label_mass_and_entropy():
    with running(GOOD) as server:
        (row,) = scorer(server.url).score([dialogue_of(answer=speech(4))])
    assert row.status == Status.OK
    p = np.array([0.1, 0.1, 0.6]) / 0.8
    assert row.metrics == pytest.approx(
        {
            "score": p @ [1, 3, 5],
            "label": 5.0,
            "fitting": 1.0,
            "wrong_words": 0.0,
            "mass": 0.8,
            "entropy": -np.sum(p * np.log(p)),
        }
    )
    assert row.details["probabilities"] == {"1": 0.125, "3": 0.125, "5": 0.75}


def test_judge_hears_the_last_turn_one_second_of_silence_and_the_answer():
    dialogue = dialogue_of(answer=speech(4, voice=1), question=speech(6), context_s=2.5)
    with running(GOOD) as server:
        scorer(server.url).score([dialogue])
    (asked,) = judged(server)
    question = question_clip(dialogue, "asking", with_context=False)
    assert question.size == 3.5 * 16_000
    np.testing.assert_array_equal(asked.clips[0], exchange(question, answer_clip(dialogue), 20, 45))
    assert asked.texts == ["\n\n".join(prompts.text(name) for name in prompts.WAVREWARD[:2])]


def test_judge_is_not_told_what_was_acted_or_said():
    told = {"target_role": "Warm", "target_category": "Warmth", "relationship": "friends"}
    dialogue = replace(dialogue_of(answer=speech(4)), roles=told, question_text="Are we?", answer_text="We are.")
    with running(GOOD) as server:
        scorer(server.url).score([dialogue])
    said = str(judged(server)[0].body["messages"])
    assert not [word for word in ("Warm", "friends", "Are we?", "We are.") if word in said]


@pytest.mark.parametrize(
    ("dialogue", "code"),
    [
        (dialogue_of(answer=silence(3)), "no_speech"),
        (dialogue_of(answer=noise(3)), "no_speech"),
        (dialogue_of(answer=speech(0.01)), "no_speech"),
        (dialogue_of(answer=speech(3), question=silence(3)), "question_no_speech"),
        (dialogue_of(answer=speech(45)), "too_long"),
        (dialogue_of(answer=speech(3), question=speech(22)), "too_long"),
    ],
)
def test_what_cannot_be_judged_is_skipped_and_the_judge_is_not_asked(dialogue, code):
    with running(GOOD) as server:
        (row,) = scorer(server.url).score([dialogue])
    assert (row.status, row.code, dict(row.metrics)) == (Status.SKIPPED, code, {})
    assert not server.asked


def test_unreadable_dialogue_is_an_error_row():
    with running(GOOD) as server:
        unreadable = replace(dialogue_of(answer=speech(3)), clip=None, problem=Problem("audio_empty", "no bytes"))
        rows = scorer(server.url).score([unreadable, dialogue_of(answer=speech(3))])
    assert [(row.status, row.code) for row in rows] == [(Status.ERROR, "audio_empty"), (Status.OK, None)]


@pytest.mark.parametrize(
    ("deed", "code"),
    [
        (500, "judge_endpoint_failed"),
        (b"<html>", "judge_endpoint_answer"),
        (decides(no=0.9), "judge_parse_error"),
        ("drop", "judge_endpoint_unreachable"),
    ],
)
def test_failing_judge_loses_no_row(deed, code):
    dialogues = [dialogue_of(answer=speech(3 + n), name=f"d{n}") for n in range(4)]
    with running(GOOD, deed, GOOD) as server:
        rows = scorer(server.url, "judge.concurrency=1").score(dialogues)
    assert [row.dialogue_id for row in rows] == ["d0", "d1", "d2", "d3"]
    assert [row.code for row in rows] == [None, code, None, None]
    assert [bool(row.metrics) for row in rows] == [True, False, True, True]


def test_what_the_judge_said_instead_is_kept():
    with running(decides(no=0.9)) as server:
        (row,) = scorer(server.url).score([dialogue_of(answer=speech(3))])
    assert row.details["said"] == "no"


def test_judge_that_would_rather_say_something_else_is_noted():
    with running(decides(_1=0.01, _3=0.01, _5=0.1, no=0.8)) as server:
        (row,) = scorer(server.url).score([dialogue_of(answer=speech(3))])
    assert "judge_low_mass" in row.details["notes"]
    assert row.metrics["mass"] == pytest.approx(0.12)


def test_thoughts_are_kept_and_asked_for_in_words():
    with running(says("The words fit."), GOOD) as server:
        (row,) = scorer(server.url, "judge.reasoning_tokens=50").score([dialogue_of(answer=speech(3))])
    assert row.details["thoughts"] == "The words fit."
    assert prompts.text(prompts.WAVREWARD[2]) in judged(server)[0].texts[0]


def prints(*words: str) -> str:
    return WavRewardScorer(
        load(["judge.engine=endpoint", "judge.base_url=http://a", "judge.model=m", *words]).scorer.wavreward
    ).fingerprint


def test_fingerprint_covers_judge_prompt_and_limits_but_not_patience(monkeypatch):
    plain = prints()
    for words in (
        ["judge.model=n"],
        ["judge.base_url=http://b"],
        ["scorer.wavreward.most_seconds=30"],
        ["judge.reasoning_tokens=9"],
    ):
        assert prints(*words) != plain
    assert prints("judge.timeout_s=1", "judge.concurrency=2", "judge.retries=9") == plain
    monkeypatch.setattr(prompts, "text", lambda name: f"other {name}")
    assert prints() != plain


def test_settings_of_one_scorer_stand_before_the_common_ones_whatever_the_order():
    words = ["scorer.stance.judge.model=special", "judge.model=common"]
    for order in (words, words[::-1]):
        config = load(["judge.engine=endpoint", "judge.base_url=http://a", *order])
        assert (config.scorer.stance.judge.model, config.scorer.wavreward.judge.model) == ("special", "common")
        assert config.scorer.stance.judge.base_url == "http://a"


def test_wrong_limits_are_named():
    for word in ("most_seconds=0", "most_question_s=-1", "min_speech_s=-1"):
        with pytest.raises(ConfigError, match=r"scorer\.wavreward"):
            load([f"scorer.wavreward.{word}"])


def test_judge_on_two_gpus_needs_two_gpus():
    both = [f"scorer.{name}.resources.num_gpus=2" for name in ("wavreward", "stance")]
    assert load(["judge.tensor_parallel=2", *both]).scorer.stance.judge.tensor_parallel == 2
    with pytest.raises(ConfigError, match=r"scorer\.stance\.resources\.num_gpus=2"):
        load(["judge.tensor_parallel=2", both[0]])


def test_without_judge_the_reason_says_what_to_do(monkeypatch):
    monkeypatch.setattr("spear_ray.judging.settings.find_spec", lambda name: None)
    reason = WavRewardScorer(load([]).scorer.wavreward).missing()
    assert isinstance(reason, PrerequisiteError)
    assert "spear_ray[vllm]" in str(reason)
    assert "judge.base_url" in str(reason)


def test_server_takes_no_gpu_of_ours():
    config = load(["profile=gpu", "judge.engine=endpoint", "judge.base_url=http://a", "judge.model=m"])
    assert config.scorer.wavreward.resources.num_gpus == 1
    made = WavRewardScorer(config.scorer.wavreward)
    assert (made.config.resources.num_gpus, made.shares) == (0, "")


def test_scorers_of_the_same_local_judge_share_it():
    from spear_ray.scorers.stance import StanceScorer

    config = load(["judge.checkpoint=/models/a", "scorer.stance.judge.reasoning_tokens=7"])
    ours, theirs = WavRewardScorer(config.scorer.wavreward), StanceScorer(config.scorer.stance)
    assert ours.shares == theirs.shares != ""
    other = load(["judge.checkpoint=/models/b"])
    assert WavRewardScorer(other.scorer.wavreward).shares != ours.shares
