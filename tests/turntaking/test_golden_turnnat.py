"""TurnNat's arithmetic against what its published code recorded: every case of every file, whatever their names."""

import json
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from spear_ray.turntaking import labels, scoring, tracks
from spear_ray.turntaking.pairs import SCALE_QUANTILES, Scale, c_index, pair_statistics, statistics_by_kind
from spear_ray.turntaking.tracks import clean_track, rms_track, row_from_runs, runs_of, track_from_timestamps
from spear_ray.turntaking.units import UnitSettings, boundary_units, merged_utterances, speech_runs

ROOT = Path(os.environ.get("SPEAR_GOLDEN_DIR") or Path(__file__).parent.parent / "golden") / "01_turnnat"
EXACT = 1e-9
FLOAT32 = 2e-6
"""The recorded values went through torch's float32 logarithms; ours differ in the last bit."""


@cache
def content(name: str):
    return json.loads((ROOT / name).read_text())


def cases(name: str) -> list:
    entries = content(name)["cases"]
    return [pytest.param(entry, id=f"{entry.get('id', place)}-{place}") for place, entry in enumerate(entries)]


@cache
def arrays(name: str):
    return np.load(ROOT / name)


def cleaned(case):
    raw = np.stack([row_from_runs(runs, case["n_frames_50hz"]) for runs in case["raw_runs"]])
    return clean_track(raw)


def near(value, recorded, tolerance=EXACT) -> bool:
    if recorded is None:
        return value is None or np.isnan(value)
    return value == pytest.approx(recorded, abs=tolerance, rel=0)


def check_score(score: scoring.DialogueScore, recorded, tolerance=EXACT) -> None:
    rows = recorded["unit_rows"]
    found = [(u.unit.kind, u.unit.start_s, u.unit.end_s, u.frames, u.unit.speaker) for u in score.units]
    fields = ("unit_type", "start_time", "end_time", "num_frames", "speaker")
    assert found == [tuple(row[name] for name in fields) for row in rows]
    assert [row["unit_id"] for row in rows] == list(range(len(found)))
    for unit, row, again in zip(score.units, rows, recorded["unit_nll"], strict=True):
        assert near(unit.nll, row["unit_nll"], tolerance)
        assert near(unit.nll, again, tolerance)
    pooled = score.pooled
    assert (pooled.units if pooled else 0) == recorded["num_units"]
    assert (pooled.tail_k if pooled else 0) == recorded["tail_k"]
    for name in ("mean_nll", "tail_nll", "dialog_nll", "nat_score"):
        assert near(getattr(pooled, name) if pooled else None, recorded[name], tolerance)


def test_the_settings_are_the_published_ones():
    recorded, ours = content("scoring_cases.json")["settings"], UnitSettings()
    names = {
        "context_s": "context_s",
        "unit_pre_s": "pre_s",
        "unit_post_s": "post_s",
        "tail_gamma": "tail_share",
        "lambda_mean": "mean_weight",
        "min_unit_frames": "min_frames",
        "merge_gap_s": "merge_gap_s",
        "merge_other_max_ratio": "merge_other_share",
    }
    assert {name: getattr(ours, mine) for name, mine in names.items()} == {name: recorded[name] for name in names}
    assert recorded["clean_min_speech_ms"] == tracks.MIN_SPEECH_MS
    assert recorded["clean_min_silence_ms"] == tracks.MIN_SILENCE_MS
    native = content("native8_cases.json")["settings"]
    assert native["bin_edges_frames_12_5hz"] == list(labels.NATIVE8_EDGES[1:])
    assert native["min_unit_frames"] == scoring.NATIVE8_SETTINGS.min_frames
    assert native["prob_clip"] == labels.PROBABILITY_CLIP


@pytest.mark.parametrize("case", cases("scoring_cases.json"))
def test_tracks_segments_and_utterances(case):
    track = cleaned(case)
    assert [runs_of(row).tolist() for row in track] == case["clean_runs"]
    found = [
        {
            "speaker": one.speaker,
            "start_frame": one.start_frame,
            "end_frame": one.end_frame,
            "start": one.start_s,
            "end": one.end_s,
            "duration": one.duration_s,
        }
        for one in speech_runs(track, 50.0)
    ]
    assert found == case["segments"]
    for one, recorded in zip(merged_utterances(track, 50.0, UnitSettings()), case["utterances"], strict=True):
        assert (one.speaker, one.start_frame, one.end_frame) == tuple(
            recorded[name] for name in ("speaker", "start_frame", "end_frame")
        )
        assert (one.start_s, one.end_s, one.merged_from) == tuple(
            recorded[name] for name in ("start", "end", "merged_from")
        )
        assert near(one.duration_s, recorded["duration"])
        assert near(one.internal_gap_s, recorded["internal_gap_s"])
        assert near(one.max_other_share, recorded.get("max_internal_other_ratio"))


@pytest.mark.parametrize("case", cases("scoring_cases.json"))
def test_units_and_scores_at_both_rates(case):
    track, stored = cleaned(case), arrays("scoring_nll.npz")
    for name, variant in case["variants"].items():
        settings = UnitSettings(min_utterance_s=float(name.rpartition("_")[2]))
        units = boundary_units(track, 50.0, case["duration_s"], settings)
        recorded = [
            tuple(u[key] for key in ("unit_type", "start_time", "end_time", "speaker")) for u in variant["units"]
        ]
        assert [(u.kind, u.start_s, u.end_s, u.speaker) for u in units] == recorded
        for key, rate_hz in (("50", 50.0), ("12_5", 12.5)):
            nll = stored[f"{case['id']}.nll{key}"]
            score = scoring.score_dialogue(nll, track, case["duration_s"], rate_hz, settings)
            check_score(score, variant[f"hz{key}"])


@pytest.mark.parametrize("case", cases("scoring_cases.json"))
def test_labels(case):
    track, name = cleaned(case), case["id"]
    stored = {
        key.removeprefix(f"{name}."): value for key, value in arrays("labels.npz").items() if key.startswith(f"{name}.")
    }
    np.testing.assert_array_equal(labels.vap_classes(track, stored["labels50"].size, 50.0), stored["labels50"])
    frames = stored["labels12_5"].size
    np.testing.assert_array_equal(labels.vap_classes(track, frames, 12.5), stored["labels12_5"])
    scorer = labels.native8_targets(labels.native8_scorer_track(track))
    np.testing.assert_array_equal(scorer.soft, stored["native8_soft_scorer"])
    np.testing.assert_array_equal(scorer.valid, stored["native8_valid_scorer"])
    training = labels.native8_targets(labels.at_model_rate(track, frames, 12.5))
    np.testing.assert_array_equal(training.soft, stored["native8_soft"])
    np.testing.assert_array_equal(training.valid, stored["native8_valid"])
    units = boundary_units(track, 50.0, case["duration_s"], UnitSettings(min_utterance_s=0.2))
    np.testing.assert_array_equal(labels.training_weights(units, frames, 12.5), stored["train_weights12_5"])


@pytest.mark.parametrize("case", cases("native8_cases.json"))
def test_dualturns_own_bins(case):
    track, stored = cleaned(case), arrays("native8.npz")
    own = labels.native8_scorer_track(track)
    assert [runs_of(row).tolist() for row in own] == case["clean12_runs"]
    targets = labels.native8_targets(own)
    probabilities = stored[f"{case['id']}.probs"]
    summed = labels.native8_nll(probabilities, targets)
    np.testing.assert_allclose(summed, stored[f"{case['id']}.frame_nll_sum"], atol=FLOAT32)
    for name, variant in case["variants"].items():
        reduction, _, shortest = name.partition(".min_utt_")
        settings = UnitSettings(min_utterance_s=float(shortest), min_frames=3)
        units = boundary_units(own, 12.5, case["duration_s"], settings)
        recorded = [
            tuple(u[key] for key in ("unit_type", "start_time", "end_time", "speaker")) for u in variant["units"]
        ]
        assert [(u.kind, u.start_s, u.end_s, u.speaker) for u in units] == recorded
        nll = labels.native8_nll(probabilities, targets, reduction)
        check_score(scoring.score_native8(nll, track, case["duration_s"], settings), variant, FLOAT32)


@pytest.mark.parametrize("case", cases("evaluator_cases.json"))
def test_the_released_checkpoints_evaluator(case):
    track, stored = cleaned(case), arrays("evaluator_logits.npz")
    rate_hz = case["model_frame_hz"]
    classes = labels.vap_classes(track, case["n_model_frames"], rate_hz)
    np.testing.assert_array_equal(classes, stored[f"{case['id']}.targets"])
    nll = labels.categorical_nll(stored[f"{case['id']}.logits"], classes)
    settings = UnitSettings(min_utterance_s=case["min_utterance_s"])
    score = scoring.score_dialogue(nll, track, case["n_samples"] / case["sample_rate"], rate_hz, settings)
    check_score(score, case, FLOAT32)
    assert score.num_nll_frames == case["num_nll_frames"]
    assert near(float(np.nanmean(nll)), case["all_frame_mean_nll"], FLOAT32)


def test_the_published_scripts_chunks_of_60_s():
    case = content("chunked60_case.json")
    track = cleaned(case)
    chunked = labels.published_chunk_classes(track, case["chunk_s"])
    np.testing.assert_array_equal(chunked, arrays("chunked60_targets.npz")["targets"])
    assert chunked.size == case["len_nll"]
    whole = labels.vap_classes(track, case["n_frames_50hz"], 50.0)
    assert (whole != labels.NO_LABEL).sum() == case["len_nll_unchunked"]


def test_pair_statistics():
    recorded = content("pair_statistics.json")
    pairs = recorded["pairs"]
    natural, edited = ([nan_for_none(pair[f"{name}_dialog_nll"]) for pair in pairs] for name in ("original", "edited"))
    quantiles = recorded["scale"]["low_quantile"], recorded["scale"]["high_quantile"]
    assert quantiles == SCALE_QUANTILES
    scale = Scale.of_run([*natural, *edited], quantiles)
    assert near(scale.low_nll, recorded["scale"]["nll_low_maps_to_5"])
    assert near(scale.high_nll, recorded["scale"]["nll_high_maps_to_1"])
    assert scale.segments == recorded["scale"]["num_segments"]
    names = [pair[f"{name}_segment_id"] for name in ("original", "edited") for pair in pairs]
    for name, score in zip(names, scale.scores([*natural, *edited]), strict=True):
        assert near(score, recorded["segment_scores_1_5"][name])
    same(pair_statistics(natural, edited, scale), recorded["summary"]["overall"])
    kinds = statistics_by_kind([pair["edit_type"] for pair in pairs], natural, edited, scale)
    assert kinds.keys() == recorded["summary"]["by_type"].keys()
    for kind, row in kinds.items():
        same(row, recorded["summary"]["by_type"][kind])
    same(c_index(edited, natural).row(), recorded["c_index_overall"])
    for pair, before, after in zip(pairs, natural, edited, strict=True):
        assert near(after - before, pair["delta_nll"])


def nan_for_none(value):
    return np.nan if value is None else value


def same(row, recorded) -> None:
    assert row.keys() == recorded.keys()
    for name, value in row.items():
        assert near(value, recorded[name]), name


def test_tracks_from_timestamps_and_from_loudness():
    recorded = content("timestamps_to_track.json")
    assert recorded["frame_samples"] == tracks.FRAME_SAMPLES
    assert recorded["sr"] == tracks.FRAME_SAMPLES * tracks.TRACK_RATE_HZ
    for case in recorded["cases"]:
        track = track_from_timestamps([[(t["start"], t["end"]) for t in case["timestamps"]]], case["n_samples"])
        assert track.shape == (1, case["n_frames"])
        assert runs_of(track[0]).tolist() == case["runs"]
    stored = arrays("rms_vad.npz")
    np.testing.assert_array_equal(rms_track(stored["audio"]).T, stored["track"])
