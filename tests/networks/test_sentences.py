"""A small random BERT and a real WordPiece tokenizer, in the published file format."""

import json
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import BertConfig, BertModel, BertTokenizer

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks import sentences
from spear_ray.networks.sentences import Sentences, hash_vector

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "friend",
    "##s",
    "##ship",
    "talk",
    "about",
    "cafe",
    "a",
    ",",
    "work",
]
TEXTS = ["friends talk", "Friendship, a talk about work", "", "café", "friends talk", "talk friends"]
PULL = "spear-ray checkpoints pull all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """Its files as the hub has them: with a pooler and positions, and a tokenizer that cuts and pads by itself."""
    folder = tmp_path_factory.mktemp("published")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    torch.manual_seed(0)
    model = BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=300, **sizes))
    model.save_pretrained(folder)
    positions = {"embeddings.position_ids": torch.arange(300)[None]}
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, **positions}, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["truncation"] = {"direction": "Right", "max_length": 6, "strategy": "LongestFirst", "stride": 0}
    pad = {"pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]", "direction": "Right", "pad_to_multiple_of": None}
    tokenizer["padding"] = {"strategy": {"Fixed": 6}, **pad}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture
def folder(published, tmp_path):
    return shutil.copytree(published, tmp_path / "model")


def reference(folder, ids: list[int], padding: int = 0) -> np.ndarray:
    """Masked mean pooling of token ids, written out; padded at will."""
    model = BertModel.from_pretrained(folder).eval()
    mask = torch.tensor([[1] * len(ids) + [0] * padding])
    with torch.inference_mode():
        hidden = model(torch.tensor([ids + [0] * padding]), attention_mask=mask).last_hidden_state
    mean = (hidden * mask[..., None]).sum(1)[0] / mask.sum()
    return (mean / mean.norm()).numpy()


def ids_of(*words: str) -> list[int]:
    return [WORDS.index(word) for word in ("[CLS]", *words, "[SEP]")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("friends talk", ["friend", "##s", "talk"]),
        ("Friendship, a TALK", ["friend", "##ship", ",", "a", "talk"]),
        ("café zebra", ["cafe", "[UNK]"]),
        ("", []),
    ],
)
@pytest.mark.parametrize("padding", [0, 5])
def test_a_text_is_the_normalised_mean_of_its_tokens(published, text, words, padding):
    found = Sentences.load(published).vectors([text])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[0], reference(published, ids_of(*words), padding), rtol=0, atol=1e-5)


def test_a_texts_vector_does_not_depend_on_the_others(published):
    together = Sentences.load(published).vectors(TEXTS)
    assert together.shape == (len(TEXTS), 16)
    for text, vector in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(Sentences.load(published).vectors([text])[0], vector)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-6)
    assert len(np.unique(together, axis=0)) == len(set(TEXTS))


def test_256_tokens_are_read_and_no_more(published):
    model = Sentences.load(published)
    longest = ids_of(*["talk"] * 254)
    np.testing.assert_allclose(model.vectors(["talk " * 254])[0], reference(published, longest), rtol=0, atol=1e-5)
    np.testing.assert_array_equal(model.vectors(["talk " * 254 + "work"]), model.vectors(["talk " * 254]))
    assert np.abs(model.vectors(["talk " * 253 + "work"]) - model.vectors(["talk " * 254])).max() > 1e-4


def test_repeated_texts_are_encoded_once(published, monkeypatch):
    model, seen = Sentences.load(published), []
    encode = model._encode
    monkeypatch.setattr(model, "_encode", lambda text: seen.append(text) or encode(text))
    model.vectors(TEXTS)
    model.vectors(TEXTS)
    assert sorted(seen) == sorted(set(TEXTS))


def test_the_longest_unused_texts_are_forgotten_first(published, monkeypatch):
    monkeypatch.setattr(sentences, "MEMOISED_TEXTS", 2)
    model = Sentences.load(published)
    model.vectors(["a", "talk", "a", "work"])
    assert list(model._known) == ["a", "work"]


@pytest.mark.parametrize("vocabulary", ["tokenizer.json", "vocab.txt"])
def test_either_vocabulary_is_enough(published, folder, vocabulary):
    for name in {"tokenizer.json", "vocab.txt", "tokenizer_config.json"} - {vocabulary}:
        (folder / name).unlink()
    np.testing.assert_array_equal(Sentences.load(folder).vectors(TEXTS), Sentences.load(published).vectors(TEXTS))


def test_no_texts_give_no_vectors(published):
    assert Sentences.load(published).vectors([]).shape == (0, 16)


@pytest.mark.parametrize("names", [["config.json"], ["model.safetensors"], ["tokenizer.json", "vocab.txt"]])
def test_missing_files_say_how_to_fetch_them(folder, names):
    for name in names:
        (folder / name).unlink()
    with pytest.raises(CheckpointMissing, match=PULL):
        Sentences.load(folder)


def test_a_missing_folder_says_how_to_fetch_it(tmp_path):
    with pytest.raises(CheckpointMissing, match=PULL):
        Sentences.load(tmp_path / "absent")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_damaged_files_are_refused(folder, name):
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(PrerequisiteError, match=PULL):
        Sentences.load(folder)


@pytest.mark.parametrize("change", [{"hidden_size": "wide"}, {"num_attention_heads": 3}])
def test_a_config_that_describes_no_network_is_refused(folder, change):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(PrerequisiteError, match="does not describe a BERT"):
        Sentences.load(folder)


def test_another_models_config_is_refused(folder):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "roberta"}))
    with pytest.raises(PrerequisiteError, match="model_type is 'roberta', must be 'bert'"):
        Sentences.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings.word_embeddings.weight": None}, "lacks embeddings.word_embeddings.weight"),
        ({"encoder.layer.2.output.dense.bias": torch.zeros(16)}, "unknown encoder.layer.2.output.dense.bias"),
    ],
)
def test_every_tensor_is_accounted_for(folder, change, message):
    tensors = {**load_file(folder / "model.safetensors"), **change}
    save_file({key: value for key, value in tensors.items() if value is not None}, folder / "model.safetensors")
    with pytest.raises(PrerequisiteError, match=message):
        Sentences.load(folder)


def test_a_tokenizer_of_more_words_than_the_model_is_refused(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join([*WORDS, "more"]) + "\n")
    with pytest.raises(PrerequisiteError, match="token 14, its model only 14"):
        Sentences.load(folder)


def test_hash_vectors_ignore_case_and_blanks_around():
    np.testing.assert_array_equal(hash_vector("  Old Friends\n", 384), hash_vector("old friends", 384))
    assert np.abs(hash_vector("old friends", 384) - hash_vector("old  friends", 384)).max() > 1e-3
    assert np.linalg.norm(hash_vector("", 12)) == pytest.approx(1, abs=1e-5)
