"""The deployment's class itself, without a cluster."""

import asyncio
from types import SimpleNamespace

import pytest
from ray import serve

from deployments.app import build
from deployments.replicas import ScorerReplica
from spear_ray.config import load
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.scorers.vad import VadScorer
from tests.clips import dialogue_of, speech

RUNNER = asyncio.Runner()
"""One event loop for all: Ray Serve keeps a batch's queue with the class, for the one loop of a replica."""


@pytest.fixture(autouse=True)
def outside_a_cluster(monkeypatch):
    """Ray Serve's batching asks where it runs, to warn; here it is told a replica with room enough."""
    context = SimpleNamespace(_deployment_config=SimpleNamespace(max_ongoing_requests=100))
    monkeypatch.setattr(serve, "get_replica_context", lambda: context)


DIALOGUES = [dialogue_of(answer=speech(2 + number, 1), name=f"d{number}") for number in range(5)]


def expected(*words):
    scorer = VadScorer(load(list(words)).scorer.vad)
    scorer.setup()
    return scorer.score(DIALOGUES)


def gathered(replica, dialogues=DIALOGUES):
    async def ask():
        return await asyncio.gather(*(replica.score("vad", one) for one in dialogues))

    return ask()


def test_requests_are_scored_together_and_keep_their_order():
    async def run():
        replica = ScorerReplica(["vad"], ["scorer.vad.serving.batch_size=4"])
        sizes = []
        together = replica._scored
        replica._scored = lambda asked: sizes.append(len(asked)) or together(asked)
        return await gathered(replica), sizes

    rows, sizes = RUNNER.run(run())
    assert rows == expected()
    assert sum(sizes) == 5
    assert max(sizes) <= 4
    assert len(sizes) < 5


def test_a_dialogue_that_cannot_be_scored_fails_alone(monkeypatch):
    real = VadScorer.measure

    def fragile(self, batch):
        if any(one.dialogue_id == "d2" for one in batch):
            raise ZeroDivisionError
        return real(self, batch)

    monkeypatch.setattr(VadScorer, "measure", fragile)
    rows = RUNNER.run(gathered(ScorerReplica(["vad"], [])))
    assert [row.code for row in rows] == [None, None, "scorer_failed", None, None]


def test_thresholds_change_without_a_new_process():
    async def run():
        replica = ScorerReplica(["vad"], [])
        before = await gathered(replica)
        await replica.reconfigure({"words": ["scorer.vad.speech.threshold=0.95"]})
        return before, await gathered(replica), await replica.describe()

    before, after, told = RUNNER.run(run())
    assert before == expected()
    assert after == expected("scorer.vad.speech.threshold=0.95")
    assert told["vad"][1] == after[0].fingerprint != before[0].fingerprint


def test_nothing_said_changes_nothing():
    async def run():
        replica = ScorerReplica(["vad"], [])
        scorer = replica.scorers["vad"]
        await replica.reconfigure({"words": []})
        return replica.scorers["vad"] is scorer

    assert RUNNER.run(run())


def test_scorers_that_cannot_run_here_are_not_served_and_those_that_are_named_stop_it():
    assert build({"words": ["scorers=[vad]"]})
    with pytest.raises(PrerequisiteError):
        build({"words": "scorers=[dialect]"})
    with pytest.raises(ConfigError):
        build({"words": ["scorers=[nothing]"]})


@pytest.mark.parametrize(
    "word",
    [
        "serve.max_bytes=0",
        "serve.port=70000",
        "scorer.vad.serving.batch_size=0",
        "scorer.vad.serving.max_ongoing=4",
        "scorer.vad.serving.max_replicas=0",
        "scorer.vad.serving.batch_wait_s=-1",
    ],
)
def test_wrong_settings_are_named(word):
    with pytest.raises(ConfigError, match=word.split("=")[0].rpartition(".")[0]):
        load([word])


def test_how_it_is_served_changes_no_fingerprint():
    plain, other = (load(words).scorer.vad for words in ([], ["scorer.vad.serving.batch_size=3"]))
    assert VadScorer(plain).fingerprint == VadScorer(other).fingerprint
