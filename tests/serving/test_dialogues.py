import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from spear_ray.config import AudioConfig, DataConfig, load
from spear_ray.errors import (
    AudioChannels,
    AudioFormat,
    AudioTooLarge,
    AudioTooLong,
    ClusterError,
    ConfigError,
    FieldMissing,
    TimeOutOfRange,
)
from spear_ray.sample import SAMPLE_DIR
from spear_ray.serving.dialogues import RequestReader, limits
from spear_ray.serving.messages import ScoreRequest, row_of
from spear_ray.serving.problems import api_error
from spear_ray.sources import open_source
from spear_ray.sources.tables import read_csv
from spear_ray.store import Store
from tests.bundled import read_all, vad
from tests.clips import speech

READER = RequestReader(DataConfig(), AudioConfig())


def wav(samples, rate=16_000):
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format="WAV", subtype="FLOAT")
    return file.getvalue()


def sample_rows():
    """Of one folder of the sample: the metadata's rows with their files, and what the source makes of them."""
    folder = SAMPLE_DIR / "outputs" / "early" / "test" / "improvised"
    rows, _ = read_csv(Store(str(folder)), "metadata.csv", ())
    source = open_source(load(["data.systems=[early]", "data.subsets=[improvised]"]))
    return folder, rows, read_all(source)


def test_request_of_two_files_is_the_dialogue_of_the_batch_job():
    _, rows, dialogues = sample_rows()
    assert len(rows) == len(dialogues) > 2
    for row, expected in zip(rows, dialogues, strict=True):
        question, answer = (SAMPLE_DIR / Path(*Path(row[key]).parts[2:]) for key in ("audio_path", "answer_audio_path"))
        request = ScoreRequest(
            id=expected.dialogue_id,
            conversation_id=expected.conversation_id,
            system=expected.system,
            split=expected.split,
            subset=expected.subset,
            question_end_s=float(row["question_end_time"]),
            answer_start_s=float(row["answer_start_time"]),
            context_end_s=float(row["context_end_time"]),
            question_text=expected.question_text,
            answer_text=expected.answer_text,
            roles=dict(expected.roles),
        )
        found = READER.exchange(request, question.read_bytes(), answer.read_bytes(), question.name)
        np.testing.assert_array_equal(found.clip, expected.clip)
        np.testing.assert_array_equal(found.answer, expected.answer)
        assert vad().score([found]) == vad().score([expected])


def test_two_channel_file_is_a_recording():
    channels = np.stack([speech(2), speech(2, 1)], axis=1)
    found = READER.recording(ScoreRequest(question_end_s=1.0, answer_start_s=0.2), wav(channels))
    np.testing.assert_array_equal(found.clip, channels.T)
    assert (found.question_end_s, found.answer_start_s, found.system) == (1.0, 0.2, "request")


@pytest.mark.parametrize(
    ("request_", "audio", "error"),
    [
        (ScoreRequest(), wav(np.zeros((800, 2))), FieldMissing),
        (ScoreRequest(question_end_s=0.5), wav(speech(1)), AudioChannels),
        (ScoreRequest(question_end_s=9.0), wav(np.zeros((16_000, 2))), TimeOutOfRange),
        (ScoreRequest(question_end_s=0.5, context_end_s=0.7), wav(np.zeros((16_000, 2))), TimeOutOfRange),
        (ScoreRequest(question_end_s=0.5), b"no audio at all", AudioFormat),
    ],
)
def test_recordings_that_do_not_fit_are_refused(request_, audio, error):
    with pytest.raises(error):
        READER.recording(request_, audio)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({}, FieldMissing, "answer_start_s"),
        ({"answer_start_s": -9.0}, TimeOutOfRange, "answer_start_s=-9.0"),
        ({"answer_start_s": 0.0, "question_end_s": 9.0}, TimeOutOfRange, "question_end_s=9.0"),
    ],
)
def test_exchanges_whose_times_do_not_fit_are_refused_by_the_fields_own_names(fields, error, words):
    with pytest.raises(error, match=words):
        READER.exchange(ScoreRequest(**fields), wav(speech(1)), wav(speech(1)))


def test_limits_are_checked_before_and_while_decoding():
    strict = RequestReader(DataConfig(), limits(AudioConfig(), 50_000, 1.0))
    with pytest.raises(AudioTooLarge):
        strict.exchange(ScoreRequest(answer_start_s=0.0), wav(speech(2)), wav(speech(1)))
    with pytest.raises(AudioTooLong):
        RequestReader(DataConfig(), limits(AudioConfig(), 1 << 20, 1.0)).exchange(
            ScoreRequest(answer_start_s=0.0), wav(speech(2)), wav(speech(1))
        )
    data_limit = limits(replace(AudioConfig(), max_seconds=5.0), 1 << 20, 600.0)
    assert (data_limit.max_seconds, data_limit.max_bytes) == (5.0, 1 << 20)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AudioTooLarge("x"), 413),
        (AudioFormat("x"), 415),
        (AudioChannels("x"), 422),
        (FieldMissing("x"), 400),
        (ConfigError("x"), 400),
        (ClusterError("x"), 503),
    ],
)
def test_errors_have_the_status_of_whose_fault_they_are(error, status):
    told = api_error(error)
    assert told.status == status
    assert told.body == {"error": {"code": error.code, "message": "x"}}


@pytest.mark.parametrize(
    "text",
    [
        '{"question_end_s": "soon"}',
        '{"question_end_s": NaN}',
        '{"question_end_s": 1e400}',
        '{"unknown": 1}',
        '{"roles": {"shoe_size": "44"}}',
        '{"deadline_s": 0}',
        '{"id": ""}',
        "[]",
        "{",
    ],
)
def test_requests_with_wrong_fields_are_refused(text):
    with pytest.raises(ValueError, match="ScoreRequest"):
        ScoreRequest.model_validate_json(text)


def test_rows_are_sent_as_they_are():
    (score,) = vad().score([READER.exchange(ScoreRequest(answer_start_s=0.3), wav(speech(2)), wav(speech(1, 1)))])
    row = row_of(score)
    assert row.metrics == dict(score.metrics)
    assert (row.status, row.fingerprint, row.dialogue_id) == ("ok", score.fingerprint, "request")
