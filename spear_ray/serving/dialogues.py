"""From the files and fields of a request to a Dialogue: the same as the batch job reads from a data set."""

from __future__ import annotations

from dataclasses import asdict, replace

from spear_ray.audio import Decoded, decode
from spear_ray.config import AudioConfig, DataConfig
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue
from spear_ray.errors import AudioChannels, AudioError, FieldMissing, TimeOutOfRange
from spear_ray.serving.messages import ScoreRequest
from spear_ray.sources.base import Item, two_channels
from spear_ray.sources.recordings import check_recording_times
from spear_ray.sources.spearbench import check_times, dialogue_of


class RequestReader:
    """Decodes each file of a request once.

    Args:
        data: which channel asks, and where an answer goes.
        audio: limits; `max_bytes` and `max_seconds` are checked before and while decoding.
    """

    def __init__(self, data: DataConfig, audio: AudioConfig) -> None:
        self.data = data
        self.audio = audio

    def recording(self, request: ScoreRequest, audio: bytes) -> Dialogue:
        """A dialogue in one two-channel file: channel 0 asks, channel 1 answers (`data.asking_channel`).

        Raises:
            FieldMissing: without `question_end_s`.
            RowError: the file or a time cannot be used.
        """
        if request.question_end_s is None:
            raise FieldMissing("question_end_s is needed with a two-channel file: where its question ends, in seconds")
        decoded = self._decoded(audio, "audio")
        if decoded.samples.shape[0] != 2:
            raise AudioChannels("audio has one channel; a recording needs one channel for each side")
        seconds = decoded.samples.shape[1] / SAMPLE_RATE_HZ
        check_recording_times(seconds, request.question_end_s, request.answer_start_s, request.context_end_s)
        asking = 0 if self.data.asking_channel == "auto" else int(self.data.asking_channel)
        return Dialogue(
            **_item(request)._asdict(),
            clip=two_channels(decoded.samples, asking),
            question_end_s=request.question_end_s,
            context_end_s=request.context_end_s,
            answer_start_s=request.answer_start_s,
            question_text=request.question_text,
            answer_text=request.answer_text,
            roles=dict(request.roles),
            facts={"recording": asdict(decoded.facts)},
        )

    def exchange(self, request: ScoreRequest, question: bytes, answer: bytes, name: str = "") -> Dialogue:
        """A dialogue in two files: the clip up to the question's end, and the answer.

        Args:
            request: with `answer_start_s`.
            question: one or two channels.
            answer: one or two channels; their mean is the answer.
            name: of the question's file: SPEARBench's tell which channel is whose.

        Raises:
            FieldMissing: without `answer_start_s`.
            RowError: a file or a time cannot be used.
        """
        if request.answer_start_s is None:
            raise FieldMissing("answer_start_s is needed with two files: seconds from the question's end to the answer")
        asked, answered = self._decoded(question, "question"), self._decoded(answer, "answer")
        seconds = asked.samples.shape[1] / SAMPLE_RATE_HZ
        end_s = seconds if request.question_end_s is None else request.question_end_s
        try:
            check_times(seconds, end_s, request.answer_start_s, request.context_end_s, most_s=self.audio.max_seconds)
        except TimeOutOfRange as error:
            raise TimeOutOfRange(str(error).replace("_time=", "_s=")) from error
        row = {
            **request.roles,
            "audio_path": name or None,
            "transcript_question": request.question_text,
            "transcript_answer": request.answer_text,
        }
        times = (end_s, request.answer_start_s, request.context_end_s)
        return dialogue_of(_item(request), asked, answered, row, times, self.data)

    def _decoded(self, audio: bytes, what: str) -> Decoded:
        try:
            return decode(audio, self.audio)
        except AudioError as error:
            raise type(error)(f"{what}: {error}") from error


def limits(audio: AudioConfig, max_bytes: int, max_seconds: float) -> AudioConfig:
    """The stricter of the data's and the API's own limits."""
    return replace(audio, max_bytes=min(audio.max_bytes, max_bytes), max_seconds=min(audio.max_seconds, max_seconds))


def _item(request: ScoreRequest) -> Item:
    conversation = request.conversation_id or request.id
    return Item(request.id, conversation, request.system, request.split, request.subset)
