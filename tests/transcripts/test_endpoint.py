"""A recogniser behind HTTP: a real server on loopback that answers well or badly."""

import numpy as np
import pytest
from asr_server import GOOD, running

from spear_ray.dialogue import Problem
from spear_ray.errors import ConfigError
from spear_ray.remote import check_server, missing_key
from spear_ray.transcripts.endpoint import Endpoint, EndpointSettings
from spear_ray.transcripts.words import Heard, Word

CLIP = (0.5 * np.sin(np.arange(8000) / 20)).astype(np.float32)
HEARD = Heard("Hello there.", "en", (Word("Hello", 0.1, 0.4), Word("there.", 0.5, 0.9)))
KEY = "key-of-nobody-7261"


def endpoint(url: str, **settings) -> Endpoint:
    return Endpoint(EndpointSettings(**{"base_url": url, "retries": 0, "backoff_s": 0.0, "timeout_s": 20.0} | settings))


def test_a_clip_is_sent_as_wav_and_its_answer_read():
    with running() as server:
        assert endpoint(server.url, model="big").transcribe([CLIP]) == [HEARD]
    asked = server.asked[0]
    assert (asked.path, asked.rate_hz, asked.authorization) == ("/v1/audio/transcriptions", 16_000, None)
    assert dict(asked.fields) == {
        "model": "big", "response_format": "verbose_json", "temperature": "0", "timestamp_granularities[]": "word",
    }  # fmt: skip
    np.testing.assert_allclose(asked.samples, CLIP, atol=1 / 32767)


def test_samples_beyond_full_scale_are_limited():
    with running() as server:
        endpoint(server.url).transcribe([CLIP * 4])
    assert np.abs(server.asked[0].samples).max() == 1.0


def test_answers_come_in_the_order_of_the_clips():
    lengths = [4000, 16000, 8000, 1000, 12000]
    with running(*({"text": str(n)} for n in range(5))) as server:
        found = endpoint(server.url, concurrency=1).transcribe([np.zeros(n, dtype=np.float32) for n in lengths])
    assert [one.text for one in found] == list("01234")
    assert [asked.samples.size for asked in server.asked] == lengths


def test_a_path_before_v1_is_kept():
    with running() as server:
        endpoint(f"{server.url}/proxy/").transcribe([CLIP])
    assert server.asked[0].path == "/proxy/v1/audio/transcriptions"


@pytest.mark.parametrize(
    ("deed", "code"),
    [(500, "asr_endpoint_failed"), (503, "asr_endpoint_failed"), (429, "asr_endpoint_failed"),
     (401, "asr_endpoint_refused"), (400, "asr_endpoint_refused"), (307, "asr_endpoint_refused"),
     ("drop", "asr_endpoint_unreachable"), ("short", "asr_endpoint_unreachable"),
     (b"<html>", "asr_endpoint_answer"), (b"[1]", "asr_endpoint_answer"),
     (b"\xff\xfe\x00", "asr_endpoint_answer"), (b"[" * 100_000, "asr_endpoint_answer"),
     ({"text": 3}, "asr_endpoint_answer"), ({}, "asr_endpoint_answer")],
    ids=str,
)  # fmt: skip
def test_each_failure_has_its_code(deed, code):
    with running(deed) as server:
        found = endpoint(server.url).transcribe([CLIP])[0]
    assert isinstance(found, Problem)
    assert found.code == code
    assert len(server.asked) == 1


@pytest.mark.parametrize("deed", ["hang", "half", "slow"])
def test_a_server_that_never_finishes_is_given_up(deed):
    with running(deed) as server:
        found = endpoint(server.url, timeout_s=0.3).transcribe([CLIP])[0]
    assert isinstance(found, Problem)
    assert found.code == "asr_endpoint_timeout"


def test_an_answer_without_end_is_not_read_to_memory(monkeypatch):
    monkeypatch.setattr("spear_ray.remote.MOST_BYTES", 1000)
    with running(b'{"text": "' + b"a" * 500_000 + b'"}') as server:
        found = endpoint(server.url).transcribe([CLIP])[0]
    assert isinstance(found, Problem)
    assert found.code == "asr_endpoint_answer"


def test_no_server_is_unreachable():
    with running() as server:
        pass
    found = endpoint(server.url).transcribe([CLIP])[0]
    assert isinstance(found, Problem)
    assert found.code == "asr_endpoint_unreachable"


def test_a_host_that_cannot_be_is_unreachable_and_no_crash():
    found = endpoint(f"http://{'a' * 70}.invalid").transcribe([CLIP])[0]
    assert isinstance(found, Problem)
    assert found.code == "asr_endpoint_unreachable"


def test_what_may_pass_is_tried_again():
    with running(500, "drop", 429, GOOD) as server:
        assert endpoint(server.url, retries=3).transcribe([CLIP]) == [HEARD]
    assert len(server.asked) == 4


def test_tries_have_an_end():
    with running(503) as server:
        found = endpoint(server.url, retries=2).transcribe([CLIP])[0]
    assert (found.code, len(server.asked)) == ("asr_endpoint_failed", 3)


@pytest.mark.parametrize("deed", [400, 401, 404, b"no", 302])
def test_what_will_not_pass_is_not_tried_again(deed):
    with running(deed) as server:
        endpoint(server.url, retries=3).transcribe([CLIP])
    assert len(server.asked) == 1


def test_waits_double_and_have_a_limit(monkeypatch):
    waits = []
    monkeypatch.setattr("spear_ray.remote.time.sleep", waits.append)
    with running(500) as server:
        endpoint(server.url, retries=5, backoff_s=4.0).transcribe([CLIP])
    assert waits == [4.0, 8.0, 16.0, 30.0, 30.0]


def test_one_failure_leaves_the_other_clips():
    with running({"text": "a"}, 400, {"text": "c"}) as server:
        found = endpoint(server.url, concurrency=1).transcribe([CLIP] * 3)
    assert [type(one) for one in found] == [Heard, Problem, Heard]


def test_the_key_goes_to_the_server_and_nowhere_else(monkeypatch):
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    for deed in (GOOD, 401, 500, 302, "drop"):
        with running(deed) as server:
            made = endpoint(server.url, key_variable="SOME_KEY")
            found = made.transcribe([CLIP])[0]
        assert server.asked[0].authorization == f"Bearer {KEY}"
        assert len(server.asked) == 1, "a redirect would carry the key away"
        assert KEY not in repr(found) + repr(made.settings)


def test_a_key_that_is_not_there_is_named_without_its_value(monkeypatch):
    settings = EndpointSettings(base_url="http://x", key_variable="SOME_KEY")
    monkeypatch.delenv("SOME_KEY", raising=False)
    assert "SOME_KEY is not set" in str(missing_key("here", settings))
    monkeypatch.setenv("SOME_KEY", f"{KEY}\r\nX: y")
    assert KEY not in str(missing_key("here", settings))
    monkeypatch.setenv("SOME_KEY", KEY)
    assert missing_key("here", settings) is None
    assert missing_key("here", EndpointSettings(base_url="http://x")) is None


@pytest.mark.parametrize(
    "url",
    ["", "asr:8000", "ftp://asr", "file:///etc/passwd", "http://", "https://user:pass@asr", "http://asr?key=1",
     "http://asr:99999", "http://[::1"],
)  # fmt: skip
def test_only_plain_http_addresses_are_taken(url):
    with pytest.raises(ConfigError, match="base_url") as raised:
        check_server("scorer.transcript.endpoint", EndpointSettings(base_url=url))
    assert "pass@" not in str(raised.value)


@pytest.mark.parametrize("settings", [{"timeout_s": 0}, {"retries": -1}, {"backoff_s": -1}, {"concurrency": 0},
                                      {"model": ""}], ids=str)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(settings):
    with pytest.raises(ConfigError):
        check_server("here", EndpointSettings(base_url="http://asr:8000", **settings))


@pytest.mark.parametrize(
    "words",
    [None, [], "no", [{"word": "a"}], [{"word": "a", "start": "0", "end": 1}], [{"word": "a", "start": 2, "end": 1}],
     [{"word": "a", "start": -1, "end": 1}], [3], [{"word": 3, "start": 0, "end": 1}],
     [{"word": "a", "start": float("nan"), "end": 1}], [{"word": "a", "start": False, "end": True}]],
    ids=str,
)  # fmt: skip
def test_word_times_that_cannot_be_are_left_out_and_the_text_stays(words):
    with running({"text": "hi", "words": words}) as server:
        assert endpoint(server.url).transcribe([CLIP]) == [Heard("hi")]


def test_word_times_within_segments_are_found():
    inner = [{"word": " hi", "start": 0, "end": 1.5}]
    with running({"text": "hi", "segments": [{"words": inner}, {"words": None}, 3]}) as server:
        assert endpoint(server.url).transcribe([CLIP]) == [Heard("hi", None, (Word("hi", 0.0, 1.5),))]


def test_a_server_without_word_times_is_not_asked_for_them():
    with running() as server:
        endpoint(server.url, words=False).transcribe([CLIP])
    assert "timestamp_granularities[]" not in dict(server.asked[0].fields)
