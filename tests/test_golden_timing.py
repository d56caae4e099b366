"""Latency, overlap and mixing against recorded results of SPEARBench's published code."""

import numpy as np
import pytest
from golden_cases import json_cases

from spear_ray.audio import published_mix
from spear_ray.timing.latency import published_latency_s, published_overlap
from spear_ray.timing.segments import segments_of


@pytest.mark.parametrize(("path", "case"), json_cases("timing_cases*.json"))
def test_golden_latency(path, case):
    latency_s = published_latency_s(
        segments_of(case["question_segments"]),
        segments_of(case["answer_segments_trimmed"]),
        case["question_end_time"],
        case["answer_start_time"],
    )
    assert 1000 * latency_s == pytest.approx(case["expected"]["latency_ms"], rel=0, abs=1e-9)


@pytest.mark.parametrize(("path", "case"), json_cases("timing_cases*.json"))
def test_golden_overlap(path, case):
    overlap = published_overlap(
        segments_of(case["question_segments"]),
        segments_of(case["answer_segments"]),
        case["context_end_time"],
        case["question_end_time"],
        case["answer_start_time"],
    )
    expected = case["expected"]
    assert 1000 * overlap.seconds == pytest.approx(expected["interrupted"], rel=0, abs=1e-9)
    assert (overlap.segments, int(overlap.interrupted)) == (
        expected["interruption_segments"],
        expected["interruptions"],
    )


@pytest.mark.parametrize(("path", "case"), json_cases("turntaking_mix*.json", key="i"))
def test_golden_turn_taking_mix(path, case):
    with np.load(path.with_name(f"{path.stem.removesuffix('_cases')}.npz")) as arrays:
        question, answer, merged = (arrays[f"{case['i']}.{name}"] for name in ("question", "answer", "merged"))
    mix = published_mix(question, answer, case["answer_start_time"], case["sr"])
    np.testing.assert_allclose(mix, merged, rtol=0, atol=1e-7)
