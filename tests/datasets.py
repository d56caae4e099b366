"""Small data sets for tests: folders in SPEARBench's layout, folders of recordings, audio files good and bad.

The speech is real: clips and answers of the bundled sample.
"""

import csv
import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import soundfile

from spear_ray.sample import SAMPLE_DIR

RATE_HZ = 16_000
COLUMNS = (
    "audio_path",
    "answer_audio_path",
    "context_end_time",
    "question_end_time",
    "speakers",
    "conversation_id",
    "transcript_question",
    "transcript_answer",
    "answer_start_time",
)
RECORDING_COLUMNS = ("id", "file", "question_end_s", "answer_start_s", "system", "conversation_id")
PUBLISHED_ROOT = "data/protocol"


@dataclass(frozen=True)
class Speech:
    """One item of the bundled sample: clip float64 [samples, 2] and answer float64 [samples], 16 kHz."""

    clip: np.ndarray
    answer: np.ndarray
    fields: Mapping[str, str]

    @property
    def question_end_s(self) -> float:
        return float(self.fields["question_end_time"])

    @property
    def answer_start_s(self) -> float:
        return float(self.fields["answer_start_time"])


@dataclass(frozen=True)
class Row:
    """One dialogue of a SPEARBench folder.

    Args:
        name: its clip is called so.
        clip: the bytes of the clip's file; None writes no file.
        answer: likewise.
        fields: columns of metadata.csv that differ from the sample's; None leaves the cell blank.
        extension: of both files.
    """

    name: str
    clip: bytes | None = field(default_factory=lambda: clip_bytes())
    answer: bytes | None = field(default_factory=lambda: answer_bytes())
    fields: Mapping[str, str | None] = field(default_factory=dict)
    extension: str = "wav"


@cache
def speech(index: int = 0) -> Speech:
    """The sample's item `index`, answered by the human; items of the sample differ in length."""
    rows: list[dict[str, str]] = []
    for path in sorted(SAMPLE_DIR.glob("outputs/original/test/*/metadata.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    row = rows[index]
    clip, answer = (_sample_audio(row[column]) for column in ("audio_path", "answer_audio_path"))
    return Speech(clip, answer.mean(axis=1), row)


def _sample_audio(published: str) -> np.ndarray:
    tail = published[min(at for part in ("inputs/", "outputs/") if (at := published.find(part)) >= 0) :]
    samples, rate_hz = soundfile.read(SAMPLE_DIR / tail, always_2d=True)
    assert rate_hz == RATE_HZ
    return samples


def two_channels(index: int = 0) -> np.ndarray:
    """A recording of item `index`: float64 [samples, 2], the asking side on channel 0, the answer on channel 1."""
    item = speech(index)
    speakers = item.fields["speakers"].split("|")
    asking = speakers.index(
        [word[:-1] for word in item.fields["transcript_question"].split() if word[:-1] in speakers][-1]
    )
    onset = round((item.question_end_s + item.answer_start_s) * RATE_HZ)
    samples = np.zeros((max(len(item.clip), onset + len(item.answer)), 2))
    samples[: len(item.clip)] = item.clip if asking == 0 else item.clip[:, ::-1]
    samples[onset:, 1] = 0
    samples[onset : onset + len(item.answer), 1] = item.answer
    return samples


def clip_bytes(index: int = 0) -> bytes:
    """The clip of item `index` as a WAV file."""
    return audio_bytes(speech(index).clip)


def answer_bytes(index: int = 0) -> bytes:
    """The answer of item `index` as a WAV file."""
    return audio_bytes(speech(index).answer)


def audio_bytes(samples: np.ndarray, rate_hz: int = RATE_HZ, kind: str = "WAV", subtype: str | None = None) -> bytes:
    """An audio file.

    Args:
        samples: [samples] or [samples, channels].
        rate_hz: written to its header.
        kind: soundfile's name of the container: WAV, RF64, FLAC, OGG, MP3.
        subtype: soundfile's name of the coding; None takes the container's own.
    """
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, rate_hz, format=kind, subtype=subtype)
    return buffer.getvalue()


def write_audio(
    path: Path, samples: np.ndarray, rate_hz: int = RATE_HZ, kind: str = "WAV", subtype: str | None = None
) -> Path:
    """Like `audio_bytes`, into a file, whose folder is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(audio_bytes(samples, rate_hz, kind, subtype))
    return path


def tone(
    frequency_hz: float, seconds: float = 1.0, rate_hz: int = RATE_HZ, amplitude: float = 0.5, channels: int = 1
) -> np.ndarray:
    """A sine: float64 [samples] for one channel, else [samples, channels]."""
    time_s = np.arange(round(seconds * rate_hz)) / rate_hz
    wave = amplitude * np.sin(2 * np.pi * frequency_hz * time_s)
    return wave if channels == 1 else np.stack([wave] * channels, axis=1)


def claiming(wav: bytes, data_bytes: int) -> bytes:
    """A WAV file whose header says that it holds so many bytes of samples."""
    at = wav.index(b"data") + 4
    return wav[:at] + struct.pack("<I", data_bytes) + wav[at + 4 :]


def spearbench(
    folder: Path, *rows: Row, system: str = "original", split: str = "test", subset: str = "improvised"
) -> Path:
    """Write a data set in SPEARBench's layout, or one more system or subset of it; returns `folder`."""
    audio = "audios" if system == "original" else "audio"
    lines = []
    for row in rows:
        clip = f"inputs/{split}/{subset}/audios/{row.name}.{row.extension}"
        answer = f"outputs/{system}/{split}/{subset}/{audio}/answer_{row.name}.{row.extension}"
        for name, data in ((clip, row.clip), (answer, row.answer)):
            if data is not None:
                _write(folder / name, data)
        paths = {"audio_path": f"{PUBLISHED_ROOT}/{clip}", "answer_audio_path": f"{PUBLISHED_ROOT}/{answer}"}
        lines.append({**speech().fields, **paths, "conversation_id": row.name, **row.fields})
    columns = dict.fromkeys([*COLUMNS, *(name for row in rows for name in row.fields)])
    write_csv(folder / f"outputs/{system}/{split}/{subset}/metadata.csv", list(columns), lines)
    return folder


def recordings(folder: Path, *lines: Mapping[str, str | None], columns: Sequence[str] = RECORDING_COLUMNS) -> Path:
    """Write `recordings.csv` of a folder of two-channel files; returns its path."""
    return write_csv(folder / "recordings.csv", columns, lines)


def write_csv(path: Path, columns: Sequence[str], lines: Sequence[Mapping[str, str | None]]) -> Path:
    """A UTF-8 CSV file; cells that a line lacks stay blank, those without a column are left out."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    _write(path, text.getvalue().encode())
    return path


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
