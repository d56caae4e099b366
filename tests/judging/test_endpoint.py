import json

import numpy as np
import pytest

from spear_ray.dialogue import Problem
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.judging.asking import Failed, Prompt, Reply, Written, ask
from spear_ray.judging.endpoint import EndpointEngine
from spear_ray.judging.settings import JudgeSettings, check_judge, identity, missing_judge
from spear_ray.pcm import on_16_bits
from tests.judge_server import Asked, decides, judged, running, says

CLIP = on_16_bits(np.linspace(-0.5, 0.5, 1600, dtype=np.float32))
CHOICES = ("1", "3", "5")
GOOD = decides(_1=0.1, _3=0.2, _5=0.6)
PROMPT = Prompt((CLIP, "Rate it."), opening="<score>")


def engine(url: str, **settings) -> EndpointEngine:
    return EndpointEngine(JudgeSettings(engine="endpoint", base_url=url, model="m", backoff_s=0.01, **settings))


def chosen(url: str, *prompts: Prompt, **settings) -> list[Reply | Failed]:
    return engine(url, **settings).choose(prompts or [PROMPT], CHOICES)


def test_clip_and_question_arrive_as_they_are_and_the_clip_comes_first():
    with running(GOOD) as server:
        chosen(server.url, Prompt((CLIP, "Rate it."), system="You listen.", opening="<score>"))
    (asked,) = judged(server)
    assert asked.kinds == ["input_audio", "text"]
    np.testing.assert_array_equal(asked.clips[0], CLIP)
    assert asked.texts == ["Rate it."]
    roles = [(one["role"], one["content"]) for one in asked.body["messages"] if one["role"] != "user"]
    assert roles == [("system", "You listen."), ("assistant", "<score>")]


def test_answer_is_one_token_out_of_the_choices_and_their_log_probabilities():
    with running(GOOD) as server:
        (reply,) = chosen(server.url)
    body = judged(server)[0].body
    assert (body["max_tokens"], body["temperature"], body["logprobs"]) == (1, 0, True)
    assert body["allowed_token_ids"] == body["logprob_token_ids"] == [16, 18, 20]
    assert "structured_outputs" not in body, "its mask would come before the log-probabilities"
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)
    assert {label: np.exp(value) for label, value in reply.log_probabilities.items()} == pytest.approx(
        {"1": 0.1, "3": 0.2, "5": 0.6}
    )


def test_tokens_are_asked_for_once():
    with running(GOOD) as server:
        held = engine(server.url)
        for _ in range(3):
            held.choose([PROMPT, PROMPT], CHOICES)
    assert sum(asked.path == "/tokenize" for asked in server.asked) == 3
    assert len(judged(server)) == 6


def test_server_of_another_kind_gets_no_words_that_it_does_not_know():
    with running(GOOD) as server:
        (reply,) = chosen(server.url, server="openai")
    assert isinstance(reply, Reply)
    assert {asked.path for asked in server.asked} == {"/v1/chat/completions"}
    body = judged(server)[0].body
    assert not body.keys() & {"allowed_token_ids", "logprob_token_ids", "continue_final_message"}
    assert [one["role"] for one in body["messages"]] == ["user"]


def test_many_prompts_keep_their_order():
    def by_length(asked: Asked):
        return decides(_1=len(asked.clips[0]) / 10_000, _3=0.1, _5=0.1)

    lengths = [900, 100, 2000, 300, 1500, 40]
    with running(by_length) as server:
        replies = chosen(server.url, *(Prompt((np.zeros(length, np.float32), "x")) for length in lengths))
    found = [np.exp(reply.log_probabilities["1"]) * 10_000 for reply in replies]
    assert found == pytest.approx(lengths)


# What can go wrong.


@pytest.mark.parametrize(
    ("deed", "code"),
    [
        (500, "judge_endpoint_failed"),
        (401, "judge_endpoint_refused"),
        ("drop", "judge_endpoint_unreachable"),
        ("short", "judge_endpoint_unreachable"),
        (b"no json", "judge_endpoint_answer"),
        ({"choices": []}, "judge_endpoint_answer"),
        ({"choices": [{"message": {"content": "5"}}]}, "judge_endpoint_answer"),
        (says("five"), "judge_endpoint_answer"),
        (decides(_5=0.6, no=0.4), "judge_parse_error"),
        (decides(a=0.5, b=0.5), "judge_parse_error"),
    ],
)
def test_failures_are_said_with_a_code_and_nothing_is_made_up(deed, code):
    with running(deed) as server:
        (found,) = chosen(server.url, retries=0)
    assert isinstance(found, Failed)
    assert found.problem.code == code


@pytest.mark.parametrize("deed", ["hang", "half", "slow"])
def test_server_that_never_ends_is_left(deed):
    with running(deed) as server:
        (found,) = chosen(server.url, timeout_s=0.4, retries=0)
    assert found.problem.code == "judge_endpoint_timeout"


def test_failure_that_passes_costs_a_try_and_no_row():
    with running(503, "drop", GOOD) as server:
        (found,) = chosen(server.url, retries=2)
    assert isinstance(found, Reply)


def test_server_that_dies_midway_fails_only_what_it_did_not_answer():
    with running(GOOD, GOOD, "drop") as server:
        found = chosen(server.url, *[PROMPT] * 5, retries=0, concurrency=1)
    assert [type(one) for one in found] == [Reply, Reply, Failed, Failed, Failed]


def test_choice_that_is_not_listed_may_be_negligible():
    with running(decides(_3=0.5, _5=0.49999, other=1e-6)) as server:
        (found,) = chosen(server.url)
    assert found.log_probabilities["1"] == -np.inf


def test_choice_of_several_tokens_is_refused():
    with running(GOOD) as server:
        found = engine(server.url).choose([PROMPT], ["13", "5"])
    assert [one.problem.code for one in found] == ["judge_parse_error"]


def test_key_is_sent_and_never_said(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "geheim")
    with running(401) as server:
        (found,) = chosen(server.url, key_variable="SOME_KEY", retries=0)
    assert {asked.authorization for asked in server.asked} == {"Bearer geheim"}
    settings = JudgeSettings(engine="endpoint", base_url=server.url, model="m", key_variable="SOME_KEY")
    assert "geheim" not in repr(found) + json.dumps(dict(identity(settings)))


# A judge that thinks first.


def test_thoughts_come_before_the_decision():
    with running(says("Words fit. Voice too."), GOOD) as server:
        (found,) = ask(engine(server.url), [PROMPT], CHOICES, reasoning_tokens=64)
    assert found.thoughts == "Words fit. Voice too."
    first, second = judged(server)
    assert first.body["messages"][-1] == {"role": "assistant", "content": "<think>"}
    assert (first.body["stop"], first.body["max_tokens"]) == (["</think>"], 64)
    opened = "<think>Words fit. Voice too.</think>\n<score>"
    assert second.body["messages"][-1] == {"role": "assistant", "content": opened}


def test_thoughts_without_an_end_are_an_error_that_keeps_them():
    with running(says("and on and on", "length")) as server:
        (found,) = ask(engine(server.url), [PROMPT], CHOICES, reasoning_tokens=8)
    assert (found.problem.code, found.said) == ("judge_reasoning_cut", "and on and on")


def test_decision_that_fails_after_thoughts_keeps_them():
    with running(says("hm"), 500, says("well"), GOOD) as server:
        held = engine(server.url, retries=0, concurrency=1)
        first = ask(held, [PROMPT], CHOICES, reasoning_tokens=8)
        second = ask(held, [PROMPT], CHOICES, reasoning_tokens=8)
    assert (first[0].problem.code, first[0].said) == ("judge_endpoint_failed", "hm")
    assert isinstance(second[0], Reply)


def test_free_text_is_read():
    with running(says("so")) as server:
        assert engine(server.url).write([PROMPT], 5, "x") == [Written("so", True)]


# Settings.


@pytest.mark.parametrize(
    "settings",
    [
        {"engine": "magic"},
        {"dtype": "int8"},
        {"server": "other", "engine": "endpoint"},
        {"engine": "endpoint", "model": "m"},
        {"engine": "endpoint", "base_url": "ftp://x", "model": "m"},
        {"engine": "endpoint", "base_url": "http://x"},
        {"gpu_memory": 0.0},
        {"tensor_parallel": 0},
        {"restarts": -1},
        {"reasoning_tokens": -1},
    ],
)
def test_wrong_settings_are_named(settings):
    with pytest.raises(ConfigError, match=r"judge"):
        check_judge("judge", JudgeSettings(**settings))


def test_missing_key_and_missing_checkpoint_are_said(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    settings = JudgeSettings(engine="endpoint", base_url="http://x", model="m", key_variable="SOME_KEY")
    assert isinstance(missing_judge("judge", settings), PrerequisiteError)
    local = missing_judge("judge", JudgeSettings(checkpoint="/nowhere"))
    assert local is not None
    assert "vllm" in str(local).lower() or "/nowhere" in str(local)


def test_prompt_holds_its_clips():
    assert [clip.size for clip in Prompt((CLIP, "a", CLIP[:3])).clips] == [1600, 3]
    assert Failed(Problem("a", "b")).said == ""
