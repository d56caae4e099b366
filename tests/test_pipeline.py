"""The stages of the graph, chained by hand: no Ray is started here."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ray.exceptions import ActorDiedError, RayTaskError, UserCodeException

from spear_ray import pipeline, stages
from spear_ray.bench import check_complete
from spear_ray.blocks import AUDIO_COLUMNS, block_of, score_column, scores_of
from spear_ray.config import AudioConfig, DataConfig, RayConfig, load
from spear_ray.dialogue import Dialogue, Score, Status
from spear_ray.errors import AudioEmpty, CheckpointMissing, ClusterError, SpearError, StorageError
from spear_ray.ledger import Ledger, Rows
from spear_ray.pipeline import Progress, plan
from spear_ray.pools import Pool, combined, pool_sizes
from spear_ray.scorers import Metric, Resources, Scorer, ScorerConfig
from spear_ray.sources import Item, Shard, Source
from spear_ray.stages import Work, score_safely
from spear_ray.store import Store

SHARD_ROWS = (7, 1, 12, 4)
UNREADABLE = 9
SILENT = 13
"""Dialogues, counted over all shards: one that cannot be read, one that `Loudness` cannot score."""


@dataclass(kw_only=True)
class LoudnessConfig(ScorerConfig):
    gain: float = 1.0


class Loudness(Scorer[LoudnessConfig]):
    """Reads all audio; raises on silence."""

    name = "loudness"
    version = "1"
    config_type = LoudnessConfig
    metrics = (Metric(name="rms", unit="", direction="none", about=""),)

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        return [self._one(dialogue) for dialogue in batch]

    def _one(self, dialogue: Dialogue) -> Score:
        rms = float(np.sqrt(np.mean(np.square(dialogue.audio, dtype=np.float64))))
        if rms == 0:
            raise ZeroDivisionError("nothing is heard")
        return self.ok(dialogue, {"rms": self.config.gain * rms}, {"first": float(dialogue.audio[1, 0])})


class Length(Scorer[ScorerConfig]):
    name = "length"
    version = "3"
    config_type = ScorerConfig
    metrics = (Metric(name="samples", unit="", direction="none", about=""),)

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        return [self.ok(dialogue, {"samples": float(dialogue.audio.shape[1])}) for dialogue in batch]


TOYS: Mapping[str, type[Scorer[Any]]] = {"loudness": Loudness, "length": Length}


def toys() -> list[Scorer[Any]]:
    return [Loudness(LoudnessConfig()), Length(ScorerConfig())]


def dialogue(number: int, samples: int | None = None, **rest: Any) -> Dialogue:
    random = np.random.default_rng(number)
    clip = random.normal(0, 0.1 + number, (2, samples or int(random.integers(100, 3000)))).astype(np.float32)
    return Dialogue(**item(number)._asdict(), **{"clip": clip, **rest})


def item(number: int) -> Item:
    return Item(f"d{number:03d}", f"c{number // 2}", "human", "test", "improvised")


class Noise(Source):
    """Shards of made-up dialogues."""

    def __init__(self, rows: Sequence[int] = SHARD_ROWS) -> None:
        super().__init__(DataConfig(), AudioConfig(), Store("."))
        self.rows = rows

    def shards(self) -> list[Shard]:
        begins = np.cumsum([0, *self.rows[:-1]]).tolist()
        return [
            self.shard(f"noise {begin}", rows, {"begin": begin}, {})
            for begin, rows in zip(begins, self.rows, strict=True)
        ]

    def items(self, shard: Shard) -> list[Item]:
        return [item(shard.payload["begin"] + row) for row in range(shard.rows)]

    def read(self, shard: Shard, wanted: Container[int]) -> Iterator[tuple[int, Dialogue]]:
        for row in range(shard.rows):
            if row in wanted:
                yield row, self._dialogue(shard.payload["begin"] + row)

    def _dialogue(self, number: int) -> Dialogue:
        if number == UNREADABLE:
            return item(number).unreadable(AudioEmpty("no bytes"))
        return dialogue(number, **({"clip": np.zeros((2, 50), np.float32)} if number == SILENT else {}))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Store(str(tmp_path)))


@pytest.fixture(autouse=True)
def known_toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "scorer_type", TOYS.__getitem__)


def commit(ledger: Ledger, scorer: Scorer[Any], shard: Shard, rows: Rows) -> None:
    """Rows as a run would have committed them."""
    dialogues = [one for _, one in Noise().read(shard, range(rows.first, rows.end))]
    ledger.commit(shard.shard_id, rows.first, score_safely(scorer, dialogues))


def finish(ledger: Ledger, *scorers: Scorer[Any]) -> None:
    for scorer in scorers:
        for shard in Noise().shards():
            commit(ledger, scorer, shard, Rows(0, shard.rows))


def missing(work: Sequence[Work]) -> list[dict[str, list[Rows]]]:
    return [{name: list(ranges) for name, ranges in one.missing.items()} for one in work]


# What is left to do.


def test_an_empty_ledger_leaves_everything_to_do(ledger):
    work = plan(Noise().shards(), ledger, toys())
    assert [one.shard for one in work] == Noise().shards()
    assert missing(work) == [{name: [Rows(0, rows)] for name in TOYS} for rows in SHARD_ROWS]
    assert sum(one.rows for one in work) == 2 * sum(SHARD_ROWS)


def test_a_finished_run_leaves_nothing_to_do(ledger):
    finish(ledger, *toys())
    assert plan(Noise().shards(), ledger, toys()) == []


def test_finished_pairs_of_shard_and_scorer_are_left_out(ledger):
    first, second, *others = Noise().shards()
    loudness, length = toys()
    commit(ledger, loudness, first, Rows(0, first.rows))
    for scorer in (loudness, length):
        commit(ledger, scorer, second, Rows(0, second.rows))
    work = plan([first, second, *others], ledger, [loudness, length])
    assert [one.shard for one in work] == [first, *others]
    assert missing(work)[0] == {"length": [Rows(0, 7)]}
    assert set(missing(work)[1]) == {"loudness", "length"}


def test_a_scorer_that_is_added_gets_only_its_own_rows(ledger):
    loudness, length = toys()
    finish(ledger, loudness)
    work = plan(Noise().shards(), ledger, [loudness, length])
    assert missing(work) == [{"length": [Rows(0, rows)]} for rows in SHARD_ROWS]


def test_changed_settings_of_a_scorer_leave_only_its_rows_to_do(ledger):
    loudness, length = toys()
    finish(ledger, loudness, length)
    work = plan(Noise().shards(), ledger, [Loudness(LoudnessConfig(gain=2)), length])
    assert missing(work) == [{"loudness": [Rows(0, rows)]} for rows in SHARD_ROWS]


def test_where_a_scorer_runs_is_no_setting_of_its_scores(ledger):
    finish(ledger, *toys())
    moved = Loudness(LoudnessConfig(resources=Resources(num_gpus=1, concurrency=[1, 2])))
    assert plan(Noise().shards(), ledger, [moved]) == []


def test_partly_committed_shards_leave_only_the_gaps(ledger):
    loudness, length = toys()
    shard = Noise().shards()[2]
    for rows in (Rows(2, 4), Rows(4, 5), Rows(9, 12)):
        commit(ledger, loudness, shard, rows)
    commit(ledger, length, shard, Rows(0, 12))
    (work,) = plan([shard], ledger, [loudness, length])
    assert missing([work]) == [{"loudness": [Rows(0, 2), Rows(5, 9)]}]
    assert work.rows == 6


def test_work_survives_its_way_to_the_reader():
    (shard,) = Noise([5]).shards()
    work = Work(shard, {"loudness": [Rows(0, 2), Rows(4, 5)], "length": [Rows(1, 3)]})
    (row,) = pa.Table.from_pylist([stages.packed(work)]).to_pylist()
    assert stages.unpacked(row) == work


# How many actors.


def cpus(pools: Mapping[str, Pool]) -> float:
    return sum(pool.most * pool.num_cpus for pool in pools.values())


def test_one_scorer_takes_every_core():
    assert pool_sizes({"a": Resources()}, 8, 100) == {"a": Pool(8, 8, 1.0)}


@pytest.mark.parametrize("scorers", [1, 2, 3, 7])
@pytest.mark.parametrize("cluster_cpus", [1, 2, 3, 8, 64, 0.5, 2.7])
def test_sharing_scorers_use_all_cores_and_never_more(scorers, cluster_cpus):
    pools = pool_sizes({f"s{number}": Resources() for number in range(scorers)}, cluster_cpus, 1000)
    actors = max(1, int(cluster_cpus))
    assert {(pool.least, pool.most) for pool in pools.values()} == {(actors, actors)}
    assert cpus(pools) <= cluster_cpus
    # Each actor's share is rounded down to Ray's resolution; one that has a core of its own takes no more.
    assert cpus(pools) > min(cluster_cpus, scorers * actors) - 0.001 * scorers * actors - 1e-9


def test_no_more_actors_than_units_of_work():
    assert pool_sizes({"a": Resources(), "b": Resources()}, 64, 3) == {"a": Pool(3, 3, 1.0), "b": Pool(3, 3, 1.0)}


def test_an_actor_that_needs_less_than_a_core_holds_less():
    assert pool_sizes({"a": Resources(num_cpus=0.25)}, 4, 100)["a"] == Pool(4, 4, 0.25)


def test_fixed_actors_stay_as_configured_and_the_others_share_the_rest():
    fixed = Resources(concurrency=[2, 3], num_cpus=1.5, num_gpus=1)
    pools = pool_sizes({"judge": fixed, "a": Resources(), "b": Resources()}, 8, 100)
    assert pools["judge"] == Pool(2, 3, 1.5)
    assert pools["a"] == pools["b"] == Pool(5, 5, 0.5)
    assert sum(pool.least * pool.num_cpus for pool in pools.values()) == 8


def test_fixed_actors_may_fill_the_cluster_where_nobody_shares():
    assert pool_sizes({"a": Resources(concurrency=[4, 4])}, 4, 1) == {"a": Pool(4, 4, 1.0)}


@pytest.mark.parametrize(("num_gpus", "actors"), [(1.0, 2), (0.5, 4), (2.0, 1), (1.5, 1)])
def test_scorer_on_the_gpu_gets_as_many_actors_as_the_gpus_hold(num_gpus, actors):
    resources = {"judge": Resources(num_gpus=num_gpus), "a": Resources()}
    pools = pool_sizes(resources, 8, 100, cluster_gpus=2)
    assert pools["judge"] == Pool(actors, actors, 1.0)
    assert pools["a"] == Pool(8 - actors, 8 - actors, 1.0)


def test_scorers_on_the_gpu_share_what_the_cluster_has():
    thirds = {name: Resources(num_gpus=0.3) for name in ("a", "b", "c")}
    assert {pool.least for pool in pool_sizes(thirds, 64, 100, cluster_gpus=4).values()} == {4}
    assert {pool.least for pool in pool_sizes(thirds, 64, 100, cluster_gpus=1).values()} == {1}
    wholes = {name: Resources(num_gpus=1) for name in ("a", "b", "c")}
    assert {pool.least for pool in pool_sizes(wholes, 64, 100, cluster_gpus=7).values()} == {2}
    with pytest.raises(ClusterError, match="a, b, c together need 3 GPUs, the cluster has 2"):
        pool_sizes(wholes, 64, 100, cluster_gpus=2)


def test_gpus_of_a_fixed_pool_are_not_shared():
    fixed = {"judge": Resources(concurrency=[2, 4], num_gpus=1), "a": Resources(num_gpus=0.5)}
    pools = pool_sizes(fixed, 64, 100, cluster_gpus=4)
    assert (pools["judge"], pools["a"].least) == (Pool(2, 4, 1.0), 4)


def test_a_core_is_kept_for_reading_where_no_scorer_is_on_the_cpu():
    judge = {"judge": Resources(num_gpus=1)}
    assert pool_sizes(judge, 3, 100, cluster_gpus=2) == {"judge": Pool(2, 2, 1.0)}
    with pytest.raises(ClusterError, match=r"has 2 CPUs.* needs 3; lower"):
        pool_sizes(judge, 2, 100, cluster_gpus=2)


def test_scorer_without_its_gpu_is_an_error_that_says_what_to_change():
    with pytest.raises(ClusterError, match="vad needs 1 GPUs, the cluster has 0; ") as raised:
        pool_sizes({"vad": Resources(num_gpus=1), "a": Resources()}, 8, 100)
    advice = str(raised.value).split()[-1]
    assert load([advice]).scorer.vad.resources.concurrency == [1, 4]


def test_cluster_that_is_too_small_is_an_error_that_says_what_to_change():
    with pytest.raises(ClusterError, match=r"has 4 CPUs.* needs 6; lower scorer\.<name>\.resources\.concurrency"):
        pool_sizes({"a": Resources(concurrency=[6, 8])}, 4, 100)


def test_fixed_actors_that_leave_nothing_for_the_others_are_an_error_that_names_them():
    with pytest.raises(ClusterError, match=r"needs 4 and b, c would have none; lower scorer\.<name>"):
        pool_sizes({"a": Resources(concurrency=[4, 4]), "b": Resources(), "c": Resources()}, 4, 100)


# What a scorer may do wrong.


def loud(change: Callable[[Loudness, list[Score]], list[Score]]) -> Loudness:
    """The toy, with what it measured changed."""

    class Changed(Loudness):
        def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
            return change(self, super().measure(batch))

    return Changed(LoudnessConfig())


BATCH = [dialogue(number) for number in range(5)]
GOOD = Loudness(LoudnessConfig()).score(BATCH)


def test_a_batch_without_trouble_is_scored_as_the_scorer_does():
    assert score_safely(Loudness(LoudnessConfig()), BATCH) == GOOD
    assert score_safely(Loudness(LoudnessConfig()), []) == []


def test_dialogue_that_makes_a_scorer_raise_is_the_only_one_lost():
    batch = [*BATCH[:2], dialogue(2, clip=np.zeros((2, 50), np.float32)), *BATCH[3:]]
    scores = score_safely(Loudness(LoudnessConfig()), batch)
    assert [*scores[:2], *scores[3:]] == [*GOOD[:2], *GOOD[3:]]
    assert (scores[2].status, scores[2].code) == (Status.ERROR, "scorer_failed")
    assert scores[2].message == "ZeroDivisionError: nothing is heard"
    assert (scores[2].dialogue_id, scores[2].metrics, scores[2].fingerprint) == ("d002", {}, GOOD[2].fingerprint)


@pytest.mark.parametrize("error", [AudioEmpty("no bytes"), CheckpointMissing("fetch it")])
def test_error_of_ours_keeps_its_code(error):
    def refuse(scorer: Loudness, scores: list[Score]) -> list[Score]:
        raise error

    assert {(row.status, row.code) for row in score_safely(loud(refuse), BATCH)} == {(Status.ERROR, error.code)}


def test_too_few_rows_are_error_rows():
    scores = score_safely(loud(lambda _, rows: rows[1:]), BATCH)
    assert [row.dialogue_id for row in scores] == [row.dialogue_id for row in GOOD]
    assert {(row.status, row.code) for row in scores} == {(Status.ERROR, "scorer_failed")}


def test_rows_in_another_order_are_taken_one_by_one():
    assert score_safely(loud(lambda _, rows: rows[::-1]), BATCH) == GOOD


@pytest.mark.parametrize("change", [lambda rows: [*rows, *rows], lambda rows: []], ids=["twice", "none"])
def test_rows_that_do_not_match_the_dialogues_are_error_rows_that_say_so(change):
    class Changed(Loudness):
        def score(self, batch: Sequence[Dialogue]) -> list[Score]:
            return change(super().score(batch))

    scores = score_safely(Changed(LoudnessConfig()), BATCH)
    assert [row.dialogue_id for row in scores] == [row.dialogue_id for row in GOOD]
    assert {row.code for row in scores} == {"scorer_failed"}
    assert all("returned other rows than it was given" in str(row.message) for row in scores)


def spoilt(metrics: Mapping[str, Any], details: Mapping[str, Any] | None = None) -> Loudness:
    """A scorer that says this of `d001`."""
    return loud(
        lambda scorer, rows: [
            row if row.dialogue_id != "d001" else scorer.ok(BATCH[1], metrics, details) for row in rows
        ]
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), np.float64("nan")])
def test_value_that_is_not_finite_is_an_error_row_that_names_the_metric(value):
    scores = score_safely(spoilt({"rms": 1.0, "odd": value}), BATCH)
    assert (scores[1].status, scores[1].code, scores[1].metrics) == (Status.ERROR, "scorer_failed", {})
    assert "not finite: odd" in str(scores[1].message)
    assert [scores[0], *scores[2:]] == [GOOD[0], *GOOD[2:]]


@pytest.mark.parametrize(
    ("metrics", "details"),
    [
        ({"rms": np.float32(1)}, None),
        ({"rms": None}, None),
        ({"rms": 1.0}, {"curve": np.zeros(3)}),
        ({"rms": 1.0}, {"p": [float("nan")]}),
    ],
)
def test_what_cannot_be_stored_is_an_error_row_and_not_the_end_of_the_run(metrics, details):
    stage = stages.ScorerStage([("loudness", LoudnessConfig())], last=False)
    stage.scorers = [spoilt(metrics, details)]
    todo = dict.fromkeys(range(5), ("loudness",))
    scores = scores_of(stage(block_of("s", list(enumerate(BATCH)), todo)), "loudness")
    assert [score.status for score in scores if score] == [Status.OK, Status.ERROR, *[Status.OK] * 3]


# The stages, one after the other.

Regroup = Callable[[list[pa.Table]], list[pa.Table]]


def read(work: Sequence[Work], block_bytes: int) -> list[pa.Table]:
    reader = pickle.loads(pickle.dumps(stages.Reader(Noise(), block_bytes)))
    return [block for one in work for block in reader(pa.Table.from_pylist([stages.packed(one)]))]


def chained(ledger: Ledger, block_bytes: int, regroup: Regroup) -> Progress:
    """Score what is left to do as the graph would; blocks may be regrouped between any two stages."""
    work = plan(Noise().shards(), ledger, toys())
    blocks = regroup(read(work, block_bytes))
    for scorer in toys():
        stage = stages.ScorerStage([(scorer.name, scorer.config)], last=scorer.name == "length")
        blocks = regroup([stage(block) for block in blocks])
    progress = Progress(total=sum(one.rows for one in work))
    committer = stages.Committer(ledger, list(TOYS))
    for block in blocks:
        for line in committer(block).column("summary").to_pylist():
            pipeline._note(progress, json.loads(line), 0.0)
    return progress


def as_they_are(blocks: list[pa.Table]) -> list[pa.Table]:
    return blocks


def one_by_one(blocks: list[pa.Table]) -> list[pa.Table]:
    return [block.slice(row, 1) for block in blocks for row in range(block.num_rows)]


def all_in_one(blocks: list[pa.Table]) -> list[pa.Table]:
    return [pa.concat_tables(blocks)] if blocks else []


def at_random(seed: int) -> Regroup:
    random = np.random.default_rng(seed)

    def regroup(blocks: list[pa.Table]) -> list[pa.Table]:
        """Shuffled, joined, and cut anywhere: a block may then hold rows of several shards with gaps between them."""
        if not blocks:
            return []
        table = pa.concat_tables([blocks[place] for place in random.permutation(len(blocks))])
        cuts = np.unique(random.integers(0, table.num_rows, size=int(random.integers(0, 9))))
        edges = [0, *(cut for cut in cuts.tolist() if cut), table.num_rows]
        return [table.slice(begin, end - begin) for begin, end in pairwise(edges)]

    return regroup


def rows_of(ledger: Ledger, scorer: Scorer[Any]) -> pa.Table:
    return ledger.read(scorer.name, scorer.fingerprint, details=True).sort_by("dialogue_id")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, pa.Table]:
    """Each row as the scorer by itself gives it."""
    ledger = Ledger(Store(str(tmp_path_factory.mktemp("expected"))))
    finish(ledger, *toys())
    return {scorer.name: rows_of(ledger, scorer) for scorer in toys()}


def assert_each_row_once(ledger: Ledger, expected: Mapping[str, pa.Table]) -> None:
    check_complete(ledger, Noise().shards(), toys())
    for scorer in toys():
        assert rows_of(ledger, scorer).equals(expected[scorer.name])


def test_expected_rows_hold_an_unreadable_and_a_failed_one(expected):
    codes = {name: table["code"].to_pylist() for name, table in expected.items()}
    assert (codes["loudness"][UNREADABLE], codes["loudness"][SILENT]) == ("audio_empty", "scorer_failed")
    assert [code for code in codes["length"] if code] == ["audio_empty"]
    assert len({row[0][1] for row in expected["loudness"]["metrics"].to_pylist() if row}) == sum(SHARD_ROWS) - 2


@pytest.mark.parametrize("block_bytes", [1, 20_000, 1 << 30])
@pytest.mark.parametrize("regroup", [as_they_are, one_by_one, all_in_one])
def test_rows_are_the_same_however_the_audio_is_cut_into_blocks(ledger, expected, block_bytes, regroup):
    progress = chained(ledger, block_bytes, regroup)
    assert_each_row_once(ledger, expected)
    assert progress.done == progress.total == 2 * sum(SHARD_ROWS)


@pytest.mark.parametrize("seed", range(40))
def test_a_run_that_was_partly_done_ends_with_each_row_once(ledger, expected, seed):
    random = np.random.default_rng(seed)
    before = 0
    for scorer in toys():
        for shard in Noise().shards():
            edges = np.unique(random.integers(0, shard.rows + 1, size=4)).tolist()
            for first, end in zip(edges[::2], edges[1::2], strict=False):
                commit(ledger, scorer, shard, Rows(first, end))
                before += end - first
    progress = chained(ledger, int(random.choice([1, 5_000, 20_000, 1 << 30])), at_random(seed))
    assert_each_row_once(ledger, expected)
    assert progress.done == progress.total == 2 * sum(SHARD_ROWS) - before


def test_rows_that_are_done_are_neither_read_nor_committed_again(ledger):
    loudness, length = toys()
    finish(ledger, loudness)
    first, *_, last = Noise().shards()
    commit(ledger, length, last, Rows(1, 3))
    before = {name: stat.tag for name, stat in ledger.store.files().items()}
    blocks = read(plan([first, last], ledger, [loudness, length]), 1 << 30)
    assert [block.column("row").to_pylist() for block in blocks] == [list(range(7)), [0, 3]]
    chained(ledger, 1 << 30, as_they_are)
    after = {name: stat.tag for name, stat in ledger.store.files().items()}
    assert before.items() < after.items()


def test_progress_counts_rows_by_what_became_of_them(ledger):
    assert chained(ledger, 20_000, as_they_are).status == {
        "loudness.ok": 22,
        "loudness.error.audio_empty": 1,
        "loudness.error.scorer_failed": 1,
        "length.ok": 23,
        "length.error.audio_empty": 1,
    }


def test_hours_of_audio_do_not_grow_with_the_number_of_scorers(ledger):
    source = Noise()
    seconds = sum(one.seconds for shard in source.shards() for _, one in source.read(shard, range(shard.rows)))
    assert chained(ledger, 20_000, as_they_are).audio_s == pytest.approx(seconds)


@pytest.mark.parametrize("block_bytes", [1, 20_000, 60_000])
def test_a_block_is_closed_by_the_dialogue_that_fills_it(ledger, block_bytes):
    for block in read(plan(Noise().shards(), ledger, toys()), block_bytes):
        *others, _ = [len(clip or b"") for clip in block.column("clip").to_pylist()]
        assert sum(others) < block_bytes


@pytest.mark.parametrize("block_bytes", [20_000, 60_000, 1 << 30])
def test_blocks_are_not_cut_without_need(ledger, block_bytes):
    for work in plan(Noise().shards(), ledger, toys()):
        *full, _ = read([work], block_bytes)
        for block in full:
            assert sum(len(clip or b"") for clip in block.column("clip").to_pylist()) >= block_bytes


def test_an_actor_that_reads_its_own_work_gives_the_same_blocks(ledger):
    work = plan(Noise().shards(), ledger, toys())
    stage = {"scorers": [("loudness", LoudnessConfig())], "last": True}
    packed = pa.Table.from_pylist([stages.packed(one) for one in work])
    itself = stages.ReadingStage(reader=stages.Reader(Noise(), 20_000), **stage)(packed)
    apart = map(stages.ScorerStage(**stage), read(work, 20_000))
    spent = score_column("loudness", "spent")
    assert [block.drop_columns(spent) for block in itself] == [block.drop_columns(spent) for block in apart]


def test_a_scorer_whose_name_is_part_of_another_name_does_not_take_its_rows():
    block = block_of("s", [(0, BATCH[0])], {0: ("loudness_of_answers", "subloudness")})
    scored = stages.ScorerStage([("loudness", LoudnessConfig())], last=True)(block)
    assert scores_of(scored, "loudness") == [None]


@pytest.mark.parametrize("last", [False, True])
def test_the_last_scorer_drops_the_audio(last):
    block = block_of("s", [(0, BATCH[0])], {0: ("loudness",)})
    scored = stages.ScorerStage([("loudness", LoudnessConfig())], last)(block)
    assert set(scored.column_names) >= {"shard", "row", "seconds", "scores:loudness"}
    assert set(AUDIO_COLUMNS).isdisjoint(scored.column_names) == last


def test_scorers_on_a_gpu_come_last():
    config = load([])
    config.scorer = type("Toys", (), {})()
    for name, gpus in (("judge", 1.0), ("a", 0.0), ("b", 0.0)):
        setattr(config.scorer, name, ScorerConfig(resources=Resources(num_gpus=gpus)))
    assert pipeline.in_order(config, ["judge", "b", "a"]) == ["b", "a", "judge"]


def test_scorers_in_one_process_give_the_rows_of_two(ledger):
    blocks = read(plan(Noise().shards(), ledger, toys()), 20_000)
    both = [(scorer.name, scorer.config) for scorer in toys()]
    together = map(stages.ScorerStage(both, last=True), blocks)
    one, other = (stages.ScorerStage([pair], last=pair == both[-1]) for pair in both)
    spent = [score_column(name, "spent") for name, _ in both]
    assert [block.drop_columns(spent) for block in together] == [
        other(one(block)).drop_columns(spent) for block in blocks
    ]


class Sharing(Length):
    @property
    def shares(self) -> str:
        return "the engine"


def test_scorers_that_share_something_stand_in_one_stage(monkeypatch):
    kinds = {"a": Sharing, "b": Length, "c": Sharing}
    monkeypatch.setattr(pipeline, "scorer_type", kinds.__getitem__)
    config = load([])
    config.scorer = type("Toys", (), {name: ScorerConfig() for name in kinds})()
    assert pipeline.sharing(config, ["a", "b", "c"]) == [("a", "c"), ("b",)]
    assert pipeline.sharing(config, ["b", "c"]) == [("b",), ("c",)]


def test_what_is_shared_is_counted_once():
    needs = [Resources(num_gpus=0.5, memory_bytes=7), Resources(num_cpus=2, num_gpus=1.0, concurrency=[1, 3])]
    assert combined(needs) == Resources(num_cpus=2, num_gpus=1.0, memory_bytes=7, concurrency=[1, 3])


@pytest.mark.parametrize("error", [ClusterError("the engine does not start"), StorageError("gone")])
def test_failing_infrastructure_is_no_row(error):
    def refuse(scorer: Loudness, scores: list[Score]) -> list[Score]:
        raise error

    with pytest.raises(type(error)):
        score_safely(loud(refuse), BATCH[:2])


# What Ray says when a stage fails.


HINT = "\nFailed to apply UDF transform after 1/1 attempts.\nTo change retry attempts, configure `DataContext`."


def worker_traceback(error: str) -> str:
    """What Ray Data makes of an error in a stage."""
    return (
        "\x1b[36mray::MapWorker(MapBatches(_Committer)).submit()\x1b[39m (pid=1)\nOSError: disk\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        f'  File "stage.py", line 1, in __call__\n{error}\n\n'
        "The above exception was the direct cause of the following exception:\n\n"
        f"ray.exceptions.UserCodeException: UDF failed to process a data block.{HINT}"
    )


class Quoting(RayTaskError):
    """A Ray error of a given text; Ray's own needs a worker."""

    def __init__(self, text: str, cause: BaseException | None = None) -> None:
        self.text = text
        self.cause = cause

    def __str__(self) -> str:
        return self.text


def found(error: BaseException) -> tuple[type[SpearError], str]:
    cause = pipeline._cause(error)
    return type(cause), str(cause)


def test_error_of_ours_is_found_in_the_text_of_a_worker():
    text = worker_traceback("spear_ray.errors.StorageError: cannot write /x: no space left")
    error = Quoting(text, UserCodeException("UDF failed to process a data block." + HINT))
    assert found(error) == (StorageError, "cannot write /x: no space left")


def test_error_of_ours_is_found_where_an_actor_cannot_be_set_up():
    class Died(ActorDiedError):
        def __str__(self) -> str:
            return "The actor died\n  File ...\nspear_ray.errors.CheckpointMissing: fetch it with: hf download x"

    assert found(Died()) == (CheckpointMissing, "fetch it with: hf download x")


def test_error_of_ours_is_found_inside_the_cause_of_an_error_of_ray():
    ours = StorageError("cannot write /x")
    outer = UserCodeException("UDF failed")
    outer.__cause__ = ours
    assert pipeline._cause(Quoting("task failed", ours)) is ours
    assert pipeline._cause(Quoting("task failed", outer)) is ours


def test_any_other_error_is_one_line_that_names_it():
    assert found(Quoting(worker_traceback("KeyError: 'rms'"))) == (ClusterError, "KeyError: 'rms'")
    assert found(RuntimeError("first\n  the node ran out of memory \n")) == (ClusterError, "the node ran out of memory")
    assert found(RuntimeError()) == (ClusterError, "RuntimeError")


def test_cluster_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch):
    import ray

    def refuse(address: str, **_: Any) -> None:
        raise ConnectionError(f"nobody at {address}")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_ADDRESS", "ray://from-the-environment")
    with pytest.raises(ClusterError, match="cannot be reached at 'ray://from-the-environment'"):
        pipeline.start_ray(RayConfig())
    with pytest.raises(ClusterError, match="cannot be reached at 'ray://configured': nobody"):
        pipeline.start_ray(RayConfig(address="ray://configured"))
