"""Tokens, segments and lexical measures."""

from __future__ import annotations

import numpy as np
import pytest

from spear_ray.prosody.lexical import lexical_metrics, mattr, mtld, segments_of_text

RNG = np.random.default_rng(5)
TOKENS = [f"w{number}" for number in RNG.zipf(1.4, size=700).clip(max=200)]


def test_tokens_are_lower_case_words_with_their_apostrophes_and_hyphens() -> None:
    text = "P0001A: Don't — it’s “well-known”, Café 24, *bold* 3.5 x_y!"
    expected = ["don't", "it's", "well-known", "café", "24", "bold", "3", "5", "x", "y"]
    assert segments_of_text(text) == [expected]


def test_segments_end_at_sentences_lines_and_speakers() -> None:
    text = "Yeah. So... what? I see…\nok P0002: um, well 3.5 km.\n\n!?"
    assert segments_of_text(text) == [["yeah"], ["so"], ["what"], ["i", "see"], ["ok"], ["um", "well", "3", "5", "km"]]


def test_ratios_of_a_small_text() -> None:
    found = lexical_metrics("You know, the cat sat. The cat? Yeah, okay. Um.")
    expected = {
        "lexical_words": 10, "lexical_ttr": 8 / 10, "lexical_hapax_ratio": 6 / 10, "lexical_backchannel_ratio": 2 / 4,
        "lexical_discourse_marker_ratio": 1 / 10, "lexical_entropy": 0.6 * np.log2(10) + 0.4 * np.log2(5),
    }  # fmt: skip
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "share"),
    [("Yeah.", 1.0), ("Yeah yeah.", 1.0), ("Yeah yeah yeah.", 0.0), ("Yeah right.", 0.0), ("OK! Sure.", 0.5)],
)
def test_a_backchannel_is_a_segment_of_at_most_two_of_its_words(text: str, share: float) -> None:
    assert lexical_metrics(text)["lexical_backchannel_ratio"] == share


def test_a_discourse_marker_does_not_cross_segments() -> None:
    assert lexical_metrics("I know you. Know that")["lexical_discourse_marker_ratio"] == 0
    assert lexical_metrics("I mean it is kind of, sort of, you know, odd")["lexical_discourse_marker_ratio"] == 4 / 11


@pytest.mark.parametrize("text", ["", "   ", "?!", "P0001:"])
def test_a_text_without_words_has_no_measures(text: str) -> None:
    assert lexical_metrics(text) == {}


def test_one_word_said_over_and_over_has_no_entropy() -> None:
    found = lexical_metrics("ha " * 60)
    assert found["lexical_entropy"] == 0
    assert found["lexical_ttr"] == pytest.approx(1 / 60)
    assert found["lexical_mattr_50"] == pytest.approx(1 / 50)


@pytest.mark.parametrize("window", [1, 2, 50, 500, 700])
def test_mattr_is_the_mean_over_all_windows(window: int) -> None:
    each = [len(set(TOKENS[start : start + window])) / window for start in range(len(TOKENS) - window + 1)]
    assert mattr(TOKENS, window) == pytest.approx(np.mean(each), abs=1e-12)


def test_texts_shorter_than_a_window_have_no_mattr_and_short_texts_no_mtld() -> None:
    found = lexical_metrics(" ".join(TOKENS[:49]))
    assert not {"lexical_mattr_50", "lexical_mtld"} & found.keys()
    found = lexical_metrics(" ".join(TOKENS[:50]))
    assert {"lexical_mattr_50", "lexical_mtld"} <= found.keys()
    assert "lexical_mattr_500" not in found


def test_mtld_of_two_words_in_turn_ends_a_factor_at_each_third_word() -> None:
    # a b a: 2 / 3 is below 0.72, and again from the next word on.
    assert mtld(["a", "b"] * 30) == pytest.approx(3.0)


def test_mtld_counts_what_is_left_as_a_part_of_a_factor() -> None:
    # Forward and backward: 20 factors of 3, then b a with a ratio of 1, which is no part of a factor.
    assert mtld(["a", "b"] * 31) == pytest.approx(62 / 20)
    new = [f"n{number}" for number in range(50)]
    # Either way the ratio never falls to 0.72: all that there is is 1 - 50 / 60 of the way to it.
    assert mtld(new + new[:10]) == pytest.approx(60 / ((1 - 50 / 60) / 0.28))


def test_without_a_repeated_word_there_is_no_mtld() -> None:
    assert mtld([f"n{number}" for number in range(80)]) is None


def test_more_varied_words_score_higher() -> None:
    rich = " ".join(f"n{number % 300}" for number in range(600))
    poor = " ".join(f"n{number % 30}" for number in range(600))
    for name in ("ttr", "mattr_50", "mattr_500", "mtld", "entropy"):
        key = f"lexical_{name}"
        assert lexical_metrics(rich)[key] > lexical_metrics(poor)[key]
