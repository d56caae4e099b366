import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from spear_ray.config import load
from spear_ray.dialogue import Status
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.networks.utmos import LONGEST_S, Utmos, UtmosNetwork, _renamed, read_utmos
from spear_ray.scorers.quality import QualityScorer
from tests.clips import dialogue_of, speech
from tests.golden_cases import folder

RECORDED = folder("07_utmos")
TINY = RECORDED / "utmos_tiny.safetensors"


@pytest.fixture(scope="module")
def utmos():
    return Utmos(TINY)


def recorded():
    arrays = np.load(RECORDED / "utmos.npz")
    scores = json.loads((RECORDED / "utmos_cases.json").read_text())["scores"]
    return [(arrays[f"pcm.{place}"].astype(np.float32) / 32768, score) for place, score in enumerate(scores)]


def test_recorded_scores(utmos):
    clips, scores = zip(*recorded(), strict=True)
    assert utmos.scores(clips) == pytest.approx(scores, abs=1e-5)
    assert np.ptp(scores) > 0.05


def test_score_does_not_depend_on_company_or_order(utmos):
    clips = [clip for clip, _ in recorded()]
    assert utmos.scores(clips[::-1]) == utmos.scores(clips)[::-1]
    assert [utmos.scores([clip])[0] for clip in clips] == utmos.scores(clips)


def test_torch_file_gives_the_same(utmos, tmp_path):
    torch.save(load_file(TINY), tmp_path / "utmos22_strong_step7459_v1.pt")
    clip = recorded()[1][0]
    assert Utmos(tmp_path / "utmos22_strong_step7459_v1.pt").scores([clip]) == utmos.scores([clip])


def test_every_tensor_of_the_published_size_has_its_place():
    shapes = json.loads((RECORDED / "full_size_state_dict_keys.json").read_text())
    with torch.device("meta"):
        network = UtmosNetwork({key: torch.empty(shape) for key, shape in shapes.items()})
    wanted = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    assert wanted == {_renamed(key): tuple(shape) for key, shape in shapes.items()}
    assert network.wav2vec2.config.num_attention_heads == 12


def test_long_clip_is_the_mean_of_the_fewest_equal_parts(utmos):
    clip = speech(2 * LONGEST_S + 3)
    cut = np.array_split(clip, 3)
    assert utmos.scores([clip])[0] == pytest.approx(np.mean(utmos.scores(cut)))


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda t: t.pop("blstm.bias_hh_l0"), "lacks blstm.bias_hh_l0"),
        (lambda t: t.update(extra=torch.zeros(1)), "unknown extra"),
        (lambda t: t.update({"projection.2.bias": torch.zeros(3)}), "wrong shape for projection.2.bias"),
        (lambda t: t.pop("domain_emb"), "another model"),
        (dict.clear, "another model"),
    ],
)
def test_wrong_files_are_refused_with_what_is_wrong(tmp_path, spoil, what):
    tensors = load_file(TINY)
    spoil(tensors)
    save_file(tensors, tmp_path / "x.safetensors")
    with pytest.raises(PrerequisiteError, match=what):
        read_utmos(tmp_path / "x.safetensors")


def test_pickles_that_hold_no_tensors_are_refused(tmp_path):
    torch.save([1, 2], tmp_path / "list.pt")
    with pytest.raises(PrerequisiteError, match="no table of tensors"):
        read_utmos(tmp_path / "list.pt")
    (tmp_path / "none.pt").write_bytes(b"nothing")
    with pytest.raises(PrerequisiteError):
        read_utmos(tmp_path / "none.pt")


def scorer(*words):
    made = QualityScorer(
        load(["scorer.quality.distillmos=false", "scorer.quality.dnsmos=false", *words]).scorer.quality
    )
    made.setup()
    return made


def test_scorer_fills_the_column_where_the_file_is_given():
    made = scorer(f"scorer.quality.utmos={TINY}")
    rows = made.score([dialogue_of(answer=speech(3)), dialogue_of(answer=speech(0.1))])
    assert [(row.status, set(row.metrics)) for row in rows] == [(Status.OK, {"utmos"}), (Status.SKIPPED, set())]
    assert rows[0].metrics["utmos"] == pytest.approx(Utmos(TINY).scores([speech(3)])[0])
    assert made.columns == ("UTMOS",)
    assert QualityScorer(load([]).scorer.quality).columns == ()


def test_file_is_part_of_the_fingerprint_and_its_absence_is_not(tmp_path):
    plain = QualityScorer(load([]).scorer.quality)
    assert "utmos" not in plain.identity
    given = QualityScorer(load([f"scorer.quality.utmos={TINY}"]).scorer.quality)
    assert given.fingerprint != plain.fingerprint
    tensors = load_file(TINY)
    save_file({**tensors, "domain_emb": tensors["domain_emb"] + 1}, tmp_path / "x.safetensors")
    assert (
        QualityScorer(load([f"scorer.quality.utmos={tmp_path / 'x.safetensors'}"]).scorer.quality).fingerprint
        != given.fingerprint
    )


def test_missing_file_says_where_it_comes_from():
    made = QualityScorer(load(["scorer.quality.utmos=/nowhere.pt"]).scorer.quality)
    assert "SpeechMOS" in str(made.missing())
    with pytest.raises(PrerequisiteError, match="/nowhere"):
        made.setup()


def test_nothing_wanted_is_refused():
    with pytest.raises(ConfigError, match="leave the scorer out"):
        load(["scorer.quality.distillmos=false", "scorer.quality.dnsmos=false"])
