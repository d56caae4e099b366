"""vap and dualturn from a checkpoint file to a row: small networks of no meaning, in the published file formats.

Their scores mean nothing; what is tested is that the scorer takes the same steps as the published one.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from bundled import dialogues
from s3_server import BUCKET

from spear_ray.audio import resampled
from spear_ray.config import load
from spear_ray.dialogue import Status
from spear_ray.errors import CheckpointMissing, ConfigError
from spear_ray.networks.dualturn_checkpoint import load_dualturn
from spear_ray.networks.vap_checkpoint import load_vap
from spear_ray.scorers.turn_taking import TurnTakingScorer
from spear_ray.turntaking import labels
from spear_ray.turntaking.predictors.base import Clip
from spear_ray.turntaking.predictors.frames import cleaned_track
from spear_ray.turntaking.scoring import score_dialogue
from spear_ray.turntaking.timeline import Timeline
from spear_ray.turntaking.units import UnitSettings
from tests.networks.dualturn_cases import (
    QWEN,
    config_folder,
    mimi_folder,
    native_layout,
    published,
    published_names,
    random_network,
)
from tests.networks.tiny_vap import tensors, tiny

from .test_bench_run import long_talk


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    torch.save(tensors(tiny()), folder / "vap.pt")
    weights = published_names(random_network(classes=True, layer_weights=True))
    published(weights, folder / "dualturn.pt")
    native_layout(published_names(random_network(layer_weights=True)), folder / "native")
    config_folder(folder / "qwen", QWEN)
    mimi_folder(folder / "mimi")
    return folder


def words(files: Path, predictor: str, *more: str) -> list[str]:
    own = {
        "vap": [f"vap.checkpoint={files / 'vap.pt'}"],
        "dualturn": [
            f"dualturn.checkpoint={files / 'dualturn.pt'}",
            f"dualturn.backbone={files / 'qwen'}",
            f"dualturn.mimi={files / 'mimi'}",
        ],
    }
    return [f"scorer.turn_taking.{word}" for word in (f"predictor={predictor}", *own[predictor], *more)]


def scorer(files: Path, predictor: str, *more: str) -> TurnTakingScorer:
    made = TurnTakingScorer(load(words(files, predictor, *more)).scorer.turn_taking)
    assert made.missing() is None
    made.setup()
    return made


def talk(seconds: float = 20.0) -> np.ndarray:
    return np.ascontiguousarray(long_talk()[:, : round(seconds * 16_000)])


@pytest.mark.parametrize("predictor", ["vap", "dualturn"])
def test_rows_have_the_published_column_and_the_units_behind_them(files, predictor):
    rows = scorer(files, predictor).score(dialogues()[:6])
    assert {row.status for row in rows} == {Status.OK}
    for row in rows:
        assert row.metrics["turn_taking_naturalness"] == row.metrics["nat_score"] == -row.metrics["dialog_nll"]
        assert len(row.details["units"]) == row.metrics["units"]
        assert row.details["predictor"] == predictor


def test_vap_takes_the_published_steps(files):
    made = scorer(files, "vap")
    clip = made.clip(talk())
    logits = load_vap(files / "vap.pt")(torch.from_numpy(clip.audio[None])).logits[0].numpy()
    track = cleaned_track(clip.activity)
    nll = labels.categorical_nll(logits, labels.vap_classes(track, len(logits), 50.0))
    expected = score_dialogue(nll, track, clip.audio.shape[1] / 16_000, 50.0, UnitSettings())
    (found,) = made.predictor.assess([clip])
    assert found.pooled == pytest.approx(expected.pooled, abs=1e-5)
    assert [(b.kind, b.start_s, b.end_s) for b in found.boundaries] == [
        (u.unit.kind, u.unit.start_s, u.unit.end_s) for u in expected.units
    ]


def test_dualturn_takes_the_published_steps(files):
    made = scorer(files, "dualturn", "min_utterance_s=0.2")
    clip = made.clip(talk())
    network = load_dualturn(files / "dualturn.pt", files / "qwen", files / "mimi")
    (logits,) = network.frame_logits([resampled(clip.audio, 16_000, 24_000)])
    assert len(logits) == 250
    track = cleaned_track(clip.activity)
    nll = labels.categorical_nll(logits, labels.vap_classes(track, len(logits), 12.5))
    expected = score_dialogue(nll, track, 20.0, 12.5, UnitSettings(min_utterance_s=0.2))
    (found,) = made.predictor.assess([clip])
    assert found.pooled == pytest.approx(expected.pooled, abs=1e-6)


def test_the_head_the_window_and_the_shortest_utterance_change_scores_and_fingerprints(files):
    base = scorer(files, "dualturn")
    clip = base.clip(talk())
    native = [f"dualturn.checkpoint={files / 'native'}", "dualturn.head=native8"]
    others = [
        scorer(files, "dualturn", *native),
        scorer(files, "dualturn", "dualturn.sliding_window=false"),
        scorer(files, "dualturn", "min_utterance_s=2.0"),
    ]
    everything = [base, *others]
    assert len({one.fingerprint for one in everything}) == len(everything)
    scores = [one.predictor.assess([clip])[0].pooled.dialog_nll for one in everything]
    assert len({round(score, 6) for score in scores}) == len(scores)


def test_batches_change_neither_order_nor_scores(files):
    made = scorer(files, "dualturn")
    clips = [made.clip(talk(seconds)) for seconds in (20, 9, 14.37)]
    alone = [made.predictor.assess([clip])[0] for clip in clips]
    assert made.predictor.assess(clips) == alone
    made.predictor._device = "cuda"
    batched = made.predictor.assess(clips)
    for one, other in zip(batched, alone, strict=True):
        assert one.pooled == pytest.approx(other.pooled, abs=1e-5)


def test_published_chunks_leave_short_dialogues_alone_and_change_long_ones(files):
    whole, chunked = scorer(files, "vap"), scorer(files, "vap", "vap.published_chunks=true")
    assert whole.fingerprint != chunked.fingerprint
    short, long = (whole.clip(np.tile(talk(), 4)[:, : round(seconds * 16_000)]) for seconds in (30, 70))
    first, second = (one.predictor.assess([short])[0].pooled for one in (whole, chunked))
    assert first == pytest.approx(second, abs=1e-5)
    first, second = (one.predictor.assess([long])[0].pooled for one in (whole, chunked))
    assert first.dialog_nll != pytest.approx(second.dialog_nll, abs=1e-4)


def test_windows_change_no_score(files):
    one, other = scorer(files, "vap"), scorer(files, "vap", "vap.window_s=3")
    assert one.fingerprint == other.fingerprint
    clip = one.clip(talk())
    assert one.predictor.assess([clip])[0].pooled == pytest.approx(other.predictor.assess([clip])[0].pooled, abs=1e-5)


def test_a_dialogue_too_short_for_any_label_has_no_score(files):
    made = scorer(files, "vap")
    assert made.predictor.assess([made.clip(talk(4.0))]) == [None]


@pytest.mark.parametrize(
    ("predictor", "key"),
    [
        ("vap", "vap.checkpoint"),
        ("dualturn", "dualturn.checkpoint"),
        ("dualturn", "dualturn.backbone"),
        ("dualturn", "dualturn.mimi"),
    ],
)
@pytest.mark.parametrize("value", ["", "/nowhere/at/all"])
def test_a_missing_file_says_how_to_get_it_and_which_word_names_it(files, predictor, key, value):
    config = load(words(files, predictor)).scorer.turn_taking
    setattr(getattr(config, predictor), key.partition(".")[2], value)
    made = TurnTakingScorer(config)
    reason = made.missing()
    assert isinstance(reason, CheckpointMissing)
    assert f"scorer.turn_taking.{key}=PATH" in str(reason)
    assert "get " in str(reason) or "checkpoints pull" in str(reason)
    assert made.identity["files"] is None


def test_a_checkpoint_on_s3_is_copied_once_and_has_the_same_identity(files, s3, tmp_path, monkeypatch):
    from spear_ray.store import Store

    monkeypatch.setenv("SPEAR_CACHE_DIR", str(tmp_path))
    folder = Store(f"s3://{BUCKET}/models")
    folder.write("vap.pt", (files / "vap.pt").read_bytes())
    for name in ("config.json", "model.safetensors"):
        folder.write(f"mimi/{name}", (files / "mimi" / name).read_bytes())
    far = f"vap.checkpoint={folder.uri}/vap.pt"
    assert scorer(files, "vap", far).fingerprint == scorer(files, "vap").fingerprint
    far = f"dualturn.mimi={folder.uri}/mimi"
    assert scorer(files, "dualturn", far).fingerprint == scorer(files, "dualturn").fingerprint
    assert len(list(tmp_path.rglob("vap.pt"))) == 1
    lost = TurnTakingScorer(load(words(files, "vap", f"vap.checkpoint={folder.uri}/x.pt")).scorer.turn_taking)
    assert isinstance(lost.missing(), CheckpointMissing)


def test_times_alone_are_not_enough_for_a_predictor_that_hears(files):
    made = scorer(files, "vap")
    with pytest.raises(ValueError, match="hears audio"):
        made.predictor.assess([Clip(Timeline.of([(0, 3)], [(4, 6)], 10))])


@pytest.mark.parametrize(
    "word", ["dualturn.head=fvad8", "vap.window_s=0", "dualturn.batch_seconds=-1", "min_utterance_s=-0.1"]
)
def test_settings_that_cannot_be_used_are_named(word):
    with pytest.raises(ConfigError, match=word.split("=")[0]):
        load([f"scorer.turn_taking.{word}"])
