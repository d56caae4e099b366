"""Triples made of the bundled sample, judged in the real job by a server, and compared."""

import csv
import json

import numpy as np
import pytest
import soundfile
from rich.console import Console

from spear_ray import pipeline
from spear_ray.cli import run
from spear_ray.config import load
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.judge_agreement import run_agreement, table
from spear_ray.sources import open_source
from spear_ray.triples import MANIFEST, Change, changed, changes, make_triples
from tests.bundled import read_all
from tests.clips import speech
from tests.judge_server import decides, running
from tests.test_bench import here

QUIET = Console(quiet=True)


@pytest.fixture(scope="module")
def triples(tmp_path_factory):
    folder = tmp_path_factory.mktemp("triples")
    count, url = make_triples(load([f"triples.out={folder}", "triples.limit=6", "triples.seed=3"]))
    assert count == 6
    assert url.endswith(MANIFEST)
    return folder


def lines_of(folder):
    with (folder / MANIFEST).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def no_cluster(monkeypatch):
    """The job's stages one after the other; tests/test_run_judge.py has the real cluster."""
    monkeypatch.setattr(pipeline, "start_ray", lambda config: None)
    monkeypatch.setattr(pipeline, "run", here)


def test_each_triple_has_one_question_and_replies_of_1_3_and_5(triples):
    lines = lines_of(triples)
    assert len(lines) == 18
    for name in {line["pair"] for line in lines}:
        own = [line for line in lines if line["pair"] == name]
        assert [line["human_score"] for line in own] == ["1", "3", "5"]
        assert len({line["user_audio"] for line in own}) == len({line["attribute"] for line in own}) == 1
        assert len({line["reply_audio"] for line in own}) == 3
        assert own[0]["conversation_id"] not in own[0]["change"]
        assert own[1]["change"].startswith(own[0]["attribute"])
    assert {line["attribute"] for line in lines} == {"speed", "pitch"}


def test_same_seed_makes_the_same_triples(triples, tmp_path):
    make_triples(load([f"triples.out={tmp_path}", "triples.limit=6", "triples.seed=3"]))
    assert lines_of(tmp_path) == lines_of(triples)
    make_triples(load([f"triples.out={tmp_path / 'other'}", "triples.limit=6", "triples.seed=4"]))
    assert lines_of(tmp_path / "other") != lines_of(triples)


def test_changes_are_audible_and_keep_the_words_length_in_proportion():
    said = speech(3)
    fast, slow, high, low = (changed(said, change) for change in changes(load([]).triples))
    assert (fast.size / said.size, slow.size / said.size) == pytest.approx((1 / 1.7, 1.7), rel=0.01)
    assert high.size == low.size == said.size

    def centre(samples):
        power = np.abs(np.fft.rfft(samples)) ** 2
        return np.sum(power * np.arange(power.size)) / np.sum(power) / samples.size

    assert centre(low) < centre(said) < centre(high)
    assert str(Change("speed", 1.7)) == "speed 1.7"


def test_exchanges_are_read_as_question_and_reply(triples):
    source = open_source(load([f"data.uri={triples / MANIFEST}", "data.layout=exchanges"]))
    found = read_all(source)
    assert len(found) == 18
    for line, dialogue in zip(lines_of(triples), found, strict=True):
        assert (dialogue.dialogue_id, dialogue.conversation_id) == (line["id"], line["conversation_id"])
        asked, _ = soundfile.read(triples / line["user_audio"], dtype="float32")
        replied, _ = soundfile.read(triples / line["reply_audio"], dtype="float32")
        np.testing.assert_array_equal(dialogue.clip, [asked, np.zeros_like(asked)])
        np.testing.assert_array_equal(dialogue.answer, replied)
        assert dialogue.question_end_s == asked.size / 16_000


def knows(asked):
    """A judge that goes by the length of the clip: it says the same of the same clip."""
    return decides(_1=0.2, _3=0.1, _5=0.7) if asked.clips[0].size % 2 else decides(_1=0.6, _3=0.2, _5=0.1)


@pytest.mark.usefixtures("no_cluster")
def test_judge_is_compared_with_the_scores(triples, tmp_path):
    words = [f"data.uri={triples / MANIFEST}", f"run.uri={tmp_path}", "judge.engine=endpoint", "judge.model=m"]
    with running(knows) as server:
        result, url, exit_code = run_agreement([*words, f"judge.base_url={server.url}"], QUIET)
    assert exit_code == 0
    assert json.loads((tmp_path / "judge_agreement.json").read_text()) == json.loads(json.dumps(result))
    assert url.endswith("judge_agreement.json")
    assert (result["n"], result["n_total"]) == (18, 18)
    counts = result["confusion"]
    hits = counts["1"]["1"] + counts["5"]["5"]
    assert result["accuracy"]["value"] == pytest.approx(hits / 18)
    assert set(result["by_attribute"]) == {"speed", "pitch"}
    assert result["preference"]["n"] == 18
    text = table(result)
    assert "WavReward" in text
    assert f"{100 * hits / 18:.1f} %" in text


@pytest.mark.usefixtures("no_cluster")
def test_exchange_that_cannot_be_judged_is_counted_and_not_guessed(triples, tmp_path):
    lines = lines_of(triples)
    lines[4]["reply_audio"] = "audio/gone.wav"
    manifest = triples / "with_gap.csv"
    with manifest.open("w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    words = [f"data.uri={manifest}", f"run.uri={tmp_path}", "judge.engine=endpoint", "judge.model=m"]
    with running(knows) as server:
        result, _, exit_code = run_agreement([*words, f"judge.base_url={server.url}"], QUIET)
    assert (result["n"], result["n_total"], exit_code) == (17, 18, 1)
    assert result["counts"]["wavreward.error.audio_missing"] == 1


@pytest.mark.parametrize("score", ["", "6", "0", "good", "nan"])
def test_score_that_is_none_is_refused_with_its_row(tmp_path, score):
    (tmp_path / "m.csv").write_text(f"user_audio,reply_audio,human_score\na.wav,b.wav,3\na.wav,b.wav,{score}\n")
    with pytest.raises(DataLayoutError, match="row 3: human_score"):
        run_agreement(
            [f"data.uri={tmp_path / 'm.csv'}", "judge.engine=endpoint", "judge.base_url=http://x", "judge.model=m"],
            QUIET,
        )


def test_a_table_is_needed_and_a_place_to_write_to(tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"name the CSV file"):
        run_agreement(["data.uri=sample"], QUIET)
    assert run(["make-triples"]) == 2
    assert "triples.out" in capsys.readouterr().err
    assert run(["make-triples", f"triples.out={tmp_path}", "triples.limit=2"]) == 0
    assert "2 triples" in capsys.readouterr().out
