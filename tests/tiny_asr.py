"""Small randomly initialised recognisers in the published file formats; what they write means nothing."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import (
    Qwen3ASRConfig,
    Qwen3ASRForConditionalGeneration,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from tests.tiny_checkpoints import lively

WORDS = ["Ġyes", "Ġno", "Ġokay", "Ġwell", "Ġso", "Ġthat", "Ġis", "Ġfine", "ly", "ish", ".", ",", "?", "Ġtalk", "ing"]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
PLAIN = [*BYTES, *(word for word in WORDS if word not in BYTES)]
WHISPER_MARKS = [
    "<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|zh|>", "<|transcribe|>", "<|translate|>",
    "<|notimestamps|>",
]  # fmt: skip
QWEN_MARKS = ["<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"]
QWEN_TEXT = "<asr_text>"
WIDTH = 64


@contextmanager
def one_thread() -> Iterator[None]:
    """Networks as small as these only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def tokenizer(marks: list[str], plain_marks: tuple[str, ...] = ()) -> Tokenizer:
    """Byte-level BPE: all bytes, some words, marks behind them."""
    made = Tokenizer(BPE(vocab={word: n for n, word in enumerate(PLAIN)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(mark, special=True) for mark in marks])
    made.add_tokens([AddedToken(mark, special=False) for mark in plain_marks])
    return made


def whisper(folder: Path, *, heads: bool = True, english_only: bool = False, sure_of: str = "", seed: int = 0) -> Path:
    """As openai/whisper-* are on the hub.

    Args:
        heads: whether generation_config.json names alignment heads.
        english_only: without languages and tasks.
        sure_of: the language that it hears in every clip.
    """
    torch.manual_seed(seed)
    vocabulary = tokenizer(WHISPER_MARKS)
    ids = {mark: vocabulary.token_to_id(mark) for mark in WHISPER_MARKS}
    config = WhisperConfig(
        d_model=WIDTH, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=96, decoder_ffn_dim=96, vocab_size=vocabulary.get_vocab_size(), num_mel_bins=80,
        pad_token_id=ids["<|endoftext|>"], bos_token_id=ids["<|endoftext|>"], eos_token_id=ids["<|endoftext|>"],
        decoder_start_token_id=ids["<|startoftranscript|>"], max_target_positions=20, median_filter_width=7,
    )  # fmt: skip
    model = lively(WhisperForConditionalGeneration(config), spread=1.5)
    if sure_of:
        _make_sure(model, ids["<|startoftranscript|>"], ids[f"<|{sure_of}|>"])
    model.save_pretrained(folder)
    vocabulary.save(str(folder / "tokenizer.json"))
    (folder / "generation_config.json").write_text(json.dumps(_generation(ids, heads, english_only)))
    (folder / "normalizer.json").write_text(json.dumps({"colour": "color"}))
    return folder


def _generation(ids: dict[str, int], heads: bool, english_only: bool) -> dict[str, object]:
    written: dict[str, object] = {
        "decoder_start_token_id": ids["<|startoftranscript|>"],
        "eos_token_id": ids["<|endoftext|>"],
        "pad_token_id": ids["<|endoftext|>"],
        "no_timestamps_token_id": ids["<|notimestamps|>"],
        # All bytes and all marks: it writes words only.
        "suppress_tokens": [*range(len(BYTES)), *(ids[mark] for mark in WHISPER_MARKS[1:])],
        "begin_suppress_tokens": [ids["<|endoftext|>"]],
        "forced_decoder_ids": [[1, None], [2, ids["<|transcribe|>"]]],
        "is_multilingual": not english_only,
        "max_length": 20,
    }
    if not english_only:
        written["lang_to_id"] = {mark: ids[mark] for mark in WHISPER_MARKS[2:5]}
        written["task_to_id"] = {"transcribe": ids["<|transcribe|>"], "translate": ids["<|translate|>"]}
    return written | ({"alignment_heads": [[0, 1], [1, 0], [1, 1]]} if heads else {})


def _make_sure(model: WhisperForConditionalGeneration, start: int, language: int) -> None:
    """At the first step, the start token and its language share a direction that no other token has."""
    with torch.no_grad():
        embeddings = model.model.decoder.embed_tokens.weight
        embeddings[:, 0] = 0.0
        embeddings[start, 0] = 300.0
        embeddings[language, 0] = 30.0


def qwen(folder: Path, seed: int = 0) -> Path:
    """As Qwen/Qwen3-ASR-*-hf are on the hub."""
    torch.manual_seed(seed)
    vocabulary = tokenizer(QWEN_MARKS, (QWEN_TEXT,))
    ids = vocabulary.token_to_id
    config = Qwen3ASRConfig(
        audio_config={
            "d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 48, "output_dim": 48,
            "downsample_hidden_size": 8, "num_mel_bins": 128, "n_window_infer": 200,
        },
        text_config={
            "model_type": "qwen3", "vocab_size": vocabulary.get_vocab_size(), "hidden_size": 48,
            "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": 24, "max_position_embeddings": 2048, "tie_word_embeddings": True,
        },
        audio_token_id=ids("<|audio_pad|>"), pad_token_id=ids("<|im_end|>"), eos_token_id=[ids("<|im_end|>")],
    )  # fmt: skip
    lively(Qwen3ASRForConditionalGeneration(config), spread=1.5).save_pretrained(folder)
    vocabulary.save(str(folder / "tokenizer.json"))
    return folder
