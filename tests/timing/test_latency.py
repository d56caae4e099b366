import pytest

from spear_ray.timing.latency import (
    Overlap,
    answer_speech,
    published_latency_s,
    published_overlap,
    response_latency_s,
)
from spear_ray.timing.segments import segments_of

QUESTION = segments_of([(0.5, 2.0), (2.5, 4.0)])


def latency(answer: list[tuple[float, float]], end_s: float = 4.1, onset_s: float | None = 0.0) -> float | None:
    return response_latency_s(QUESTION, segments_of(answer), end_s, onset_s)


def test_late_answer_has_positive_latency():
    assert latency([(4.75, 6.0)]) == pytest.approx(0.75)


def test_early_answer_has_negative_latency():
    assert latency([(3.5, 6.0)]) == pytest.approx(-0.5)


def test_latency_counts_from_the_last_speech_and_not_from_the_annotated_end():
    assert latency([(4.75, 6.0)], end_s=4.5) == pytest.approx(0.75)


def test_question_speech_counts_only_up_to_the_question_end():
    assert latency([(3.5, 6.0)], end_s=3.0) == pytest.approx(0.5)


def test_silent_answer_has_no_latency():
    assert latency([]) is None


def test_silent_question_has_no_latency():
    assert response_latency_s([], segments_of([(1, 2)]), 4.0, 0.0) is None


def test_question_that_speaks_only_after_its_end_has_no_latency():
    assert response_latency_s(segments_of([(5, 6)]), segments_of([(7, 8)]), 4.0, 4.0) is None


def test_speech_before_the_answer_onset_is_not_the_answer():
    assert latency([(1.0, 2.0), (4.5, 6.0)], onset_s=4.25) == pytest.approx(0.5)


def test_speech_that_runs_across_the_onset_counts_from_the_onset():
    assert latency([(3.0, 6.0)], onset_s=4.25) == pytest.approx(0.25)


def test_without_an_onset_the_answer_is_the_first_speech_that_outlasts_the_question():
    assert latency([(1.0, 2.0), (3.75, 5.0), (5.5, 6.0)], onset_s=None) == pytest.approx(-0.25)


def test_answer_speech_without_an_onset_keeps_whole_segments():
    answering = segments_of([(1.0, 2.0), (3.75, 5.0), (5.5, 6.0)])
    assert answer_speech(answering, 4.1, None) == answering[1:]


def test_answer_speech_begins_at_the_onset():
    answering = segments_of([(1.0, 2.0), (3.75, 5.0)])
    assert answer_speech(answering, 4.1, 4.0) == [(4.0, 5.0)]


def test_published_latency_sums_the_silences_on_both_sides_of_the_question_end():
    answer = segments_of([(0.25, 1.0)])
    assert published_latency_s(QUESTION, answer, 4.5, 0.125) == pytest.approx(0.5 + 0.125 + 0.25)


def test_published_latency_of_an_early_answer_is_not_negative():
    assert published_latency_s(QUESTION, segments_of([(0.0, 1.0)]), 4.0, -2.0) == 0


def test_published_latency_of_a_silent_answer_is_what_remains():
    assert published_latency_s(QUESTION, [], 4.5, 0.25) == pytest.approx(0.75)
    assert published_latency_s([], [], 4.5, 0.25) == pytest.approx(0.25)


def test_published_overlap_counts_answer_segments_over_question_speech():
    answer = segments_of([(0.0, 0.25), (0.5, 1.75), (3.0, 4.0)])
    # Question speech ends at 4.0; the answer starts at 3.0.
    assert published_overlap(QUESTION, answer, 0.0, 4.0, -1.0) == Overlap(2, pytest.approx(0.75))


def test_published_overlap_ignores_the_context():
    answer = segments_of([(0.0, 3.5)])
    assert published_overlap(QUESTION, answer, 3.0, 4.0, -3.5) == Overlap(1, pytest.approx(1.0))


def test_published_overlap_ignores_question_speech_after_its_end():
    assert not published_overlap(QUESTION, segments_of([(0.0, 1.0)]), 0.0, 3.0, 0.0).interrupted


def test_touching_segments_do_not_interrupt():
    assert published_overlap(QUESTION, segments_of([(0.0, 1.0)]), 0.0, 4.0, 0.0) == Overlap(0, 0)
