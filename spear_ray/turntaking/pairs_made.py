"""Natural clips and their edited versions, from conversations of which only the times are known."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from spear_ray.turntaking.edits import Edit, edited
from spear_ray.turntaking.perturbations import KINDS
from spear_ray.turntaking.populations import Conversation
from spear_ray.turntaking.predictors.base import Clip
from spear_ray.turntaking.timeline import Timeline

CLIP_S = (20.0, 25.0)
"""Length of TurnNat's clips."""

TRIES = 20
"""Rounds over all conversations in search of a clip in which an edit fits."""


class Pair(NamedTuple):
    """A natural clip and what was made of it.

    Args:
        kind: of the edit.
        source: conversation id.
        natural: the clip.
        edited: the clip after the edit.
        record: where the clip lies in its conversation, and the edit.
    """

    kind: str
    source: str
    natural: Clip
    edited: Clip
    record: Mapping[str, Any]


def make_pairs(conversations: Sequence[Conversation], limit: int, seed: int) -> Iterator[Pair]:
    """Up to `limit` pairs of each kind, spread over the conversations; the same ones for the same seed."""
    for kind in KINDS:
        yield from _pairs(kind, conversations, limit, seed)


def random_clip(whole: Timeline, rng: np.random.Generator) -> tuple[float, Timeline]:
    """A clip of 20 to 25 s, or all where there is less; with its beginning in seconds."""
    seconds = min(float(rng.uniform(*CLIP_S)), whole.seconds)
    start_s = float(rng.uniform(0.0, whole.seconds - seconds))
    return start_s, whole.crop(start_s, start_s + seconds)


def place_edit(kind: str, whole: Timeline, rng: np.random.Generator) -> tuple[float, Timeline, Edit] | None:
    """A random clip of a conversation with an edit that fits into it: (beginning in seconds, clip, edit)."""
    start_s, clip = random_clip(whole, rng)
    edit = KINDS[kind](clip, whole, rng)
    return None if edit is None else (start_s, clip, edit)


def _pairs(kind: str, conversations: Sequence[Conversation], limit: int, seed: int) -> Iterator[Pair]:
    order = np.random.default_rng([seed, zlib.crc32(kind.encode())]).permutation(len(conversations))
    made = 0
    for turn in range(TRIES):
        for place in order:
            if made == limit:
                return
            source, whole = conversations[place]
            rng = np.random.default_rng([seed, zlib.crc32(f"{kind}/{source}/{whole.seconds}".encode()), turn])
            placed = place_edit(kind, whole, rng)
            if placed is not None:
                made += 1
                yield _pair(source, whole, *placed)


def _pair(source: str, whole: Timeline, start_s: float, clip: Timeline, edit: Edit) -> Pair:
    record = {"clip_start_s": start_s, "clip_seconds": clip.seconds, **edit.as_dict()}
    return Pair(edit.kind, source, Clip(clip), Clip(edited(clip, edit, whole)), record)
