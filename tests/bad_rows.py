"""Rows of a data set that cannot be scored, with the code that each must get, and readers that need no Ray."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from datasets import RATE_HZ, Row, answer_bytes, audio_bytes, claiming, speech, tone

from spear_ray import packing
from spear_ray.config import load
from spear_ray.dialogue import Dialogue
from spear_ray.sources import Source, open_source

AUDIOS = "outputs/original/test/improvised/audios"


@dataclass(frozen=True)
class Case:
    """A row and the code that it must get; None where it must be scored."""

    row: Row
    code: str | None


def with_sample(value: float) -> bytes:
    samples = speech().answer.copy()
    samples[1000] = value
    return audio_bytes(samples, subtype="FLOAT")


def cut(kind: str, subtype: str | None = None) -> bytes:
    data = audio_bytes(speech().answer, kind=kind, subtype=subtype)
    return data[: len(data) // 2]


def answered(name: str, answer: bytes | None, code: str | None) -> Case:
    return Case(Row(name, answer=answer), code)


def asked(name: str, clip: bytes | None, code: str | None) -> Case:
    return Case(Row(name, clip=clip), code)


def said(name: str, code: str, **fields: str | None) -> Case:
    return Case(Row(name, fields=fields), code)


CASES = [
    answered("good", answer_bytes(), None),
    answered("Frage über Äpfel & 50 % 質問", answer_bytes(), None),
    answered("answer-empty-file", b"", "audio_empty"),
    asked("clip-empty-file", b"", "audio_empty"),
    answered("answer-is-text", b"Sorry, I cannot speak.\n" * 50, "audio_format"),
    asked("clip-is-text", b"Sorry, I cannot speak.\n" * 50, "audio_format"),
    answered("wav-cut", cut("WAV"), "audio_truncated"),
    answered("flac-cut", cut("FLAC"), "audio_truncated"),
    answered("ogg-cut", cut("OGG"), "audio_truncated"),
    answered("opus-cut", cut("OGG", "OPUS"), "audio_truncated"),
    answered("mp3-cut", cut("MP3"), "audio_truncated"),
    answered("claims-hours", claiming(answer_bytes(), 0x7000_0000), "audio_truncated"),
    answered("no-samples", audio_bytes(np.zeros(0)), "audio_empty"),
    answered("ten-milliseconds", audio_bytes(speech().answer[:160]), "audio_too_short"),
    answered("nan", with_sample(np.nan), "audio_not_finite"),
    answered("inf", with_sample(np.inf), "audio_not_finite"),
    asked("five-channels", audio_bytes(tone(440, channels=5)), "audio_channels"),
    answered("four-kilohertz", audio_bytes(tone(440, rate_hz=4000), 4000), "audio_sample_rate"),
    answered("answer-missing", None, "audio_missing"),
    asked("clip-missing", None, "audio_missing"),
    said("answer-path-blank", "audio_missing", answer_audio_path=None),
    said("answer-is-a-folder", "audio_missing", answer_audio_path=AUDIOS),
    said("answer-below-a-file", "audio_missing", answer_audio_path=f"{AUDIOS}/answer_good.wav/a.wav"),
    said("answer-name-too-long", "audio_missing", answer_audio_path=f"{AUDIOS}/{'n' * 300}.wav"),
    said("answer-name-with-nul", "audio_missing", answer_audio_path=f"{AUDIOS}/a\0.wav"),
    said("outside-up", "path_outside_data", answer_audio_path="../.."),
    said("outside-up-from-within", "path_outside_data", answer_audio_path="data/inputs/../../../secret.wav"),
    said("outside-absolute", "path_outside_data", answer_audio_path="/etc/passwd"),
    said("outside-home", "path_outside_data", answer_audio_path="~/secret.wav"),
    said("outside-s3", "path_outside_data", answer_audio_path="s3://elsewhere/secret.wav"),
    said("outside-clip", "path_outside_data", audio_path="s3://elsewhere/outside-clip.wav"),
    *(
        said(f"blank-{field}", "field_missing", **{field: None})
        for field in ("context_end_time", "question_end_time", "answer_start_time")
    ),
    *(
        said(f"{value}-{field}", "field_invalid", **{field: value})
        for field in ("context_end_time", "question_end_time", "answer_start_time")
        for value in ("abc", "nan", "inf", "1,5")
    ),
    said("answer-before-the-clip", "time_out_of_range", answer_start_time="-60"),
    said("answer-years-later", "time_out_of_range", answer_start_time="1e9"),
    said("question-ends-after-the-clip", "time_out_of_range", question_end_time="60"),
    said("question-ends-at-once", "time_out_of_range", question_end_time="0"),
    said("question-ends-before-the-clip", "time_out_of_range", question_end_time="-1"),
    said("context-ends-after-the-question", "time_out_of_range", context_end_time="30"),
    answered("answer-silent", audio_bytes(np.zeros(RATE_HZ)), None),
    asked("clip-silent", audio_bytes(np.zeros_like(speech().clip)), None),
    answered("answer-clipped", audio_bytes(np.clip(20 * speech().answer, -1, 1)), None),
    answered("answer-with-offset", audio_bytes(0.5 * speech().answer + 0.25), None),
    answered("clip-used-twice", answer_bytes(), None),
    said(
        "clip-used-twice#2",
        "duplicate_id",
        audio_path="data/protocol/inputs/test/improvised/audios/clip-used-twice.wav",
    ),
]


def source_of(uri: Path | str, *words: str) -> Source:
    return open_source(load([f"data.uri={uri}", *words]))


def read_all(source: Source) -> dict[str, Dialogue]:
    """All dialogues by id; each shard must give each of its rows once, in order, for whom it said."""
    found: dict[str, Dialogue] = {}
    for shard in source.shards():
        rows = list(source.read(shard, range(shard.rows)))
        assert [row for row, _ in rows] == list(range(shard.rows))
        assert [item.dialogue_id for item in source.items(shard)] == [dialogue.dialogue_id for _, dialogue in rows]
        found |= {dialogue.dialogue_id: dialogue for _, dialogue in rows}
    assert len(found) == sum(shard.rows for shard in source.shards())
    return found


def codes(dialogues: dict[str, Dialogue]) -> dict[str, str | None]:
    return {name: dialogue.problem.code if dialogue.problem else None for name, dialogue in dialogues.items()}


def packed(folder: Path | str, to: Path | str, *words: str) -> Path | str:
    packing.pack(load([f"data.uri={folder}", f"pack.uri={to}", *words]))
    return to
