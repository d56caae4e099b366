"""The texts as SPEARBench compares them.

Source: SPEARBench (arXiv 2607.05365), bin/base_metrics.py; recorded cases in tests/golden.
"""

from __future__ import annotations

import re

SPEAKER_TAG = re.compile(r"P\d{4}A?:\s*")
"""Seamless Interaction's participants have four digits, some with an A behind them."""

HEADING = re.compile(r"^\s*\*\*.+?\*\*\s*[:\-–—]?\s*")
"""What some systems put before their answer; only at the beginning."""

THINKING_GAP = "   "
"""Three spaces part what some systems think from what they say."""

ENDS = ".? "
"""Taken off both ends of both texts."""

MISSING = "nan"
"""How an absent text reads in the published tables."""


def cleaned(reference: str) -> str:
    """The text that was meant, without speaker tags, a leading heading, and what stands before a gap.

    Args:
        reference: `transcript_answer` of the metadata.
    """
    without_tags = SPEAKER_TAG.sub("", reference)
    return HEADING.sub("", without_tags).split(THINKING_GAP)[-1]


def stripped(text: str) -> str:
    """A text without full stops, question marks and spaces at its ends; nothing else is changed."""
    return text.strip(ENDS)


def is_missing(reference: str | None) -> bool:
    """Whether there is no text at all; an empty one is there, but says nothing."""
    return reference is None or reference == MISSING
