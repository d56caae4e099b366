"""One exchange as the emotion scorer's parts hear it: two sides, TRACE's inputs, two voices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from spear_ray.affect.sequences import WINDOW_SAMPLES, duplicated, interleaved, unit_rows, windows
from spear_ray.affect.texts import context_text, relationship_text
from spear_ray.affect.vocal_arousal import VoiceFeatures, arousal, voice_features
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples
from spear_ray.errors import ConfigError, OutOfGpuMemory
from spear_ray.timing.segments import Segment

SEQUENCES = ("two_speakers", "published")

BASELINE_S = 0.5
"""Length of the pieces of earlier speech that a turn is compared with: about two syllables; shorter ones have too few
voiced frames, longer ones would leave too few pieces of the little that is said before a question."""


@dataclass(frozen=True, eq=False)
class Side:
    """What one voice says in an exchange.

    Args:
        samples: float32 [samples] at 16 kHz, its turn.
        speech: of the turn, in seconds.
        earlier: float32 [samples], the same voice before; None where it is not heard before.
        earlier_speech: likewise.
        code: why the turn is not measured; None where it is.
        message: the same in words.
    """

    samples: Samples
    speech: Sequence[Segment]
    earlier: Samples | None
    earlier_speech: Sequence[Segment]
    code: str | None = None
    message: str = ""

    @property
    def seconds(self) -> float:
        """Of the turn."""
        return self.samples.size / SAMPLE_RATE_HZ


class Hearing(Protocol):
    """Gives TRACE's vectors (`WhisperProfile`)."""

    def read_windows(self, windows: Sequence[Samples]) -> list[Mapping[str, np.ndarray] | OutOfGpuMemory]:
        """Outputs of windows of equal length."""


class Words(Protocol):
    """Turns texts into vectors (`Sentences`)."""

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """float32 [texts, width]."""


class TraceInput(NamedTuple):
    """Sequence float32 [vectors, width], context and relation float32 [1, width] or None."""

    sequence: np.ndarray
    context: np.ndarray | None
    relation: np.ndarray | None


def check_sequence(sequence: str) -> None:
    """Raises ConfigError where the word is not known."""
    if sequence not in SEQUENCES:
        raise ConfigError(f"scorer.emotion.trace.sequence={sequence}: must be one of {', '.join(SEQUENCES)}")


def naturalness_inputs(
    dialogues: Sequence[Dialogue],
    sides: Sequence[tuple[Side, Side]],
    hearing: Hearing,
    trace: Any,
    words: Words | None,
    sequence: str,
    least: int,
) -> list[TraceInput | OutOfGpuMemory | None]:
    """TRACE's inputs of each dialogue; the windows of all of them are heard in common batches.

    Args:
        dialogues: for their texts.
        sides: question and answer of each.
        hearing: gives the vectors.
        trace: a `Trace`, for its limits and widths.
        words: gives the texts' vectors; None takes the deterministic random ones.
        sequence: one of `SEQUENCES`.
        least: windows of a side that there must be.

    Returns:
        The error of a dialogue that does not fit the GPU; None where a side has too few windows.
    """
    most = trace.max_vectors // 2
    cut = [[_windows(side.samples, most) for side in pair] for pair in sides]
    outputs = iter(hearing.read_windows([window for pair in cut for side in pair for window in side]))
    found: list[TraceInput | OutOfGpuMemory | None] = []
    for dialogue, pair in zip(dialogues, cut, strict=True):
        heard = [[next(outputs) for _ in side] for side in pair]
        failed = next((one for side in heard for one in side if isinstance(one, OutOfGpuMemory)), None)
        if failed is not None or min(map(len, heard)) < least:
            found.append(failed)
            continue
        vectors = [np.stack([one["vector"] for one in side]) for side in heard]  # type: ignore[index]
        found.append(TraceInput(_sequence(vectors, sequence, most), *_texts(dialogue, trace, words)))
    return found


def vocal_metrics(question: Side, answer: Side) -> dict[str, float]:
    """Voice features of both turns, and their arousal where the same voice has a baseline in this dialogue."""
    found: dict[str, float] = {}
    for name, prefix, side in (("question", "question_", question), ("answer", "", answer)):
        features = voice_features(side.samples, side.speech) if side.code is None else None
        if features is None:
            continue
        found |= {f"{name}_voice_{key}": float(value) for key, value in features._asdict().items()}
        score = arousal(features, list(_baseline(side)))
        if score is not None:
            found[f"{prefix}vocal_arousal"] = float(score)
    return found


def _baseline(side: Side) -> Iterator[VoiceFeatures]:
    """Features of the pieces of what the same voice said before."""
    if side.earlier is None:
        return
    for start_s, end_s in side.earlier_speech:
        for piece in range(int((end_s - start_s) / BASELINE_S)):
            start = round((start_s + piece * BASELINE_S) * SAMPLE_RATE_HZ)
            features = voice_features(side.earlier[start : start + round(BASELINE_S * SAMPLE_RATE_HZ)])
            if features is not None:
                yield features


def _windows(samples: Samples, most: int) -> list[Samples]:
    """The first `most` windows, the last ones continued with zeros to full length."""
    cut = [samples[start:end] for start, end in windows(samples.size)[:most]]
    return [np.pad(window, (0, WINDOW_SAMPLES - window.size)) for window in cut]


def _sequence(vectors: Sequence[np.ndarray], sequence: str, most: int) -> np.ndarray:
    if sequence == "published":
        return duplicated(unit_rows(np.concatenate(vectors)), most)
    question, answer = (unit_rows(side) for side in vectors)
    return interleaved(question, answer, most)


def _texts(dialogue: Dialogue, trace: Any, words: Words | None) -> tuple[np.ndarray | None, np.ndarray | None]:
    if not trace.context_width:
        return None, None
    pair = ((context_text(dialogue), trace.context_width), (relationship_text(dialogue.roles), trace.relation_width))
    context, relation = (_text_vector(text, width, words) for text, width in pair)
    return context, relation


def _text_vector(text: str, width: int, words: Words | None) -> np.ndarray:
    """float32 [1, width]. A text that is not known is the empty one, as in TRACE's stand-alone mode."""
    from spear_ray.networks.sentences import hash_vector

    return hash_vector(text, width)[None] if words is None or not text.strip() else words.vectors([text])
