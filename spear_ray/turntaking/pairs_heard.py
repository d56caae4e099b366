"""Natural clips and their edited versions as audio: made of two-channel dialogues, or read from TurnNat's manifest."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np

from spear_ray.audio import decode
from spear_ray.config import BenchConfig
from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import AudioChannels, AudioMissing, DataLayoutError, FieldInvalid, PathOutsideData, RowError
from spear_ray.networks.silero import SpeechSettings
from spear_ray.scorers.turn_taking import TurnTakingScorer
from spear_ray.sources import open_source
from spear_ray.sources.base import leads_out
from spear_ray.sources.tables import Row, read_csv
from spear_ray.store import Store, split_file
from spear_ray.turntaking.pairs_made import Pair, place_edit
from spear_ray.turntaking.perturbations import KINDS
from spear_ray.turntaking.perturbed_audio import edited_audio, same_loudness
from spear_ray.turntaking.timeline import Timeline

MANIFEST = ("session_id", "audio_path", "natural_audio_path", "perturbation_type")
"""Columns of TurnNat's manifest that are needed; it has others."""

MANIFEST_NAME = "manifest.csv"
AUDIO_ENDINGS = (".wav", ".flac", ".ogg", ".opus", ".mp3")
BUILDER_SPEECH = SpeechSettings(min_speech_ms=120, min_silence_ms=120, pad_ms=40)
BUILDER_MERGE_S = 0.18
"""Voice activity and merging of the published builder: where edits are placed. Scores use the scorer's own."""

PLACES = 8
"""Random clips of a dialogue in which room for one kind of edit is looked for."""

Heard = tuple[str, Samples]


def audio_pairs(config: BenchConfig, scorer: TurnTakingScorer, facts: dict[str, Any]) -> Iterator[Pair]:
    """Pairs from `data.uri`: a manifest (.csv), or dialogues that are edited here.

    Args:
        config: `data`, `audio`, `turn_bench`.
        scorer: set up; its voice activity detector is used.
        facts: gets `dialogues` (of a manifest: pairs), and `unreadable`: a message for each that could not be used.
    """
    facts |= {"dialogues": 0, "unreadable": []}
    manifest = _manifest(config.data.uri)
    if manifest is not None:
        yield from _manifest_pairs(config, scorer, facts, *manifest)
        return
    made = dict.fromkeys(KINDS, 0)
    for name, audio in _dialogues(config, facts):
        facts["dialogues"] += 1
        activity = builder_activity(audio, scorer)
        for kind in [kind for kind, count in made.items() if count < config.turn_bench.limit]:
            pair = _made(kind, name, audio, activity, scorer, config.turn_bench.seed)
            if pair is not None:
                made[kind] += 1
                yield pair


def builder_activity(audio: Samples, scorer: TurnTakingScorer) -> Timeline:
    """Who speaks when, as the published builder sees it.

    Args:
        audio: float32 [2, samples] at 16 kHz.
        scorer: set up.
    """
    return scorer.clip(audio, BUILDER_SPEECH).activity.as_units(BUILDER_MERGE_S)


def _made(kind: str, name: str, audio: Samples, activity: Timeline, scorer: TurnTakingScorer, seed: int) -> Pair | None:
    rng = np.random.default_rng([seed, zlib.crc32(f"{kind}/{name}".encode())])
    for _ in range(PLACES):
        placed = place_edit(kind, activity, rng)
        if placed is not None:
            start_s, clip, edit = placed
            first = round(start_s * SAMPLE_RATE_HZ)
            natural = audio[:, first : first + round(clip.seconds * SAMPLE_RATE_HZ)]
            natural, changed, gain = same_loudness(natural, edited_audio(natural, edit, audio, activity, rng))
            record = {"clip_start_s": start_s, "clip_seconds": clip.seconds, "gain": gain, **edit.as_dict()}
            return Pair(kind, name, scorer.clip(natural), scorer.clip(changed), record)
    return None


def _dialogues(config: BenchConfig, facts: dict[str, Any]) -> Iterator[Heard]:
    """Dialogues of a data set that the benchmark reads (the reference system's, if any), or of a plain folder."""
    try:
        source = open_source(config)
        shards = source.shards()
    except DataLayoutError:
        files = _audio_files(config.data.uri)
        if not files:
            raise
        yield from _plain_files(config, files, facts)
        return
    reference = config.leaderboard.reference
    systems = {item.system for shard in shards for item in source.items(shard)}
    for shard in shards:
        wanted = [
            row for row, item in enumerate(source.items(shard)) if item.system == reference or reference not in systems
        ]
        for _, dialogue in source.read(shard, wanted):
            if dialogue.problem is None:
                yield dialogue.conversation_id, dialogue.audio
            else:
                facts["unreadable"].append(f"{dialogue.dialogue_id}: {dialogue.problem.message}")


def _audio_files(uri: str) -> list[str]:
    return [name for name in Store(uri).files() if name.lower().endswith(AUDIO_ENDINGS)]


def _plain_files(config: BenchConfig, names: list[str], facts: dict[str, Any]) -> Iterator[Heard]:
    store = Store(config.data.uri)
    for name in names:
        try:
            yield name, _two_channels(store, name, config)
        except RowError as error:
            facts["unreadable"].append(f"{name}: {error}")


def _manifest(uri: str) -> tuple[Store, list[Row]] | None:
    """The manifest that `uri` names or that lies in its folder, if its columns are a manifest's."""
    store, table = split_file(uri if uri.endswith(".csv") else f"{uri.rstrip('/')}/{MANIFEST_NAME}")
    try:
        return store, read_csv(store, table, MANIFEST)[0]
    except DataLayoutError:
        return None


def _manifest_pairs(
    config: BenchConfig, scorer: TurnTakingScorer, facts: dict[str, Any], store: Store, rows: list[Row]
) -> Iterator[Pair]:
    """TurnNat's published pairs: `audio_path` is the edited clip; paths are relative to the manifest's folder."""
    for number, row in enumerate(rows, start=2):
        try:
            pair = _manifest_pair(store, row, config, scorer)
        except RowError as error:
            facts["unreadable"].append(f"manifest row {number}: {error}")
        else:
            facts["dialogues"] += 1
            yield pair


def _manifest_pair(store: Store, row: Row, config: BenchConfig, scorer: TurnTakingScorer) -> Pair:
    texts = {key: (row[key] or "").strip() for key in MANIFEST}
    blank = [key for key, text in texts.items() if not text]
    if blank:
        raise FieldInvalid(f"{', '.join(blank)} must not be blank")
    edited, natural = (
        scorer.clip(_two_channels(store, texts[key], config)) for key in ("audio_path", "natural_audio_path")
    )
    record: Mapping[str, Any] = {key: row[key] for key in row if key not in ("session_id", "perturbation_type")}
    return Pair(texts["perturbation_type"], texts["session_id"], natural, edited, record)


def _two_channels(store: Store, name: str, config: BenchConfig) -> Samples:
    """A two-channel file at 16 kHz.

    Raises:
        RowError: it cannot be used.
    """
    if leads_out(name):
        raise PathOutsideData(f"'{name}' leads out of the data set")
    try:
        data = store.read(str(PurePosixPath(name)), config.audio.max_bytes)
    except FileNotFoundError as error:
        raise AudioMissing(f"{store.url(name)} does not exist") from error
    samples = decode(data, config.audio).samples
    if samples.shape[0] != 2:
        raise AudioChannels(f"{name} has {samples.shape[0]} channels; a dialogue needs one for each side")
    return samples
