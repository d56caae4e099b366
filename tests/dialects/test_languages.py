import json

import pytest

from spear_ray.dialects.languages import is_english, stored_code
from tests.golden_cases import files

CASES = [case for path in files("language_codes*.json") for case in json.loads(path.read_text())["cases"]]


@pytest.mark.parametrize(("label", "stored"), CASES)
def test_labels_are_stored_as_published(label, stored):
    assert stored_code(label) == stored


@pytest.mark.parametrize("label", ["eng", "ENG ", "en", "en: English", "English"])
def test_english_is_english_in_every_spelling(label):
    assert is_english(label)


@pytest.mark.parametrize("label", ["enm", "deu", "", "english-creole"])
def test_other_languages_are_not(label):
    assert not is_english(label)
