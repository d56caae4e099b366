"""What words an answer is made of: how varied they are, how many are backchannels and discourse markers.

Tokens: the text in Unicode's compatibility form (NFKC) and lower case, speaker tags (`P0001A:`) taken out; a token is a
run of letters and digits, with apostrophes and hyphens inside it ("don't", "mm-hmm"); typographic apostrophes count as
plain ones. Segments end at `.`, `?`, `!` or an ellipsis before white space, at a line break and at a speaker tag.

SPEARBench's tokens are spaCy's, and its segments those of its recogniser, so values are near its own, not equal; its
content density, which needs spaCy's word classes, is left out.

Source: SPEARBench (arXiv 2607.05365), bin/distrib_baselines, for which measures there are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

MATTR_WINDOWS = (50, 500)
"""Tokens (SPEARBench)."""
MTLD_THRESHOLD = 0.72
"""Type-token ratio at which a factor is complete (McCarthy and Jarvis 2010; SPEARBench)."""
MTLD_LEAST_TOKENS = 50
"""Below, MTLD is not measured (SPEARBench)."""
BACKCHANNELS = frozenset({"yeah", "okay", "ok", "uh", "um"})
BACKCHANNEL_MOST_TOKENS = 2
"""Of a segment that is a backchannel (SPEARBench)."""
DISCOURSE_MARKERS = frozenset({("you", "know"), ("i", "mean"), ("kind", "of"), ("sort", "of")})

_TAG = re.compile(r"\bP\d{4}A?:")
_SEGMENT_END = re.compile(r"[.?!]+(?=\s|$)|\n+")
_TOKEN = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_APOSTROPHES = str.maketrans("’‘ʼ", "'''")


def segments_of_text(text: str) -> list[list[str]]:
    """The tokens of each segment that has any; see the module for what both are."""
    plain = unicodedata.normalize("NFKC", _TAG.sub("\n", text)).lower().translate(_APOSTROPHES)
    parts = (_TOKEN.findall(part) for part in _SEGMENT_END.split(plain))
    return [part for part in parts if part]


def lexical_metrics(text: str) -> dict[str, float]:
    """The lexical measures of a text.

    Returns:
        With `lexical_` in front: `words` (tokens), `ttr` (types / tokens), `hapax_ratio` (types that occur once /
        tokens), `entropy` (bits per token), `backchannel_ratio` (of segments), `discourse_marker_ratio` (markers per
        token), and where the text is long enough `mattr_50`, `mattr_500`, `mtld`. Empty for a text without a token.
    """
    segments = segments_of_text(text)
    tokens = [token for segment in segments for token in segment]
    if not tokens:
        return {}
    counts = np.array(list(Counter(tokens).values()), dtype=np.float64)
    shares = counts / len(tokens)
    found = {
        "words": float(len(tokens)),
        "ttr": counts.size / len(tokens),
        "hapax_ratio": float((counts == 1).sum()) / len(tokens),
        "entropy": float(-(shares * np.log2(shares)).sum()) + 0.0,
        "backchannel_ratio": sum(map(_is_backchannel, segments)) / len(segments),
        "discourse_marker_ratio": sum(map(_markers, segments)) / len(tokens),
    }
    longer = {f"mattr_{window}": mattr(tokens, window) for window in MATTR_WINDOWS} | {"mtld": mtld(tokens)}
    found |= {name: value for name, value in longer.items() if value is not None}
    return {f"lexical_{name}": value for name, value in found.items()}


def mattr(tokens: Sequence[str], window: int) -> float | None:
    """Moving-average type-token ratio: the mean over all windows of consecutive tokens.

    Args:
        tokens: in their order.
        window: tokens in a window.

    Returns:
        None where there are fewer tokens than a window holds.

    Source: Covington and McFall (2010).
    """
    count = len(tokens)
    if count < window:
        return None
    last: dict[str, int] = {}
    before = np.empty(count, dtype=np.int64)
    for place, token in enumerate(tokens):
        before[place] = last.get(token, -1)
        last[token] = place
    # A token is a new type in each window that holds it and begins after the same token came before.
    places = np.arange(count)
    first = np.maximum(np.maximum(before + 1, places - window + 1), 0)
    windows = np.maximum(np.minimum(places, count - window) - first + 1, 0)
    return float(windows.sum() / (window * (count - window + 1)))


def mtld(tokens: Sequence[str], threshold: float = MTLD_THRESHOLD) -> float | None:
    """Measure of textual lexical diversity: mean length of passages that keep their type-token ratio above a threshold.

    The mean of a forward and a backward pass; what is left at the end counts as a part of a factor.

    Args:
        tokens: in their order.
        threshold: a factor is complete when the ratio is at it or below.

    Returns:
        None for fewer than MTLD_LEAST_TOKENS, and where no token is repeated: then no passage ends.

    Source: McCarthy and Jarvis (2010).
    """
    if len(tokens) < MTLD_LEAST_TOKENS or len(set(tokens)) == len(tokens):
        return None
    passes = (len(tokens) / _factors(one, threshold) for one in (tokens, tokens[::-1]))
    return float(np.mean(list(passes)))


def _factors(tokens: Sequence[str], threshold: float) -> float:
    factors, types, length = 0.0, set[str](), 0
    for token in tokens:
        types.add(token)
        length += 1
        if len(types) <= threshold * length:
            factors, types, length = factors + 1, set(), 0
    rest = (1 - len(types) / length) / (1 - threshold) if length else 0.0
    return factors + rest


def _is_backchannel(segment: Sequence[str]) -> bool:
    return len(segment) <= BACKCHANNEL_MOST_TOKENS and BACKCHANNELS.issuperset(segment)


def _markers(segment: Sequence[str]) -> int:
    return sum(pair in DISCOURSE_MARKERS for pair in pairwise(segment))
