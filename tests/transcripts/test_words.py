"""Pieces of long answers, and words with times."""

from itertools import pairwise

import numpy as np
import pytest

from spear_ray.dialogue import SAMPLE_RATE_HZ
from spear_ray.timing.segments import Segment
from spear_ray.transcripts.words import MARGIN_S, Heard, Word, cut_out, joined, language_code, pieces, within_speech


def loud(seconds: float, *quiet_s: float) -> np.ndarray:
    """Noise with 0.2 s of silence around each given time."""
    samples = np.random.default_rng(0).standard_normal(round(seconds * SAMPLE_RATE_HZ)).astype(np.float32)
    for at in quiet_s:
        samples[round((at - 0.1) * SAMPLE_RATE_HZ) : round((at + 0.1) * SAMPLE_RATE_HZ)] = 0.0
    return samples


def segments(*pairs: tuple[float, float]) -> list[Segment]:
    return [Segment(*pair) for pair in pairs]


def test_a_short_answer_is_heard_whole_with_its_silence():
    assert pieces(loud(29.0), segments((5, 6)), 30.0) == [Segment(0.0, 29.0)]


def test_a_long_answer_is_cut_in_its_pauses_and_loses_no_speech():
    speech = segments((1, 12), (13, 25), (26, 40), (47, 55))
    found = pieces(loud(60.0), speech, 30.0)
    np.testing.assert_allclose(found, [(0.8, 25.2), (25.8, 55.2)])


def test_pieces_never_overlap_and_never_exceed_their_limit():
    rng = np.random.default_rng(1)
    for _ in range(50):
        edges = np.sort(rng.uniform(0, 100, 2 * rng.integers(1, 30)))
        speech = segments(*edges.reshape(-1, 2).tolist())
        found = pieces(loud(100.0), speech, 12.0)
        assert all(one.length <= 12.0 + 1e-9 for one in found)
        assert all(one.end <= other.start + 1e-9 for one, other in pairwise(found))
        covered = sum(max(0.0, min(p.end, s.end) - max(p.start, s.start)) for p in found for s in speech)
        assert covered == pytest.approx(sum(one.length for one in speech))


def test_speech_without_a_pause_is_cut_where_it_is_quietest():
    found = pieces(loud(50.0, 27.0), segments((0, 50)), 30.0)
    assert [one.end for one in found] == [pytest.approx(27.0, abs=0.1), 50.0]
    assert found[1].start == pytest.approx(found[0].end)


def test_an_answer_without_speech_is_cut_as_if_all_of_it_were():
    found = pieces(loud(70.0), [], 30.0)
    assert (found[0].start, found[-1].end) == (0.0, 70.0)
    assert sum(one.length for one in found) == pytest.approx(70.0)


def test_a_piece_far_from_others_keeps_a_margin_of_silence():
    found = pieces(loud(60.0), segments((10, 20), (45, 50)), 30.0)
    assert found[0].start == pytest.approx(10 - MARGIN_S)
    assert cut_out(loud(60.0), found[0]).size == pytest.approx((10 + 2 * MARGIN_S) * SAMPLE_RATE_HZ, abs=1)


def heard(text: str, language: str | None = "en", timed: bool = True) -> Heard:
    return Heard(text, language, (Word(text, 0.5, 1.0),) if timed else None)


def test_pieces_join_to_one_text_with_times_of_the_whole_answer():
    whole = joined(segments((2, 10), (20, 31)), [heard("one"), heard("two")])
    assert (whole.text, whole.language) == ("one two", "en")
    assert whole.words == (Word("one", 2.5, 3.0), Word("two", 20.5, 21.0))


def test_the_language_is_that_of_most_seconds():
    whole = joined(segments((0, 3), (3, 9), (9, 11)), [heard("a", "en"), heard("b", "de"), heard("c", "en")])
    assert whole.language == "de"


def test_a_piece_without_words_has_no_say():
    whole = joined(segments((0, 30), (30, 31)), [Heard("", "cy", None), heard("yes")])
    assert (whole.text, whole.language, whole.words) == ("yes", "en", (Word("yes", 30.5, 31.0),))


def test_one_piece_without_times_leaves_all_without():
    assert joined(segments((0, 3), (3, 9)), [heard("a"), heard("b", timed=False)]).words is None


def test_nothing_heard_is_an_empty_text():
    assert joined(segments((0, 3)), [Heard("")]) == Heard("", None, (), False)


def test_a_word_is_cut_to_the_speech_it_lies_in():
    speech = segments((0.3, 1.0), (2.0, 3.0))
    words = [Word("so", 0.0, 0.6), Word("then", 0.6, 2.2), Word("go", 2.2, 4.0)]
    assert within_speech(words, speech) == [Word("so", 0.3, 0.6), Word("then", 0.6, 1.0), Word("go", 2.2, 3.0)]


def test_a_word_outside_all_speech_keeps_its_times():
    assert within_speech([Word("hm", 5.0, 5.5)], segments((0, 1))) == [Word("hm", 5.0, 5.5)]
    assert within_speech([Word("hm", 5.0, 5.5)], []) == [Word("hm", 5.0, 5.5)]


def test_starts_stay_in_order_and_no_word_ends_before_it_starts():
    speech = segments((0, 1), (1.2, 3))
    words = [Word("a", 0.9, 1.3), Word("b", 0.95, 1.0), Word("c", 1.1, 1.1)]
    found = within_speech(words, speech)
    assert all(one.start_s <= one.end_s for one in found)
    assert all(one.start_s <= other.start_s for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("name", "code"), [("English", "en"), ("en", "en"), ("eng", "en"), ("German", "german"), ("", None), (None, None)]
)
def test_english_has_one_code(name, code):
    assert language_code(name) == code
