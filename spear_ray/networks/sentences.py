"""Text vectors: sentence-transformers/all-MiniLM-L6-v2, and what TRACE takes for a text without one.

Source: TRACE's published inference code (github.com/SathvikNapa/NaturalnessPrediction); the model's card on the hub.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from huggingface_hub.errors import StrictDataclassError
from torch import nn
from transformers import BertConfig, BertModel, BertTokenizer

from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.tensors import CONFIG, WEIGHTS, existing, load_strictly, read_config, read_safetensors

FETCH = "spear-ray checkpoints pull all-MiniLM-L6-v2"
VOCABULARIES = ("tokenizer.json", "vocab.txt")
"""Either is enough."""

MOST_TOKENS = 256
"""Of a text, with [CLS] and [SEP]; the rest is not read (TRACE; also the model's `max_seq_length`)."""
MEMOISED_TEXTS = 4096
"""Texts whose vectors are kept: dialogues share their prompts and relationships."""

SEED_BYTES = 8
SEED_MASK = 0xFFFFFFFF
EPSILON = 1e-6
"""Added to the hash vector's length before it is divided by it."""

# In the published file, but not used: positions are counted, and sentences are the mean of their tokens.
_UNUSED = ("pooler.", "embeddings.position_ids")


def hash_vector(text: str, width: int) -> np.ndarray:
    """The same random unit vector for the same text, whatever its case and the blanks around it.

    Args:
        text: any.
        width: of the vector.

    Returns:
        float32 [width].
    """
    digest = hashlib.sha256(text.strip().lower().encode()).digest()
    seed = int.from_bytes(digest[:SEED_BYTES], "little") & SEED_MASK
    drawn = np.random.RandomState(seed).normal(size=width).astype(np.float32)
    unit: np.ndarray = drawn / (np.linalg.norm(drawn) + np.float32(EPSILON))
    return unit


class Sentences(nn.Module):
    """Texts as unit vectors; each is encoded by itself, so that its vector depends on nothing else.

    Args:
        model: without its pooler.
        tokenizer: of the same vocabulary.
    """

    def __init__(self, model: BertModel, tokenizer: BertTokenizer) -> None:
        super().__init__()
        self.model = model
        self._tokenizer = tokenizer
        self._most_tokens = min(MOST_TOKENS, model.config.max_position_embeddings)
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()

    @classmethod
    def load(cls, folder: str | Path) -> Sentences:
        """The model from a local folder in the published format; nothing is fetched, no code of it is run.

        Args:
            folder: with config.json, model.safetensors, and tokenizer.json or vocab.txt.

        Returns:
            In evaluation mode, float32, on the CPU.

        Raises:
            CheckpointMissing: a file is not there.
            PrerequisiteError: a file is damaged or of another model, or a tensor is missing, unknown or misshapen.
        """
        path = existing(Path(folder), FETCH)
        model = _untrained(path)
        tensors = read_safetensors(path / WEIGHTS, FETCH)
        used = {key: tensor for key, tensor in tensors.items() if not key.startswith(_UNUSED)}
        load_strictly(model, used, str(path / WEIGHTS))
        return cls(model, _tokenizer(path, model.config.vocab_size)).eval()

    @property
    def width(self) -> int:
        """Of the vectors."""
        return int(self.model.config.hidden_size)

    def vectors(self, texts: Sequence[str]) -> np.ndarray:
        """One unit vector for each text.

        Args:
            texts: any; only the first 256 tokens of each are read.

        Returns:
            float32 [texts, width].
        """
        rows = [self._vector(text) for text in texts]
        return np.stack(rows) if rows else np.zeros((0, self.width), dtype=np.float32)

    def _vector(self, text: str) -> np.ndarray:
        if text not in self._known:
            self._known[text] = self._encode(text)
            if len(self._known) > MEMOISED_TEXTS:
                self._known.popitem(last=False)
        self._known.move_to_end(text)
        return self._known[text]

    @torch.inference_mode()
    def _encode(self, text: str) -> np.ndarray:
        tokens = self._tokenizer(
            text, truncation=True, max_length=self._most_tokens, padding=False, return_tensors="pt"
        ).to(self.model.device)
        # A text alone has no padding: the mean over all its tokens is the masked mean of a batch.
        mean = self.model(**tokens).last_hidden_state[0].float().mean(0)
        vector: np.ndarray = nn.functional.normalize(mean, dim=0).cpu().numpy()
        return vector


def _untrained(folder: Path) -> BertModel:
    values = read_config(folder, "bert", FETCH)
    try:
        return BertModel(BertConfig.from_dict(values), add_pooling_layer=False)
    except (StrictDataclassError, ValueError) as error:
        raise PrerequisiteError(f"{folder / CONFIG} does not describe a BERT: {error}: {FETCH}") from error


def _tokenizer(folder: Path, most: int) -> BertTokenizer:
    """The folder's WordPiece tokenizer, whose tokens must all be below `most`."""
    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise CheckpointMissing(f"{folder} has neither {' nor '.join(VOCABULARIES)}: {FETCH}")
    try:
        tokenizer: BertTokenizer = BertTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the tokenizers library raises bare exceptions for damaged files
        raise PrerequisiteError(f"{folder}: its tokenizer cannot be read ({error}): {FETCH}") from error
    largest = max(tokenizer.get_vocab().values())
    if largest >= most:
        raise PrerequisiteError(f"{folder}: its tokenizer has token {largest}, its model only {most}: {FETCH}")
    return tokenizer
