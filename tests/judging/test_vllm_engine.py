"""The judge on vLLM's real engine, in process and as a server, with a small checkpoint in the real file format."""

import threading
from dataclasses import replace

import numpy as np
import psutil
import pytest

from spear_ray.checkpoints.convert import convert
from spear_ray.config import load
from spear_ray.dialogue import Status
from spear_ray.errors import ClusterError, PrerequisiteError
from spear_ray.judging import engines
from spear_ray.judging.asking import Failed, Prompt, Reply, ask
from spear_ray.judging.choice import SCORES
from spear_ray.scorers import scorer_type
from tests import tiny_omni, tiny_omni3, vllm_server
from tests.clips import dialogue_of, speech

pytest.importorskip("vllm", reason="vLLM is not installed: python tests/install_vllm.py")
pytestmark = pytest.mark.vllm

AGREE = 1e-3
"""Of choice probabilities between engines; and of rows in other company, which vLLM does not promise to be the same."""

SETTINGS = ["judge.dtype=float32", "judge.max_model_len=4096", "judge.max_num_seqs=16"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tiny_omni.make(tmp_path_factory.mktemp("omni"))


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    return tiny_omni.make_thinker(tmp_path_factory.mktemp("thinker"))


@pytest.fixture(scope="module")
def config(whole):
    return load([f"judge.checkpoint={whole}", *SETTINGS])


@pytest.fixture(scope="module")
def scorers(config):
    made = {name: scorer_type(name)(getattr(config.scorer, name)) for name in ("wavreward", "stance")}
    for one in made.values():
        assert one.missing() is None
        one.setup()
    yield made
    made["wavreward"]._engine.close()
    engines._held.clear()


@pytest.fixture(scope="module")
def engine(scorers):
    return scorers["wavreward"]._engine


@pytest.fixture(scope="module")
def remote(thinker, tmp_path_factory):
    """Scorers that ask a server which holds the converted thinker."""
    folder = tmp_path_factory.mktemp("served")
    convert(thinker, folder / "converted")
    with vllm_server.serving(folder / "converted", folder / "log") as url:
        words = ["judge.engine=endpoint", f"judge.base_url={url}", "judge.model=judge", "judge.concurrency=8"]
        config = load(words)
        made = {name: scorer_type(name)(getattr(config.scorer, name)) for name in ("wavreward", "stance")}
        for one in made.values():
            one.setup()
        yield made


DIALOGUES = [
    dialogue_of(answer=speech(2.0 + 0.7 * n, voice=n % 2), question=speech(2.0 + n), name=f"d{n}") for n in range(5)
]


def prompts_of(scorers):
    """What both scorers ask of the first dialogues."""
    found = [(scorers["wavreward"]._prompt(one), SCORES) for one in DIALOGUES]
    pairs = scorers["stance"]._prompts(DIALOGUES[0])
    return found + [(prompt, ("P", "N")) for pair in pairs.values() for prompt in pair]


def probabilities(reply):
    assert isinstance(reply, Reply), reply
    return np.exp(list(reply.log_probabilities.values()))


def share(values):
    return values / values.sum()


def test_engine_server_and_transformers_agree(scorers, engine, remote, whole):
    forward = tiny_omni.Forward(whole)
    served = remote["wavreward"]._engine
    seen = []
    for prompt, choices in prompts_of(scorers):
        here = probabilities(engine.choose([prompt], choices)[0])
        there = probabilities(served.choose([prompt], choices)[0])
        expected = np.exp(list(forward.log_probabilities(prompt, choices).values()))
        for found in (here, there):
            np.testing.assert_allclose(share(found), share(expected), atol=AGREE)
            np.testing.assert_allclose(found, expected, rtol=AGREE)
        seen.append(share(expected)[0])
    assert np.ptp(seen[:5]) > 20 * AGREE, "the clips are heard"
    assert max(sum(probabilities(engine.choose([one], choices)[0])) for one, choices in prompts_of(scorers)) < 0.5


def test_rows_of_engine_and_server_agree(scorers, remote):
    for name, made in scorers.items():
        here, there = made.score(DIALOGUES[:3]), remote[name].score(DIALOGUES[:3])
        for ours, theirs in zip(here, there, strict=True):
            assert (ours.status, theirs.status) == (Status.OK, Status.OK)
            assert dict(ours.metrics) == pytest.approx(dict(theirs.metrics), abs=AGREE)


@pytest.mark.parametrize("name", ["wavreward", "stance"])
def test_order_and_company_do_not_change_a_row(scorers, name):
    made = scorers[name]
    together = {row.dialogue_id: dict(row.metrics) for row in made.score(DIALOGUES)}
    backwards = {row.dialogue_id: dict(row.metrics) for row in made.score(DIALOGUES[::-1])}
    assert list(together) == list(backwards)[::-1]
    for one in DIALOGUES:
        assert together[one.dialogue_id] == pytest.approx(backwards[one.dialogue_id], abs=AGREE)
        (alone,) = made.score([one])
        assert together[one.dialogue_id] == pytest.approx(dict(alone.metrics), abs=AGREE)


def test_questions_on_one_clip_share_the_work_on_it(scorers, engine):
    from vllm import SamplingParams

    asked = [prompt for pair in scorers["stance"]._prompts(dialogue_of(answer=speech(7))).values() for prompt in pair]
    rendered = [engine._rendered(one) for one in asked]
    outputs = engine._llm.generate(rendered, SamplingParams(temperature=0, max_tokens=1), use_tqdm=False)
    again = engine._llm.generate(rendered[-1], SamplingParams(temperature=0, max_tokens=1), use_tqdm=False)
    audio_tokens = 25 * asked[0].clips[0].size / 16_000
    assert outputs[0].num_cached_tokens < 0.5 * audio_tokens
    assert again[0].num_cached_tokens > audio_tokens
    assert sum(one.num_cached_tokens > audio_tokens for one in outputs) > len(outputs) / 2


def test_both_scorers_hold_one_engine(scorers):
    assert scorers["wavreward"]._engine is scorers["stance"]._engine
    assert len(engines._held) == 1


def test_no_vision_tower_and_no_remote_code_is_asked_for(engine):
    options = engine._options()
    assert options["limit_mm_per_prompt"] == {"audio": 2, "image": 0, "video": 0}
    assert "trust_remote_code" not in options


def test_prompt_that_is_too_long_fails_alone(engine):
    good = Prompt((speech(2), "Rate it."), opening="<score>")
    long = replace(good, parts=(speech(2), "a" * 5000))
    first, second, third = engine.choose([good, long, good], SCORES)
    assert isinstance(second, Failed)
    assert second.problem.code == "judge_refused"
    np.testing.assert_allclose(probabilities(first), probabilities(third), rtol=AGREE)


def test_choice_of_several_tokens_is_refused(engine):
    with pytest.raises(PrerequisiteError, match="2 tokens"):
        engine.choose([Prompt(("x",))], ["13"])


def test_thoughts_that_do_not_end_are_an_error_row(scorers):
    (found,) = ask(scorers["wavreward"]._engine, [Prompt((speech(2), "Rate."), opening="<score>")], SCORES, 16)
    assert isinstance(found, Failed)
    assert found.problem.code == "judge_reasoning_cut"
    assert found.said


def test_nothing_asked_is_nothing_answered(engine):
    assert engine.choose([], SCORES) == []


def test_thinker_alone_is_refused_with_what_to_do(thinker):
    scorer = scorer_type("wavreward")(load([f"judge.checkpoint={thinker}", *SETTINGS]).scorer.wavreward)
    with pytest.raises(PrerequisiteError, match="spear-ray checkpoints convert"):
        scorer.setup()


def test_folder_that_is_no_judge_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "wav2vec2"}')
    scorer = scorer_type("wavreward")(load([f"judge.checkpoint={tmp_path}", *SETTINGS]).scorer.wavreward)
    with pytest.raises(PrerequisiteError, match=r"processor|chat template"):
        scorer.setup()


def test_engine_that_dies_is_started_again_and_loses_nothing(engine):
    prompts = [Prompt((speech(6, n % 2) * (1 - n / 40), "Rate it."), opening="<score>") for n in range(32)]
    deaths = engine.deaths
    _kill_soon(0.2)
    found = [probabilities(one) for one in engine.choose(prompts, SCORES)]
    assert engine.deaths == deaths + 1, "the engine was killed while it worked"
    expected = [probabilities(engine.choose([one], SCORES)[0]) for one in prompts]
    np.testing.assert_allclose(found, expected, rtol=AGREE)


def test_prompt_that_kills_the_engine_is_the_only_one_that_fails(engine, monkeypatch):
    """Which prompt kills is a stand-in's doing; that takes many starts, of which each costs a quarter of a minute."""
    from vllm.v1.engine.exceptions import EngineDeadError

    real, started = engine._llm, []
    killer = Prompt((speech(2), "kill"))

    class Fragile:
        def generate(self, rendered, wanted, use_tqdm):
            if any("kill" in one["prompt"] for one in rendered):
                raise EngineDeadError
            return real.generate(rendered, wanted, use_tqdm=use_tqdm)

    monkeypatch.setattr(engine, "_started", lambda: started.append(1) or Fragile())
    monkeypatch.setattr(engine, "_llm", Fragile())
    prompts = [Prompt((speech(2), "Rate it."), opening="<score>")] * 40
    prompts[17] = killer
    found = engine.choose(prompts, SCORES)
    assert [place for place, one in enumerate(found) if isinstance(one, Failed)] == [17]
    assert found[17].problem.code == "judge_engine_died"
    assert len(started) <= engine.settings.restarts + 1


def test_engine_that_dies_too_often_ends_the_run(engine):
    engine._starts_left = 0
    _kill_soon(0.0)
    prompts = [Prompt((speech(2 + n / 8), "Rate it."), opening="<score>") for n in range(200)]
    with pytest.raises(ClusterError, match=r"judge\.restarts"):
        engine.choose(prompts, SCORES)


def _kill_soon(seconds):
    # the server's engine is a child of the server
    core = next(one for one in psutil.Process().children() if "EngineCore" in one.name())
    threading.Timer(seconds, core.kill).start()


def test_qwen3_omni_agrees_with_transformers(tmp_path, engine):
    engine.close()  # one engine at a time
    checkpoint = tiny_omni3.make(tmp_path / "omni3")
    made = scorer_type("wavreward")(load([f"judge.checkpoint={checkpoint}", *SETTINGS]).scorer.wavreward)
    made.setup()
    try:
        prompts = [made._prompt(one) for one in DIALOGUES[:3]]
        found = [probabilities(one) for one in made._engine.choose(prompts, SCORES)]
    finally:
        made._engine.close()
    forward = tiny_omni.Forward(checkpoint, tiny_omni3.THINKER)
    expected = [np.exp(list(forward.log_probabilities(one, SCORES).values())) for one in prompts]
    np.testing.assert_allclose(found, expected, rtol=AGREE)
