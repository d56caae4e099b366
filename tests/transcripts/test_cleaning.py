"""SPEARBench's texts and error rates against recorded results of its published code."""

import pytest
from golden_cases import files, json_cases

from spear_ray.transcripts.cleaning import cleaned, is_missing, stripped
from spear_ray.transcripts.errors_of import Comparison, published_rates


def cases() -> list:
    return json_cases("text_cases.json", key="reference") if files("text_cases.json") else []


@pytest.mark.parametrize(("path", "case"), cases())
def test_golden_texts(path, case):
    assert cleaned(case["reference"]) == case["cleaned_reference"]
    assert stripped(cleaned(case["reference"])) == case["stripped_reference"]
    assert stripped(case["hypothesis"]) == case["stripped_hypothesis"]


@pytest.mark.parametrize(("path", "case"), cases())
def test_golden_error_rates_but_for_empty_references(path, case):
    found = Comparison({}).rates(case["reference"], case["hypothesis"])
    if case["wer"] is None:
        assert is_missing(case["reference"])
        assert (found.metrics, found.notes) == ({}, ("reference_missing",))
    elif case["reference_empty_after_cleaning"]:
        assert published_rates(case["reference"], case["hypothesis"]) is None
        assert (found.metrics, found.notes) == ({}, ("reference_empty",))
    else:
        assert (found.metrics["spear_wer"], found.metrics["spear_cer"]) == (case["wer"], case["cer"])
