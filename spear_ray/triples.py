"""Exchanges with known scores, made from a data set of dialogues: a check of a judge where rated data is not at hand.

For each dialogue three replies to its question: another dialogue's (1: the words do not fit), its own much too fast,
slow, high or low (3: the words fit, the voice does not), its own (5). The scores are by construction, nobody has rated
them.

Source: the triples of WavReward (arXiv 2505.09558), section 3.1, which are made with speech synthesis.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spear_ray.config import BenchConfig
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.judging.clips import trimmed
from spear_ray.judging.settings import TriplesConfig
from spear_ray.pcm import wav
from spear_ray.sides import answer_clip, question_clip
from spear_ray.sources import open_source
from spear_ray.store import Store

MANIFEST = "exchanges.csv"
COLUMNS = ("id", "user_audio", "reply_audio", "human_score", "attribute", "conversation_id", "pair", "change")
AUDIBLE = 0.01
"""A reply whose highest peak is lower is none."""


@dataclass(frozen=True, slots=True)
class Change:
    """What makes a voice unfit: `attribute` in ChatReward-30K's words, and how far it is moved."""

    attribute: str
    factor: float

    def __str__(self) -> str:
        return f"{self.attribute} {self.factor:g}"


def make_triples(config: BenchConfig) -> tuple[int, str]:
    """Write `exchanges.csv` and its audio to `triples.out`.

    Returns:
        How many triples, and where the table is.

    Raises:
        ConfigError: `triples.out` is not set.
        DataLayoutError: fewer than two conversations have a reply.
    """
    settings = config.triples
    if not settings.out:
        raise ConfigError("triples.out is not set: say where the exchanges go")
    generator = np.random.default_rng(settings.seed)
    spoken = _chosen(list(_dialogues(config)), settings, generator)
    store = Store(settings.out)
    lines = [
        line for place, one in enumerate(spoken) for line in _triple(store, settings, place, one, spoken, generator)
    ]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    store.write(MANIFEST, text.getvalue().encode())
    return len(spoken), store.url(MANIFEST)


def changed(samples: Samples, change: Change) -> Samples:
    """The same words in another pitch or at another speed (a phase vocoder's), which is heard as such.

    Args:
        samples: float32 [samples] at 16 kHz.
        change: `speed` by a factor, or `pitch` by semitones.
    """
    from librosa.effects import pitch_shift, time_stretch

    if change.attribute == "speed":
        made = time_stretch(samples, rate=change.factor)
    else:
        made = pitch_shift(samples, sr=SAMPLE_RATE_HZ, n_steps=change.factor)
    return np.asarray(made, dtype=np.float32)


def changes(settings: TriplesConfig) -> tuple[Change, ...]:
    """Fast, slow, high, low: taken in turn."""
    return (
        Change("speed", settings.stretch),
        Change("speed", 1 / settings.stretch),
        Change("pitch", settings.semitones),
        Change("pitch", -settings.semitones),
    )


def _dialogues(config: BenchConfig) -> Iterator[Dialogue]:
    """Those that have a reply; of people, unless `data.systems` says otherwise."""
    systems = config.data.systems or [config.leaderboard.reference]
    source = open_source(config)
    for shard in source.shards():
        wanted = [place for place, item in enumerate(source.items(shard)) if item.system in systems]
        for _, dialogue in source.read(shard, wanted):
            if dialogue.problem is None and _audible(answer_clip(dialogue)) and _audible(_question(dialogue)):
                yield dialogue


def _question(dialogue: Dialogue) -> Samples:
    return question_clip(dialogue, "asking", with_context=False)


def _audible(samples: Samples) -> bool:
    return bool(samples.size) and float(np.abs(samples).max()) >= AUDIBLE


def _chosen(found: Sequence[Dialogue], settings: TriplesConfig, generator: np.random.Generator) -> list[Dialogue]:
    if len({one.conversation_id for one in found}) < 2:
        raise DataLayoutError("fewer than two conversations have a reply; another one's reply is needed for each")
    return [found[place] for place in sorted(generator.permutation(len(found))[: settings.limit])]


def _triple(
    store: Store,
    settings: TriplesConfig,
    place: int,
    dialogue: Dialogue,
    others: Sequence[Dialogue],
    generator: np.random.Generator,
) -> list[dict[str, Any]]:
    """Write the audio of one triple; its three lines."""
    strangers = [one for one in others if one.conversation_id != dialogue.conversation_id] or list(others)
    stranger = strangers[int(generator.integers(len(strangers)))]
    change = changes(settings)[place % len(changes(settings))]
    reply = trimmed(answer_clip(dialogue))
    name = f"{place:05d}"
    question = f"audio/{name}-user.wav"
    store.write(question, wav(trimmed(_question(dialogue))))
    made = (
        (1, trimmed(answer_clip(stranger)), f"reply of {stranger.dialogue_id}"),
        (3, changed(reply, change), str(change)),
        (5, reply, ""),
    )
    lines = []
    for score, samples, what in made:
        file = f"audio/{name}-{score}.wav"
        store.write(file, wav(samples))
        values = (f"{name}-{score}", question, file, score, change.attribute, dialogue.conversation_id, name, what)
        lines.append(dict(zip(COLUMNS, values, strict=True)))
    return lines
