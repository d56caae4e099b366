"""Make the sample: `python -m spear_ray.sample.make [FOLDER]` speaks `script.py` and writes the data set.

Needs `flite` on the PATH (Debian and Ubuntu: `apt-get install flite`). Every run gives the same samples and
the same tables. Each conversation is first laid out as one two-channel recording; items are cut from it as
SPEARBench cuts them from Seamless Interaction, so a human answer that starts early is also heard in the
question clip.
Speech is trimmed to where it is above -40 dB of its peak: a segment's end is the end of its speech.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
import wave
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import soundfile

from spear_ray.errors import PrerequisiteError
from spear_ray.sample import SAMPLE_DIR
from spear_ray.sample.script import CONVERSATIONS, SPEAKER_VOICES, SYSTEMS, Conversation, Item, System

Pcm = npt.NDArray[np.int16]
Row = dict[str, str | float]

RATE_HZ = 16_000
SPLIT = "test"
PUBLISHED_ROOT = "data/seamless_2t_2s_questions"
"""The folder that the paths in SPEARBench's tables begin with."""

SPEECH_PEAK = 11_500
"""Peak of every utterance, in 16-bit steps: 0.35 of full scale."""
SPEECH_FLOOR = 0.01
"""Share of the peak (-40 dB) above which a sample belongs to the speech."""
MAX_LEAD_S = 0.15
"""Most silence before the speech in a generated answer."""
TAIL_S = 0.1
"""Silence after the speech in a generated answer."""
SILENT_ANSWER_S = 2.5
"""Length of the answer file of a system that says nothing."""
FAINT_NOISE_STEPS = 8
"""Standard deviation of the noise in every second silent answer: -72 dB of full scale."""

COLUMNS = (
    "audio_path",
    "answer_audio_path",
    "context_end_time",
    "question_end_time",
    "answer_duration",
    "speakers",
    "conversation_id",
    "transcript_question",
    "transcript_answer",
    "answer_start_time",
)
TRUTH_COLUMNS = ("system", "id", "question_speech_end_s", "answer_speech_start_s", "answer_speech_end_s")

LICENSE = """\
The audio and the tables in this folder are synthetic: spear_ray/sample/make.py made them from texts that the
authors of spear_ray wrote. No conversation was recorded. The authors dedicate them to the public domain under
CC0 1.0 (https://creativecommons.org/publicdomain/zero/1.0/).

The speech was synthesised with flite 2.2 (Carnegie Mellon University, http://cmuflite.org) and its voices
slt, rms, awb and kal16. flite and these voices come under a free licence of the BSD kind: it allows use,
copying, change and distribution without fee, and asks to keep its copyright notice in copies of the software
and of the voices. Neither of them is part of this folder.
"""


@dataclass(frozen=True, slots=True)
class Segment:
    """A transcript segment of a recording; `start` and `end` are sample numbers."""

    speaker: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole conversation: int16 [samples, 2], its turns in order, and the backchannels."""

    channels: Pcm
    turns: tuple[Segment, ...]
    backchannels: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """One item as it is published; sample numbers count from the beginning of the clip, int16 [samples, 2].

    `human` is the answering channel, int16 [samples], from `human_start` on.
    """

    id: str
    conversation: Conversation
    item: Item
    clip: Pcm
    question_start: int
    asking_channel: int
    transcript: str
    human: Pcm
    human_start: int
    human_transcript: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What one system says: int16 [samples] or [samples, 2], and when, relative to the question's end."""

    audio: Pcm
    start_s: float
    transcript: str


def speech_bounds(pcm: Pcm) -> tuple[int, int] | None:
    """Where the speech in one channel begins and ends, as sample numbers, by the -40 dB rule.

    Returns:
        First sample and one past the last sample above the floor; None where nothing is above faint noise.
    """
    level = np.abs(pcm.astype(np.int32))
    if not level.size or level.max() < SPEECH_PEAK // 2:
        return None
    loud = np.flatnonzero(level > SPEECH_FLOOR * level.max())
    return int(loud[0]), int(loud[-1]) + 1


@cache
def speak(text: str, voice: str) -> Pcm:
    """Say a text with a flite voice, trimmed to its speech and levelled.

    Raises:
        PrerequisiteError: flite is not installed.
    """
    flite = shutil.which("flite")
    if flite is None:
        raise PrerequisiteError("the sample is spoken with flite, which is not on PATH: apt-get install flite")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        subprocess.run([flite, "-voice", voice, "-t", text, "-o", str(path)], check=True)  # noqa: S603
        with wave.open(str(path)) as file:
            if (file.getframerate(), file.getnchannels()) != (RATE_HZ, 1):
                raise PrerequisiteError(f"flite's voice {voice} is not mono {RATE_HZ} Hz: use another voice")
            speech = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(np.float64)
    levelled: Pcm = np.round(speech * (SPEECH_PEAK / np.abs(speech).max())).astype(np.int16)
    start, end = speech_bounds(levelled) or (0, 0)
    return levelled[start:end]


def record(conversation: Conversation) -> Recording:
    """Lay a conversation out on one time line, over a room tone of one 16-bit step."""
    turns: list[Segment] = []
    backchannels: list[Segment] = []
    spoken: list[tuple[Segment, Pcm]] = []
    for turn in conversation.turns:
        speech = speak(turn.text, SPEAKER_VOICES[turn.speaker])
        start = turns[-1].end + samples(turn.gap_s) if turns else 0
        end = start + samples(turn.lead_s) + len(speech)
        turns.append(Segment(turn.speaker, turn.text, start, end))
        spoken.append((turns[-1], speech))
        if turn.backchannel:
            listener = _other(conversation, turn.speaker)
            word = speak(turn.backchannel, SPEAKER_VOICES[listener])
            middle = (start + end) // 2
            backchannels.append(Segment(listener, turn.backchannel, middle, middle + len(word)))
            spoken.append((backchannels[-1], word))
    channels = _generator(conversation.name).integers(-1, 2, (turns[-1].end, 2), dtype=np.int16)
    for segment, speech in spoken:
        channels[segment.end - len(speech) : segment.end, conversation.speakers.index(segment.speaker)] += speech
    return Recording(channels, tuple(turns), tuple(backchannels))


def cut_items(conversation: Conversation) -> Iterator[Cut]:
    """Record a conversation and cut its items."""
    recording = record(conversation)
    for number, item in enumerate(conversation.items):
        first, question, answer = (recording.turns[i] for i in (item.first, item.question, item.question + 1))
        heard = [s for s in recording.backchannels if first.start <= s.start < question.start]
        heard += recording.turns[item.first : item.question + 1]
        heard.sort(key=lambda segment: segment.start)
        yield Cut(
            id="_".join((conversation.name, *conversation.speakers, str(number))),
            conversation=conversation,
            item=item,
            clip=recording.channels[first.start : question.end],
            question_start=question.start - first.start,
            asking_channel=conversation.speakers.index(question.speaker),
            transcript=" ".join(_tagged(segment) for segment in heard),
            human=recording.channels[answer.start : answer.end, conversation.speakers.index(answer.speaker)],
            human_start=answer.start - first.start,
            human_transcript=_tagged(answer),
        )


def human_answer(cut: Cut) -> Answer:
    """The answer as it was recorded, the answering side on both channels as SPEARBench publishes it."""
    start_s = seconds(cut.human_start - len(cut.clip))
    return Answer(np.stack([cut.human, cut.human], axis=1), start_s, cut.human_transcript)


def generated_answers(cuts: Sequence[Cut], system: System) -> list[Answer]:
    """What a made-up model answers to each item; where it has no text, silence and faint noise in turns."""
    answers: list[Answer] = []
    silent = 0
    for cut in cuts:
        generator = _generator(f"{system.name}/{cut.id}")
        start_s = round(float(generator.uniform(*system.start_s)), 3)
        text = cut.item.replies[system.name]
        if text:
            lead = samples(float(generator.uniform(0, MAX_LEAD_S)))
            audio = np.pad(speak(text, system.voice), (lead, samples(TAIL_S)))
        else:
            noise = generator.normal(0, FAINT_NOISE_STEPS * (silent % 2), samples(SILENT_ANSWER_S))
            audio = np.round(noise).astype(np.int16)
            silent += 1
        answers.append(Answer(audio, start_s, text))
    return answers


def truth(cut: Cut, system: str, answer: Answer) -> Row:
    """When the question's and the answer's speech is heard, in seconds on the clip's time line."""
    question = speech_bounds(cut.clip[:, cut.asking_channel])
    spoken = speech_bounds(answer.audio if answer.audio.ndim == 1 else answer.audio[:, 0])
    onset_s = seconds(len(cut.clip)) + answer.start_s
    return {
        "system": system,
        "id": cut.id,
        "question_speech_end_s": seconds(question[1]) if question else "",
        "answer_speech_start_s": round(onset_s + seconds(spoken[0]), 4) if spoken else "",
        "answer_speech_end_s": round(onset_s + seconds(spoken[1]), 4) if spoken else "",
    }


def metadata(cut: Cut, answer: Answer, answer_path: str) -> Row:
    """An answer's row in SPEARBench's metadata.csv."""
    return {
        "audio_path": f"{PUBLISHED_ROOT}/{_clip_path(cut)}",
        "answer_audio_path": f"{PUBLISHED_ROOT}/{answer_path}",
        "context_end_time": seconds(cut.question_start),
        "question_end_time": seconds(len(cut.clip)),
        "answer_duration": seconds(len(answer.audio)),
        "speakers": "|".join(cut.conversation.speakers),
        "conversation_id": cut.conversation.name,
        "transcript_question": cut.transcript,
        "transcript_answer": answer.transcript,
        "answer_start_time": answer.start_s,
    }


def write_system(folder: Path, cuts: Sequence[Cut], name: str, answers: Sequence[Answer]) -> list[Row]:
    """Write one system's answers and tables; returns its rows of truth.csv."""
    human = name == "human"
    on_disk, pattern = ("original", "audios/answer_{}.flac") if human else (name, "audio/{}.flac")
    tables: dict[str, list[Row]] = {}
    for cut, answer in zip(cuts, answers, strict=True):
        table = f"outputs/{on_disk}/{SPLIT}/{cut.conversation.subset}"
        answer_path = f"{table}/{pattern.format(cut.id)}"
        _write_flac(folder / answer_path, answer.audio)
        row = metadata(cut, answer, answer_path)
        tables.setdefault(table, []).append(row if human else row | {"finish_reason": "stop"})
    for table, rows in tables.items():
        _write_csv(folder / table / "metadata.csv", COLUMNS if human else (*COLUMNS, "finish_reason"), rows)
    return [truth(cut, name, answer) for cut, answer in zip(cuts, answers, strict=True)]


def write_inputs(folder: Path, cuts: Sequence[Cut]) -> None:
    """Write the question clips and their tables: as published, without the answers but with their start."""
    tables: dict[str, list[Row]] = {}
    for cut in cuts:
        _write_flac(folder / _clip_path(cut), cut.clip)
        row = metadata(cut, human_answer(cut), "")
        row |= dict.fromkeys(("answer_audio_path", "answer_duration", "transcript_answer"), "")
        tables.setdefault(f"inputs/{SPLIT}/{cut.conversation.subset}", []).append(row)
    for table, rows in tables.items():
        _write_csv(folder / table / "metadata.csv", COLUMNS, rows)


def make(folder: Path) -> None:
    """Write the whole sample under a folder."""
    cuts = [cut for conversation in CONVERSATIONS for cut in cut_items(conversation)]
    write_inputs(folder, cuts)
    rows = write_system(folder, cuts, "human", [human_answer(cut) for cut in cuts])
    for system in SYSTEMS:
        rows += write_system(folder, cuts, system.name, generated_answers(cuts, system))
    _write_csv(folder / "truth.csv", TRUTH_COLUMNS, rows)
    (folder / "LICENSE.txt").write_text(LICENSE, encoding="utf-8")


def samples(duration_s: float) -> int:
    """Seconds as a number of samples."""
    return round(duration_s * RATE_HZ)


def seconds(count: int) -> float:
    """A number of samples in seconds, exactly."""
    return count / RATE_HZ


def _generator(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def _other(conversation: Conversation, speaker: str) -> str:
    return conversation.speakers[1 - conversation.speakers.index(speaker)]


def _tagged(segment: Segment) -> str:
    return f"{segment.speaker}: {segment.text}"


def _clip_path(cut: Cut) -> str:
    return f"inputs/{SPLIT}/{cut.conversation.subset}/audios/{cut.id}.flac"


def _write_flac(path: Path, audio: Pcm) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, audio, RATE_HZ, subtype="PCM_16", compression_level=1.0)


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, str | float]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE_DIR)
