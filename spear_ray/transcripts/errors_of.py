"""Word and character error rates of a transcript, in two ways that are never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version as package_version
from importlib.util import find_spec
from typing import Any

from spear_ray.errors import PrerequisiteError
from spear_ray.transcripts.cleaning import cleaned, is_missing, stripped

REFERENCE_MISSING = "reference_missing"
REFERENCE_EMPTY = "reference_empty"
NORMALISED_EMPTY = "reference_empty_normalised"


@dataclass(frozen=True)
class ErrorRates:
    """What could be measured, and notes on what could not.

    Args:
        metrics: `spear_wer` and `spear_cer`, `wer` and `cer`; shares, so 1.0 is one error for each word.
        notes: codes of what is absent.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Comparison:
    """Compares a transcript with the text that was meant.

    SPEARBench cleans the reference and strips both texts at their ends; case and punctuation count. The other way
    brings both through Whisper's English normaliser (Radford et al. 2022, appendix C).

    Args:
        spellings: British to American spellings of the normaliser; they come with a Whisper checkpoint
            (normalizer.json) and not with transformers. Empty leaves spellings as they are.
    """

    def __init__(self, spellings: Mapping[str, str]) -> None:
        self._spellings = dict(spellings)

    @staticmethod
    def missing() -> PrerequisiteError | None:
        """What is not installed, if anything."""
        return None if find_spec("jiwer") else PrerequisiteError("error rates need jiwer: pip install jiwer")

    @staticmethod
    def version() -> str | None:
        """Of jiwer, which aligns the texts; None where it is not installed."""
        return package_version("jiwer") if find_spec("jiwer") else None

    def rates(self, reference: str | None, transcript: str) -> ErrorRates:
        """Both kinds of rates, as far as the reference allows.

        Args:
            reference: `transcript_answer` of the metadata.
            transcript: what was heard, not empty.
        """
        if reference is None or is_missing(reference):
            return ErrorRates(notes=(REFERENCE_MISSING,))
        found = published_rates(reference, transcript)
        if found is None:
            return ErrorRates(notes=(REFERENCE_EMPTY,))
        metrics = {"spear_wer": found[0], "spear_cer": found[1]}
        meant = self.normalised(cleaned(reference))
        if not meant:
            return ErrorRates(metrics, (NORMALISED_EMPTY,))
        word, character = _rates(meant, self.normalised(transcript))
        return ErrorRates(metrics | {"wer": word, "cer": character})

    def normalised(self, text: str) -> str:
        """A text in lower case, without punctuation and hesitations, numbers and contractions in one form."""
        return str(self._normaliser(text)).strip()

    @cached_property
    def _normaliser(self) -> Any:
        from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

        normaliser: Any = EnglishTextNormalizer
        return normaliser(self._spellings)


def published_rates(reference: str, transcript: str) -> tuple[float, float] | None:
    """SPEARBench's word and character error rates.

    Args:
        reference: `transcript_answer` of the metadata.
        transcript: what was heard.

    Returns:
        Shares; None where nothing of the reference is left after cleaning. jiwer 4 would then give the number of
        words that were heard, and one such row can move a system's mean by a hundred percent.
    """
    meant = stripped(cleaned(reference))
    return _rates(meant, stripped(transcript)) if meant else None


def _rates(reference: str, hypothesis: str) -> tuple[float, float]:
    import jiwer

    return float(jiwer.wer(reference, hypothesis)), float(jiwer.cer(reference, hypothesis))
