"""A CSV file of single exchanges: what a user says, what is replied, and how people rate the reply.

Columns: user_audio, reply_audio (paths below the file's folder), human_score; optional id, attribute, conversation_id,
pair, system, split, subset. This is how data of ChatReward-30K's kind is given; the times between both are not known,
so that only scorers that need none make sense.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import ClassVar

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue
from spear_ray.sources.base import Item
from spear_ray.sources.recordings import RecordingsSource
from spear_ray.sources.tables import Row

REQUIRED = ("user_audio", "reply_audio", "human_score")


class ExchangesSource(RecordingsSource):
    """See the module."""

    required: ClassVar[tuple[str, ...]] = REQUIRED
    file_columns: ClassVar[tuple[str, ...]] = ("user_audio", "reply_audio")

    def recording(self, item: Item, row: Row) -> Dialogue:
        """The dialogue of one row: the reply follows the question at once.

        Raises:
            RowError: a file or a field cannot be used.
        """
        asked = self.decode(self.named_file(row, "user_audio"), "user_audio")
        replied = self.decode(self.named_file(row, "reply_audio"), "reply_audio")
        question = asked.samples.mean(axis=0, dtype=np.float32)
        return Dialogue(
            **item._asdict(),
            clip=np.stack([question, np.zeros_like(question)]),
            answer=replied.samples.mean(axis=0, dtype=np.float32),
            question_end_s=question.size / SAMPLE_RATE_HZ,
            answer_start_s=0.0,
            facts={"question": asdict(asked.facts), "answer": asdict(replied.facts)},
        )
