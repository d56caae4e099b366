"""StanceBench's and SPEARBench's own ways with a judge that tells its choice and probability in words.

Our judge is asked otherwise; this reads what the published pipelines wrote, for numbers beside theirs.

Source: StanceBench (github.com/YuzheWangjhu/StanceBench, pipeline.py); SPEARBench (arXiv 2607.05365), bin/STANCE.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from spear_ray.errors import JudgeParseError
from spear_ray.judging.stances import flipped, mapped

MOST_EVIDENCE = 4
OBJECT = re.compile(r"\{.*\}", re.DOTALL)
FENCE = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
VARIANTS = (0, 1)
"""Both orders of the descriptions."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a judge told of one item in one order.

    Args:
        choice: P or N.
        probability: of the choice, in the judge's own opinion.
        evidence: short texts, at most four.
    """

    choice: str
    probability: float
    evidence: tuple[str, ...]

    @property
    def score(self) -> int:
        """-2 to 2."""
        return mapped(self.choice, self.probability)

    @property
    def signed(self) -> float:
        """The probability, negative for N."""
        return self.probability if self.choice == "P" else -self.probability


@dataclass(frozen=True, slots=True)
class SpeakerScore:
    """One speaker of a conversation.

    Args:
        score: mean over items of the mean of both orders; None where no item was judged.
        flip_rate: share of judged items whose orders led to different poles.
        items: what was said of each judged item, by its place.
        failed: place and order of what could not be read.
    """

    score: float | None
    flip_rate: float | None
    items: Mapping[int, tuple[Said, Said]]
    failed: tuple[tuple[int, int], ...]


def said(raw: str) -> Said:
    """A judge's JSON answer, strictly: an object with choice and probability, alone, fenced, or within other text.

    A choice may be spelt out (`Positive`, `neg`); the probability is cut to [0, 1].

    Raises:
        JudgeParseError: no such object, another choice, no probability.
    """
    found = _json_object(raw)
    if found is None:
        raise JudgeParseError(f"no JSON object in {raw[:200]!r}")
    word = str(found.get("choice", "")).strip().upper()
    letter = word if word in ("P", "N") else {"POS": "P", "NEG": "N"}.get(word[:3], "")
    if not letter:
        raise JudgeParseError(f"choice={found.get('choice')!r} is neither P nor N")
    try:
        probability = float(found["probability"])
    except (KeyError, TypeError, ValueError) as error:
        raise JudgeParseError(f"no probability in {raw[:200]!r}") from error
    if math.isnan(probability):
        raise JudgeParseError(f"probability is not a number in {raw[:200]!r}")
    return Said(letter, min(1.0, max(0.0, probability)), evidence_of(found.get("evidence")))


def evidence_of(value: Any) -> tuple[str, ...]:
    """The first four texts that say something; a text alone is one."""
    listed = value if isinstance(value, list) else [value]
    texts = [str(one).strip() for one in listed if one is not None]
    return tuple(text for text in texts if text and text.lower() != "nan")[:MOST_EVIDENCE]


def speaker_score(items: Sequence[tuple[str, str] | None]) -> SpeakerScore:
    """Score a speaker.

    Args:
        items: for each item the judge's answers in both orders; None where its audio was missing. An item counts where
            both can be read.
    """
    read: dict[int, tuple[Said, Said]] = {}
    failed: list[tuple[int, int]] = []
    for place, answers in enumerate(items):
        found = [_or_none(answer) for answer in answers] if answers else []
        failed += [(place, variant) for variant, one in enumerate(found) if one is None]
        kept = [one for one in found if one is not None]
        if len(kept) == len(VARIANTS):
            read[place] = (kept[0], kept[1])
    if not read:
        return SpeakerScore(None, None, read, tuple(failed))
    scores = [(first.score, second.score) for first, second in read.values()]
    return SpeakerScore(
        sum(sum(pair) / len(pair) for pair in scores) / len(scores),
        sum(flipped(pair) for pair in scores) / len(scores),
        read,
        tuple(failed),
    )


def merged(original: Sequence[Mapping[str, str]], system: Sequence[Mapping[str, str]]) -> list[dict[str, float | str]]:
    """SPEARBench's comparison of a system's stance rows with the human's, of one question.

    Args:
        original: rows of the human's stance_metrics file, in its order.
        system: those of the system.

    Returns:
        One row for each clip (by file name, by `row_idx` where a row has none) that both have, the first of equals, in
        the order of these names; with score and confidence of both, their change, its size, and both relative to the
        size of the human's; a value that cannot be had is absent.
    """
    ours, theirs = _by_clip(original), _by_clip(system)
    return [_compared(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys())]


def _by_clip(rows: Sequence[Mapping[str, str]]) -> dict[tuple[str, int, str], Mapping[str, str]]:
    found: dict[tuple[str, int, str], Mapping[str, str]] = {}
    for row in rows:
        path = row.get("audio_path") or row.get("answer_audio_path") or ""
        name = PurePosixPath(path).name.removeprefix("answer_")
        text = name or row["row_idx"]
        if text:
            number = int(text) if text.isdigit() else 0
            found.setdefault(("audio" if name else "row_idx", number, text), row)
    return found


def _compared(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, float | str]:
    row: dict[str, float | str] = {
        key: ours[key] for key in ("question_index", "row_idx", "target_role", "target_category")
    }
    for name, column in (("score", "stance_score"), ("confidence", "stance_probability")):
        pair = ours[column], theirs[column]
        if not all(pair):
            continue
        before, after = (float(one) for one in pair)
        row |= {f"{name}_original": before, f"{name}_llm": after, f"{name}_change": after - before}
        row[f"{name}_abs_change"] = abs(after - before)
        if before:
            row[f"{name}_relative_change"] = (after - before) / abs(before)
            row[f"{name}_abs_relative_change"] = abs(after - before) / abs(before)
    row |= {"choice_original": ours["stance_choice"], "choice_llm": theirs["stance_choice"]}
    return row | {"error_original": ours["stance_error"], "error_llm": theirs["stance_error"]}


def _or_none(raw: str) -> Said | None:
    try:
        return said(raw)
    except JudgeParseError:
        return None


def _json_object(raw: str) -> dict[str, Any] | None:
    """The object that a text is or holds: as a whole, within fences, or from the first to the last brace."""
    braces = OBJECT.search(raw)
    for text in (raw, *FENCE.findall(raw), braces.group() if braces else ""):
        try:
            found = json.loads(text)
        except ValueError:
            continue
        return found if isinstance(found, dict) else None
    return None
