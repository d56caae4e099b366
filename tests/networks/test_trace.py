import copy
from argparse import Namespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from spear_ray.errors import CheckpointMissing, PrerequisiteError, ScorerError
from spear_ray.networks.trace import Trace
from spear_ray.networks.trace_checkpoint import load_trace
from spear_ray.networks.trace_layers import AuxSizes, TraceSizes

KINDS = ["llama", "crossattn", "base_transformer"]
LENGTHS = [5, 1, 16, 9]
AUX = {"cards": (2, 3, 4), "category_width": 6, "context_width": 10, "relation_width": 12, "part_width": 14}


def tiny(kind: str = "llama", texts: bool = True, **sizes) -> Trace:
    """Random weights; norms, whose initial weights are all 1, are moved too."""
    torch.manual_seed(0)
    given = {"inputs": 20, "width": 16, "layers": 2, "feed_forward": 24, "heads": 2, "hidden": 18, "max_vectors": 16}
    if kind == "crossattn":
        given |= {"cross_layers": 2, "cross_feed_forward": 40}
    model = Trace(TraceSizes(kind=kind, **{**given, "aux": AuxSizes(**AUX) if texts else None, **sizes})).eval()
    for parameter in model.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape)
    return model


def sequences(lengths=LENGTHS, width: int = 20) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal((length, width)).astype(np.float32) for length in lengths]


def texts(count: int = len(LENGTHS)) -> dict[str, np.ndarray]:
    random = np.random.default_rng(2)
    widths = {"context": AUX["context_width"], "relation": AUX["relation_width"]}
    return {name: random.standard_normal((count, width)).astype(np.float32) for name, width in widths.items()}


def alone(model: Trace, **words) -> np.ndarray:
    rows = [{name: array[row : row + 1] for name, array in texts().items()} for row in range(len(LENGTHS))]
    return np.concatenate([model.logits([one], **row, **words) for one, row in zip(sequences(), rows, strict=True)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_texts", [True, False])
def test_a_sequence_has_the_logit_that_it_has_alone(kind, with_texts):
    model = tiny(kind, with_texts)
    found = model.logits(sequences(), **texts())
    assert found.dtype == np.float64
    assert np.ptp(found) > 1e-2
    np.testing.assert_allclose(found, alone(model), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "crossattn"])
def test_published_padding_moves_all_but_the_longest(kind):
    model = tiny(kind)
    moved = np.abs(model.logits(sequences(), **texts(), published_padding=True) - alone(model))
    longest = int(np.argmax(LENGTHS))
    assert moved[longest] < 1e-5
    assert np.delete(moved, longest).min() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_published_padding_changes_nothing_for_a_sequence_alone(kind):
    model = tiny(kind)
    np.testing.assert_allclose(alone(model, published_padding=True), alone(model), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", ["context", "relation"])
def test_each_text_is_heard(kind, part):
    given = texts()
    other = {**given, part: -given[part]}
    moved = tiny(kind).logits(sequences(), **given) - tiny(kind).logits(sequences(), **other)
    assert np.abs(moved).min() > 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_order_is_heard(kind):
    model = tiny(kind, texts=False)
    given = sequences([9])
    assert np.abs(model.logits(given) - model.logits([given[0][::-1].copy()])).max() > 1e-4


def test_categories_are_0_unless_given():
    model, zeros = tiny(), np.zeros((len(LENGTHS), 3), dtype=np.int64)
    ones = np.ones_like(zeros)
    np.testing.assert_array_equal(
        model.logits(sequences(), **texts(), categories=zeros), model.logits(sequences(), **texts())
    )
    assert (
        np.abs(model.logits(sequences(), **texts(), categories=ones) - model.logits(sequences(), **texts())).max() > 0
    )


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_stays_close(kind):
    model = tiny(kind)
    exact = model.logits(sequences(), **texts())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model.logits(sequences(), **texts())
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=0.1 * np.abs(exact).max())
    assert np.any(rounded != exact)


def test_no_sequences_give_no_logits():
    assert tiny().logits([]).shape == (0,)


def test_a_sequence_that_is_too_long_is_refused_with_the_limit():
    tiny(texts=False).logits(sequences([16]))
    with pytest.raises(ScorerError, match="17 vectors: TRACE takes at most 16, 8 of each speaker"):
        tiny(texts=False).logits(sequences([3, 17]))


@pytest.mark.parametrize("shape", [(0, 20), (4, 19), (20,)])
def test_sequences_of_another_shape_are_refused(shape):
    with pytest.raises(ScorerError, match=r"takes \[1 or more, 20\]"):
        tiny(texts=False).logits([np.zeros(shape, dtype=np.float32)])


@pytest.mark.parametrize("part", ["context", "relation"])
@pytest.mark.parametrize("rows", [None, np.zeros((len(LENGTHS), 3)), np.zeros((1, 10))])
def test_texts_that_are_absent_or_do_not_fit_are_refused(part, rows):
    with pytest.raises(ScorerError, match=f"^{part} is "):
        tiny().logits(sequences(), **{**texts(), part: rows})


def test_categories_that_the_model_does_not_know_are_refused():
    categories = np.array([[1, 2, 4]] * len(LENGTHS))
    with pytest.raises(ScorerError, match="categories"):
        tiny().logits(sequences(), **texts(), categories=categories)


def state(model: Trace) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in model.state_dict().items()}


def same(path, model: Trace, **words) -> Trace:
    loaded = load_trace(path, **words)
    np.testing.assert_array_equal(loaded.logits(sequences(), **texts()), model.logits(sequences(), **texts()))
    return loaded


NO_NORMS = AuxSizes(**AUX, context_norm=False, relation_norm=True)
VARIANTS = [{}, {"texts": False}, {"aux": NO_NORMS}, {"layers": 1, "hidden": 7}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_tensors_tell_kind_and_sizes(tmp_path, kind, variant):
    model = tiny(kind, **variant)
    save_file(state(model), tmp_path / "m.safetensors")
    loaded = same(tmp_path / "m.safetensors", model, heads=2, max_vectors=16)
    assert (loaded.kind, loaded.width, loaded.max_vectors) == (kind, 20, 16)
    assert not loaded.training


@pytest.mark.parametrize("key", ["model_state_dict", "state_dict"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_training_checkpoint_tells_heads_and_longest_sequence(tmp_path, key, prefix):
    model = tiny("crossattn")
    tensors = {prefix + name: value for name, value in state(model).items()}
    hyperparams = {"n_heads": 2, "max_seq_len": 16, "model_type": "crossattn", "dropout": 0.1}
    torch.save({key: tensors, "hyperparams": hyperparams, "epoch": 3, "best_score": 0.9}, tmp_path / "last_model.pt")
    assert same(tmp_path / "last_model.pt", model).max_vectors == 16


def test_without_hyperparameters_8_heads_and_512_vectors_are_taken(tmp_path):
    model = tiny(heads=8, max_vectors=512)
    torch.save(state(model), tmp_path / "m.pt")
    assert same(tmp_path / "m.pt", model).max_vectors == 512


@pytest.mark.parametrize("kind", ["mlp", "logreg"])
@pytest.mark.parametrize("nested", [True, False])
def test_baselines_are_refused_by_name(tmp_path, kind, nested):
    told = {"model_type": kind}
    content = {"model_state_dict": {"net.0.weight": torch.zeros(2, 2)}, **({"hyperparams": told} if nested else told)}
    torch.save(content, tmp_path / "m.pt")
    with pytest.raises(PrerequisiteError, match=f"baseline '{kind}'"):
        load_trace(tmp_path / "m.pt")


def without(key: str) -> dict[str, torch.Tensor]:
    return {name: value for name, value in state(tiny()).items() if name != key}


@pytest.mark.parametrize("key", tiny().state_dict())
def test_any_missing_tensor_is_refused(tmp_path, key):
    save_file(without(key), tmp_path / "m.safetensors")
    with pytest.raises(PrerequisiteError):
        load_trace(tmp_path / "m.safetensors", heads=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"audio.more.weight": torch.zeros(2)}, "unknown audio.more.weight"),
        ({"audio.input_proj.weight": torch.zeros(16)}, "not 2 dimensions"),
        ({"audio.layers.1.mlp.w1.weight": torch.zeros(3, 16)}, "wrong shape for audio.layers.1.mlp.w1.weight"),
    ],
)
def test_unknown_and_misshapen_tensors_are_refused_by_name(tmp_path, change, message):
    save_file({**state(tiny()), **change}, tmp_path / "m.safetensors")
    with pytest.raises(PrerequisiteError, match=message):
        load_trace(tmp_path / "m.safetensors", heads=2)


@pytest.mark.parametrize(("heads", "kind"), [(3, "llama"), (16, "crossattn"), (3, "base_transformer")])
def test_heads_that_do_not_fit_are_refused(tmp_path, heads, kind):
    save_file(state(tiny(kind)), tmp_path / "m.safetensors")
    with pytest.raises(PrerequisiteError, match=f"{heads} heads do not fit the width 16"):
        load_trace(tmp_path / "m.safetensors", heads=heads)


@pytest.mark.parametrize("value", [0, "8", None])
def test_hyperparameters_that_are_no_numbers_are_refused(tmp_path, value):
    torch.save({"state_dict": state(tiny()), "hyperparams": {"n_heads": value}}, tmp_path / "m.pt")
    with pytest.raises(PrerequisiteError, match="n_heads"):
        load_trace(tmp_path / "m.pt")


@pytest.mark.parametrize("content", [[1, 2], {"epoch": 3}, Namespace(a=1), {"conv.weight": torch.zeros(2)}])
def test_other_files_are_refused(tmp_path, content):
    torch.save(copy.copy(content), tmp_path / "m.pt")
    with pytest.raises(PrerequisiteError, match="NaturalnessPrediction"):
        load_trace(tmp_path / "m.pt")


def test_a_missing_file_says_where_to_get_it(tmp_path):
    with pytest.raises(CheckpointMissing, match=r"get last_model.pt from the Google Drive folder named in github.com/"):
        load_trace(tmp_path / "last_model.pt")
