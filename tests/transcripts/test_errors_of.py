"""The two kinds of error rates."""

import pytest

from spear_ray.transcripts.errors_of import Comparison

SPELLINGS = {"colour": "color"}


def test_case_and_punctuation_count_in_spearbenchs_rates_only():
    found = Comparison({}).rates("P1234: Well, I don't know.", "well i don't know")
    assert found.metrics == {
        "spear_wer": 0.5, "spear_cer": pytest.approx(3 / 18), "wer": 0.0, "cer": 0.0,
    }  # fmt: skip


def test_hesitations_numbers_and_contractions_are_one_for_the_normaliser():
    found = Comparison({}).rates("Um, I'll take twenty-one.", "I will take 21")
    assert (found.metrics["wer"], found.metrics["cer"]) == (0.0, 0.0)
    assert found.metrics["spear_wer"] > 0.5


def test_spellings_of_the_checkpoint_are_used():
    assert Comparison(SPELLINGS).rates("What colour", "what color").metrics["wer"] == 0.0
    assert Comparison({}).rates("What colour", "what color").metrics["wer"] == 0.5


def test_the_reference_is_cleaned_before_it_is_normalised():
    assert Comparison({}).rates("**Answer:** thinking   P1234: Yes.", "yes").metrics["wer"] == 0.0


def test_a_reference_of_hesitations_has_only_spearbenchs_rates():
    found = Comparison({}).rates("Mm-hmm.", "mhm")
    assert found.metrics.keys() == {"spear_wer", "spear_cer"}
    assert found.notes == ("reference_empty_normalised",)


def test_a_transcript_of_hesitations_misses_every_word():
    assert Comparison({}).rates("Yes, sir.", "um, uh").metrics["wer"] == 1.0


@pytest.mark.parametrize(
    ("reference", "note"),
    [
        (None, "reference_missing"),
        ("nan", "reference_missing"),
        ("", "reference_empty"),
        ("said   ", "reference_empty"),
    ],
)
def test_without_a_reference_there_is_a_note_and_no_rate(reference, note):
    found = Comparison({}).rates(reference, "hello")
    assert (found.metrics, found.notes) == ({}, (note,))
