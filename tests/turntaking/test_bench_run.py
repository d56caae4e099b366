"""turn_bench from its words to its files: on intervals, on two-channel audio, on TurnNat's manifest."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from bundled import dialogues

from spear_ray import cli
from spear_ray.config import load
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.turntaking.bench_run import long_words, run_turn_bench
from spear_ray.turntaking.perturbations import KINDS
from spear_ray.turntaking.populations import halves, key_of

from .talk import conversations
from .test_populations import write


@cache
def long_talk() -> np.ndarray:
    """Real speech: the sample's human dialogues one after the other, float32 [2, samples] at 16 kHz."""
    human = [dialogue.audio for dialogue in dialogues() if dialogue.system == "human"]
    return np.concatenate(human, axis=1)


def recordings(folder: Path) -> Path:
    folder.mkdir()
    whole = long_talk()
    for name, audio in {"a": whole, "b": whole[::-1]}.items():
        soundfile.write(folder / f"{name}.wav", audio.T, 16_000)
    return folder


def bench(tmp_path, *words):
    result, url = run_turn_bench(load(long_words([f"run.uri={tmp_path / 'run'}", *words])))
    assert json.loads(Path(url).read_text()) == result
    lines = (tmp_path / "run" / "turn_bench_pairs.jsonl").read_text().splitlines()
    return result, [json.loads(line) for line in lines]


def test_on_intervals_every_kind_is_measured_with_its_intervals(tmp_path):
    data = write(tmp_path / "x.parquet", conversations(30, seconds=240))
    result, records = bench(tmp_path, f"data.uri={data}", "limit=20", "seed=1")
    assert set(result["types"]) == set(KINDS)
    assert {entry["n"] for entry in result["types"].values()} == {20}
    assert result["overall"]["n"] == len(records) == 100
    for entry in (result["overall"], *result["types"].values()):
        for name in ("pairwise_accuracy", "c_index", "delta_nll"):
            low, high = entry[f"{name}_ci95"]
            assert low <= entry[name] <= high
    assert result["predictor"]["predictor"] == "timing"
    assert result["data"]["rows"] == 30
    assert all(record["operations"] and record["clip_seconds"] > 0 for record in records)


def test_the_same_seed_gives_the_same_pairs(tmp_path):
    data = write(tmp_path / "x.parquet", conversations(10, seconds=240))
    words = (f"data.uri={data}", "limit=8")
    assert bench(tmp_path, *words, "seed=1") == bench(tmp_path, *words, "seed=1")
    assert bench(tmp_path, *words, "seed=1")[1] != bench(tmp_path, *words, "seed=2")[1]


def test_conversations_that_statistics_were_fitted_on_are_left_out(tmp_path):
    from spear_ray.turntaking.timing_model import load_statistics

    people = conversations(20, seconds=240)
    known, strangers = halves(people)
    plain = json.loads(load_statistics("telephone"))
    plain["facts"]["fitted_on"] = [key_of(one.source) for one in known]
    statistics = tmp_path / "mine.json"
    statistics.write_text(json.dumps(plain))
    data = write(tmp_path / "x.parquet", people)
    words = (f"data.uri={data}", "limit=20", f"scorer.turn_taking.timing.statistics={statistics}")
    result, records = bench(tmp_path, *words)
    assert {record["source"] for record in records} <= {one.source for one in strangers}
    assert result["data"]["rows_fitted_on_and_left_out"] == len(known)
    everyone = bench(tmp_path, *words, "turn_bench.held_out=false")[1]
    assert {record["source"] for record in everyone} & {one.source for one in known}


def test_two_channel_recordings_are_edited_as_audio(tmp_path):
    folder = recordings(tmp_path / "talk")
    (folder / "broken.wav").write_bytes(b"RIFF....WAVE")
    result, records = bench(tmp_path, f"data.uri={folder}", "limit=2")
    assert {record["source"] for record in records} == {"a.wav", "b.wav"}
    assert result["data"]["dialogues"] == 2
    assert [message.split(":")[0] for message in result["data"]["unreadable"]] == ["broken.wav"]
    assert {"late_response", "early_entry"} <= set(result["types"])
    late = [record for record in records if record["kind"] == "late_response"]
    assert all(record["edited_nll"] > record["natural_nll"] for record in late)
    assert all(0 < record["gain"] < 100 for record in late)


def test_turnnats_manifest_is_read(tmp_path):
    whole = long_talk()[:, : 30 * 16_000]
    silence = np.zeros((2, 32_000), np.float32)
    for name, audio in {
        "natural": whole,
        "late": np.concatenate([whole[:, :96_000], silence, whole[:, 96_000:]], 1),
    }.items():
        soundfile.write(tmp_path / f"{name}.wav", audio.T, 16_000)
    (tmp_path / "manifest.csv").write_text(
        "session_id,audio_path,json_path,natural_audio_path,natural_json_path,split,duration_sec,perturbation_type,edit_type\n"
        "s1,late.wav,,natural.wav,,test,32,late_response,late\n"
        "s2,gone.wav,,natural.wav,,test,32,late_response,late\n"
        "s3,../x.wav,,natural.wav,,test,32,late_response,late\n"
    )
    for uri in (tmp_path, tmp_path / "manifest.csv"):
        result, records = bench(tmp_path, f"data.uri={uri}")
        assert [(record["source"], record["kind"]) for record in records] == [("s1", "late_response")]
        assert [message.split(":")[0] for message in result["data"]["unreadable"]] == [
            "manifest row 3",
            "manifest row 4",
        ]


def test_a_predictor_that_hears_needs_audio(tmp_path):
    data = write(tmp_path / "x.parquet", conversations(3))
    with pytest.raises(ConfigError, match="holds only times"):
        run_turn_bench(load(long_words([f"data.uri={data}", f"run.uri={tmp_path}", "predictor=vap"])))


def test_data_without_room_for_an_edit_is_an_error(tmp_path):
    pq.write_table(
        pa.table({"source": ["x"], "duration_s": [30.0], "a": [[[0.0, 30.0]]], "b": [[[1.0, 5.5]]]}),
        tmp_path / "x.parquet",
    )
    with pytest.raises(DataLayoutError, match="room for an edit"):
        bench(tmp_path, f"data.uri={tmp_path / 'x.parquet'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataLayoutError, match=r"data\.uri"):
        bench(tmp_path, f"data.uri={tmp_path / 'empty'}")


def test_the_job_prints_the_table(tmp_path, capsys):
    data = write(tmp_path / "x.parquet", conversations(10, seconds=240))
    words = ["turn-bench", f"data.uri={data}", f"run.uri={tmp_path / 'run'}", "limit=5"]
    assert cli.run(words) == 0
    printed = capsys.readouterr().out
    assert "mean of the kinds" in printed
    assert "late_response" in printed
    assert cli.run(["turn-bench", "data.uri=nowhere.parquet", f"run.uri={tmp_path / 'run'}"]) == 2
