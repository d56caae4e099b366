"""Language labels as SPEARBench stores them."""

from __future__ import annotations

STORED = {
    "cmn": "zho", "yue": "zho", "nan": "zho",
    "arb": "ara", "acm": "ara", "apc": "ara", "arz": "ara",
    "sou": "tha", "nod": "tha", "khb": "tha",
    "tts": "lao",
}  # fmt: skip
"""ISO 639-3 codes of the classifier that are stored as another (SPEARBench, bin/language_id.py)."""

ENGLISH = frozenset({"eng", "en", "english"})
"""MMS-LID says `eng`, Whisper `en`, VoxLingua107-style models `en: English`."""


def stored_code(label: str) -> str:
    """A classifier's label as SPEARBench's files have it: lower case, some codes joined.

    Args:
        label: ISO 639-3, for instance `eng`; other labels stay as they are.
    """
    code = label.strip().lower()
    return STORED.get(code, code)


def is_english(label: str) -> bool:
    """Whether a label means English, in any of the known spellings."""
    return stored_code(label).split(":")[0].strip() in ENGLISH
