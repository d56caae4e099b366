"""The real API over HTTP: its rows are those of the batch job's scorers, and what is wrong is said."""

import io
import json
import socket
import threading
import time
import urllib.parse

import httpx
import numpy as np
import psutil
import pytest
import soundfile

from spear_ray.client import ApiFailure, Client
from spear_ray.config import load
from spear_ray.scorers import scorer_type
from spear_ray.single import score_file
from spear_ray.stages import score_safely
from tests.clips import dialogue_of, speech
from tests.serving.api_server import serving

pytestmark = pytest.mark.cluster

NAMES = ("vad", "turn_taking", "prosody")
WORDS = (f"scorers=[{','.join(NAMES)}]", "serve.max_bytes=4000000", "serve.max_seconds=60", "serve.max_items=8")
TOKEN = "open sesame 1"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("api"), WORDS, SPEAR_API_TOKEN=TOKEN) as address:
        yield address


@pytest.fixture
def client(url):
    with Client(url, token=TOKEN) as made:
        yield made


@pytest.fixture(scope="module")
def scorers():
    config = load(list(WORDS))
    made = [scorer_type(name)(getattr(config.scorer, name)) for name in NAMES]
    for one in made:
        one.setup()
    return made


def wav(samples, rate=16_000, kind="WAV", subtype="FLOAT"):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=kind, subtype=subtype)
    return file.getvalue()


def exchange(number=0):
    """Question and answer, and the fields of a request about them."""
    question, answer = speech(2 + number / 4), speech(2.5 + number / 3, 1)
    who = {"system": "robot", "split": "test", "subset": "improvised", "conversation_id": f"c-d{number}"}
    return wav(question), wav(answer), {"id": f"d{number}", "answer_start_s": 0.3, **who}


def expected_rows(scorers, number=0):
    dialogue = dialogue_of(answer=speech(2.5 + number / 3, 1), question=speech(2 + number / 4), name=f"d{number}")
    found = []
    for scorer in scorers:
        (score,) = score_safely(scorer, [dialogue])
        found.append((scorer.name, str(score.status), dict(score.metrics), score.fingerprint))
    return found


def told(rows):
    return [(row.scorer, row.status, row.metrics, row.fingerprint) for row in rows]


def test_rows_equal_those_of_the_scorers_alone(client, scorers):
    for number in range(4):
        question, answer, request = exchange(number)
        reply = client.score(question=question, answer=answer, request=request)
        assert told(reply.rows) == expected_rows(scorers, number)
        assert {row.dialogue_id for row in reply.rows} == {f"d{number}"}


def test_rows_are_the_same_when_many_ask_at_once(url, scorers):
    expected = [expected_rows(scorers, number) for number in range(4)]
    found = {}

    def ask(place):
        question, answer, request = exchange(place % 4)
        with Client(url, token=TOKEN) as own:
            found[place] = told(own.score(question=question, answer=answer, request=request).rows)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {place: found[place] == expected[place % 4] for place in range(24)} == dict.fromkeys(range(24), True)


@pytest.mark.parametrize(("kind", "subtype"), [("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", None)])
def test_other_formats_are_read(client, kind, subtype):
    channels = np.stack([speech(3), np.roll(speech(3, 1), 8000)], axis=1)
    reply = client.score(
        audio=wav(channels, kind=kind, subtype=subtype), request={"question_end_s": 2.0, "scorers": ["vad"]}
    )
    assert [row.status for row in reply.rows] == ["ok"]


def test_batch_answers_in_the_order_of_the_request_and_says_what_fails(client, scorers):
    files, items = [], []
    for number in range(3):
        question, answer, request = exchange(number)
        items.append({**request, "question": len(files), "answer": len(files) + 1})
        files += [question, answer]
    items.insert(1, {"id": "bad", "answer_start_s": 0.0, "question": len(files), "answer": 1})
    items.insert(2, {"id": "gone", "answer_start_s": 0.0, "question": 0, "answer": 99})
    lines = list(client.score_batch([*files, b"no audio"], {"items": items}))
    assert [line.id for line in lines] == ["d0", "bad", "gone", "d1", "d2"]
    assert [line.error.code if line.error else None for line in lines] == [
        None,
        "audio_format",
        "file_missing",
        None,
        None,
    ]
    for number, line in enumerate(line for line in lines if line.rows):
        assert told(line.rows) == expected_rows(scorers, number)


def test_single_scorers_can_be_asked_for(client):
    question, answer, request = exchange()
    reply = client.score(question=question, answer=answer, request={**request, "scorers": ["prosody", "vad"]})
    assert [row.scorer for row in reply.rows] == ["prosody", "vad"]


def failure(client, **content):
    with pytest.raises(ApiFailure) as raised:
        client.score(**content)
    return raised.value.status, raised.value.code


def test_wrong_requests_have_their_codes(client):
    question, answer, request = exchange()
    two = {"question": question, "answer": answer}
    short = wav(np.zeros((100, 2), dtype=np.float32))
    assert failure(client, **two, request={**request, "scorers": ["nothing"]}) == (400, "scorer_unknown")
    assert failure(client, **two) == (400, "field_missing")
    assert failure(client, question=question, request=request) == (400, "files_wrong")
    assert failure(client, request=request) == (400, "files_wrong")
    assert failure(client, **two, audio=question, request=request) == (400, "files_wrong")
    assert failure(client, **two, request={**request, "question_end_s": 99.0}) == (400, "time_out_of_range")
    assert failure(client, **{**two, "answer": b"RIFF"}, request=request) == (415, "audio_format")
    assert failure(client, **{**two, "answer": b""}, request=request)[0] == 422
    assert failure(client, audio=question, request={"question_end_s": 1.0}) == (422, "audio_channels")
    assert failure(client, audio=short, request={"question_end_s": 0.001}) == (422, "audio_too_short")
    assert failure(client, **{**two, "answer": wav(speech(61), subtype="PCM_16")}, request=request) == (
        422,
        "audio_too_long",
    )


def test_too_much_is_refused_before_it_is_read(url):
    place = urllib.parse.urlsplit(url)
    head = (
        f"POST /v1/score HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 99999999999\r\n\r\n"
    )
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.sendall(head.encode())
        answer = connection.recv(4000).decode()
    assert answer.startswith("HTTP/1.1 413")


def test_too_much_is_refused_while_it_is_read(url):
    def chunks():
        yield b'--x\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
        for _ in range(100):
            yield bytes(100_000)

    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "multipart/form-data; boundary=x"}
    try:
        answer = httpx.post(f"{url}/v1/score", content=chunks(), headers=headers, timeout=60)
    except httpx.WriteError:
        return  # it hung up while we were still writing
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("GET", "/v1/score", {}, 405),
        ("POST", "/v1/score", {"content": b"{}", "headers": {"Content-Type": "application/json"}}, 400),
        ("POST", "/v1/score", {"content": b"--x", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}, 400),
        ("POST", "/v1/score", {"data": {"request": "{"}}, 400),
        ("POST", "/v1/score", {"data": {"audio": "http://169.254.169.254/"}}, 400),
        ("POST", "/v1/score/batch", {"data": {"request": '{"items": []}'}}, 400),
    ],
)
def test_damaged_requests_are_no_server_error(url, method, path, content, status):
    headers = {"Authorization": f"Bearer {TOKEN}", **content.pop("headers", {})}
    answer = httpx.request(method, f"{url}{path}", headers=headers, timeout=60, **content)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("token", ["", "wrong", f"{TOKEN}x"])
def test_without_the_token_there_are_no_rows(url, token):
    with Client(url, token=token) as stranger:
        with pytest.raises(ApiFailure) as raised:
            stranger.scorers()
        assert (raised.value.status, raised.value.code) == (401, "unauthorised")
        assert stranger.healthy()


def test_request_id_is_told_and_kept(url):
    question, answer, request = exchange()
    given = {"Authorization": f"Bearer {TOKEN}", "X-Request-Id": "abc-1"}
    content = {"files": {"question": question, "answer": answer}, "data": {"request": json.dumps(request)}}
    told_back = httpx.post(f"{url}/v1/score", headers=given, timeout=60, **content)
    assert told_back.headers["x-request-id"] == told_back.json()["request_id"] == "abc-1"
    assert len(httpx.get(f"{url}/healthz").headers["x-request-id"]) > 30


def test_late_scorer_is_an_error_row_and_the_next_request_is_fine(client):
    question, answer, request = exchange(1)
    reply = client.score(question=question, answer=answer, request={**request, "deadline_s": 0.001})
    assert {row.code for row in reply.rows if row.status == "error"} == {"timeout"}
    assert all(row.fingerprint for row in reply.rows)
    again = client.score(question=question, answer=answer, request=request)
    assert {row.status for row in again.rows} == {"ok"}


def test_client_that_hangs_up_spoils_nothing(url, client, scorers):
    question, answer, request = exchange(2)
    content = {"files": {"question": question, "answer": answer}, "data": {"request": json.dumps(request)}}
    for _ in range(6):
        with pytest.raises(httpx.TimeoutException):
            httpx.post(
                f"{url}/v1/score",
                headers={"Authorization": f"Bearer {TOKEN}"},
                timeout=httpx.Timeout(5, read=0.005),
                **content,
            )
    reply = client.score(question=question, answer=answer, request=request)
    assert told(reply.rows) == expected_rows(scorers, 2)


def test_scorers_tell_their_metrics_and_fingerprints(client, scorers):
    found = {info.name: info for info in client.scorers().scorers}
    assert set(found) == set(NAMES)
    for scorer in scorers:
        info = found[scorer.name]
        assert (info.version, info.fingerprint, info.status) == (scorer.version, scorer.fingerprint, "ok")
        assert [metric.name for metric in info.metrics] == [metric.name for metric in scorer.metrics]


def test_command_asks_a_running_api(url, tmp_path, monkeypatch, scorers):
    monkeypatch.setenv("SPEAR_API_TOKEN", TOKEN)
    path = tmp_path / "call.wav"
    path.write_bytes(wav(np.stack([speech(3), np.roll(speech(3, 1), 8000)], axis=1)))
    local, remote = io.StringIO(), io.StringIO()
    words = ["question_end_s=2.0", "answer_start_s=0.1", "scorers=[vad]"]
    assert score_file(str(path), words, local) == score_file(str(path), ["--server", url, *words], remote) == 0
    assert json.loads(remote.getvalue()) == json.loads(local.getvalue())


def test_document_of_the_api_is_complete(url):
    document = httpx.get(f"{url}/openapi.json").json()
    assert set(document["paths"]) == {"/healthz", "/v1/scorers", "/v1/score", "/v1/score/batch"}
    assert httpx.get(f"{url}/docs").status_code == 200
    for path in ("/v1/score", "/v1/score/batch"):
        assert {"200", "400", "401", "413", "415", "422", "503"} <= set(document["paths"][path]["post"]["responses"])


def test_api_is_still_well_after_all_this(url):
    begun = time.monotonic()
    with Client(url, token=TOKEN) as own:
        assert own.healthy()
    assert time.monotonic() - begun < 30


def test_replica_that_is_killed_under_load_loses_no_request(url, scorers):
    """Each request is answered, by another replica or with 503; none hangs."""
    found, stop = [], threading.Event()

    def ask():
        question, answer, request = exchange(1)
        with Client(url, token=TOKEN, timeout_s=100) as own:
            while not stop.is_set():
                try:
                    found.append(told(own.score(question=question, answer=answer, request=request).rows))
                except ApiFailure as error:
                    found.append(error.status)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    for process in _replicas("vad"):
        process.kill()
    time.sleep(8)
    stop.set()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    expected = expected_rows(scorers, 1)
    assert all(one in (expected, 503) for one in found), [one for one in found if one not in (expected, 503)][:2]
    assert found.count(expected) > 4
    question, answer, request = exchange(1)
    with Client(url, token=TOKEN) as own:
        assert told(own.score(question=question, answer=answer, request=request).rows) == expected


def _replicas(name):
    found = [one for one in psutil.process_iter(["name", "cmdline"]) if f"ServeReplica:spear:{name}" in _title(one)]
    assert found, "the replica's process is found by its title"
    return found


def _title(process):
    return " ".join(process.info["cmdline"] or ())
