"""Reading who spoke when, fitting it, and the halves that keep measuring honest."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from bundled import dialogues

from spear_ray.config import load
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.ledger import Ledger
from spear_ray.scorers.turn_taking import TurnTakingConfig, TurnTakingScorer
from spear_ray.store import Store
from spear_ray.turntaking.estimation import fit_model
from spear_ray.turntaking.fit_run import run_fit
from spear_ray.turntaking.populations import clips, describe, halves, key_of, read_intervals, read_run
from spear_ray.turntaking.timing_model import load_statistics, model_of

from .talk import conversations


def write(path, found, **columns):
    rows = {
        "source": [one.source for one in found],
        "duration_s": [one.timeline.seconds for one in found],
        "a": [[list(unit) for unit in one.timeline.sides[0]] for one in found],
        "b": [[list(unit) for unit in one.timeline.sides[1]] for one in found],
    }
    pq.write_table(pa.table(rows | columns), path)
    return str(path)


def test_conversations_come_back_as_they_were_written(tmp_path):
    found = conversations(3)
    assert read_intervals(write(tmp_path / "x.parquet", found)) == found


def test_a_split_selects_rows(tmp_path):
    path = write(tmp_path / "x.parquet", conversations(4), split=["train", "test", "train", "dev"])
    assert [one.source for one in read_intervals(path, "train")] == ["c0", "c2"]
    with pytest.raises(DataLayoutError, match="'eval'"):
        read_intervals(path, "eval")


def test_a_table_without_the_columns_says_which_it_needs(tmp_path):
    pq.write_table(pa.table({"source": ["x"]}), tmp_path / "x.parquet")
    with pytest.raises(DataLayoutError, match="duration_s"):
        read_intervals(str(tmp_path / "x.parquet"))
    with pytest.raises(DataLayoutError, match="does not exist"):
        read_intervals(str(tmp_path / "y.parquet"))


@pytest.mark.parametrize(
    "change",
    [{"duration_s": [-1.0]}, {"a": [[[2.0, 1.0]]]}, {"b": [[[-3.0, 1.0]]]}, {"b": [[[1.0]]]}, {"a": [None]}],
)
def test_impossible_times_are_named_with_their_conversation(tmp_path, change):
    path = write(tmp_path / "x.parquet", conversations(1), **change)
    with pytest.raises(DataLayoutError, match="c0"):
        read_intervals(path)


def test_clips_are_20_to_30_s_and_follow_each_other():
    (one,) = conversations(1)
    cut = list(clips(one, np.random.default_rng(0)))
    assert len(cut) > 2
    assert all(20 <= clip.timeline.seconds <= 30 for clip in cut)
    assert {clip.source for clip in cut} == {one.source}


def test_halves_are_the_same_ones_always_and_share_no_conversation():
    found = conversations(40)
    first, second = halves(found)
    assert len(first) + len(second) == 40
    assert min(len(first), len(second)) > 8
    assert not {one.source for one in first} & {one.source for one in second}
    assert halves(found[::-1])[0] == first[::-1]


def test_a_population_is_described_in_the_fields_terms():
    quick, slow = describe(conversations(6, gap_s=0.5)), describe(conversations(6, gap_s=1.5))
    assert slow["median_gap_s"] > quick["median_gap_s"]
    assert quick["conversations"] == 6
    assert quick["hours"] == pytest.approx(0.2)


def test_too_little_data_is_an_error_that_says_how_much_is_needed():
    with pytest.raises(DataLayoutError, match="at least 500"):
        fit_model(conversations(2))


def test_fit_timing_writes_statistics_that_know_their_people(tmp_path, monkeypatch):
    monkeypatch.setattr("spear_ray.turntaking.estimation.CLIPS_PER_LENGTH", 250)
    monkeypatch.setattr("spear_ray.turntaking.fit_run.NATURAL_CLIPS", 100)
    data = write(tmp_path / "people.parquet", conversations(60, seconds=600))
    out = tmp_path / "out"
    words = [f"data.uri={data}", "fit.name=people", f"fit.out={out}", "fit.limit=30", f"fit.compare={data}"]
    files = run_fit(load(words))
    assert [name.rpartition("/")[2] for name in files] == ["people.json", "people.md"]
    model = model_of(load_statistics(files[0]), files[0])
    first, second = halves(read_intervals(data))
    assert set(model.facts["fitted_on"]) == {key_of(one.source) for one in first}
    strangers = conversations(len(second), gap_s=2.5)
    scores = [np.mean([model.score(one.timeline).dialog_nll for one in some]) for some in (second, strangers)]
    assert scores[1] > scores[0] + 0.1
    assert "## How well it tells natural from edited timing" in (out / "people.md").read_text()
    assert json.loads((out / "people.json").read_text())["facts"]["compared"]["population"]["conversations"] == 60


@pytest.mark.parametrize("lacking", ["name", "out"])
def test_fit_timing_says_which_word_is_missing(lacking):
    words = {"name": "fit.name=x", "out": "fit.out=y"}
    words.pop(lacking)
    with pytest.raises(ConfigError, match=f"fit.{lacking}"):
        run_fit(load(["data.uri=x.parquet", *words.values()]))


def test_the_human_side_of_a_run_is_a_population(tmp_path):
    scorer = TurnTakingScorer(TurnTakingConfig())
    scorer.setup()
    some = [dialogue for dialogue in dialogues() if dialogue.system in ("human", "early")]
    ledger = Ledger(Store(str(tmp_path)))
    ledger.commit("s", 0, scorer.score(some))
    people = read_run(str(tmp_path))
    human = [dialogue for dialogue in some if dialogue.system == "human"]
    assert sorted(one.source for one in people) == sorted(dialogue.conversation_id for dialogue in human)
    expected = {round(dialogue.audio.shape[1] / 16_000, 3) for dialogue in human}
    assert {round(one.timeline.seconds, 3) for one in people} == expected
    assert all(one.timeline.sides.asking and one.timeline.sides.answering for one in people)
    assert len(read_run(str(tmp_path), "early")) == 12
    with pytest.raises(DataLayoutError, match="too few to fit"):
        run_fit(load([f"data.uri={tmp_path}", "fit.name=x", f"fit.out={tmp_path / 'out'}"]))
    with pytest.raises(DataLayoutError, match="'nobody'"):
        read_run(str(tmp_path), "nobody")
