"""Small randomly initialised checkpoints in the published file formats, for the code that loads the real ones.

What they say means nothing. Heads are 64 wide as in every published encoder, so that sizes can be read off the tensors.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import (
    BertConfig,
    BertModel,
    BertTokenizer,
    Wav2Vec2Config,
    Wav2Vec2ForSequenceClassification,
    Wav2Vec2Model,
    WavLMConfig,
    WavLMModel,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from spear_ray.networks.trace import Trace
from spear_ray.networks.trace_layers import AuxSizes, Kind, TraceSizes

WIDTH = 64
HEAD = 16
WAVE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 1,
    "intermediate_size": 96,
    "conv_dim": [16] * 7,
    "do_stable_layer_norm": True,
    "feat_extract_norm": "layer",
    "conv_bias": True,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
DIMENSIONS = {"arousal_layer": 1, "valence_layer": 1, "dominance_layer": 1}


def write(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {key: value.detach().contiguous().clone() for key, value in tensors.items()}, folder / "model.safetensors"
    )
    return folder


def lively(module: nn.Module, spread: float = 0.4) -> nn.Module:
    """Random weights large enough that outputs differ between clips."""
    with torch.no_grad():
        for name, value in module.named_parameters():
            if value.ndim > 1 and "embed_positions" not in name:
                value.copy_(torch.randn_like(value) * spread / max(1, value[0].numel()) ** 0.5 * 2.0)
    return module


def head(sizes: dict[str, int], hidden: int = WIDTH) -> dict[str, torch.Tensor]:
    found = {}
    for place, inputs in ((0, hidden), (3, HEAD), (6, HEAD)):
        found |= named(f"model_seq.{place}", nn.Conv1d(inputs, HEAD, 1))
    for name, size in sizes.items():
        found |= named(f"{name}.0", nn.Linear(HEAD, HEAD)) | named(f"{name}.2", nn.Linear(HEAD, size))
    return {key: value * 3 for key, value in found.items()}


def named(prefix: str, module: nn.Module) -> dict[str, torch.Tensor]:
    return {f"{prefix}.{key}": value for key, value in module.state_dict().items()}


def whisper_profile(folder: Path, sizes: dict[str, int], *, rank: int = 4, seed: int = 0) -> Path:
    """Vox-Profile or VoxLect on Whisper, as PyTorchModelHubMixin saves it; LoRA in the upper half of the layers."""
    torch.manual_seed(seed)
    config = WhisperConfig(
        d_model=WIDTH, encoder_layers=2, encoder_attention_heads=1, encoder_ffn_dim=96, num_mel_bins=80,
        max_source_positions=750,
    )  # fmt: skip
    tensors = named("backbone_model.encoder", lively(WhisperEncoder(config)))
    for layer, (inputs, outputs) in {"fc1": (WIDTH, 96), "fc2": (96, WIDTH)}.items():
        if rank:
            tensors[f"backbone_model.encoder.layers.1.{layer}.lora_A"] = torch.randn(rank, inputs) * 0.1
            tensors[f"backbone_model.encoder.layers.1.{layer}.lora_B"] = torch.randn(outputs, rank) * 0.1
    tensors["embed_positions"] = tensors["backbone_model.encoder.embed_positions.weight"].clone()
    tensors["weights"] = torch.zeros(3)
    kwargs = {
        "pretrain_model": "whisper_large", "hidden_dim": HEAD, "finetune_method": "lora", "lora_rank": rank,
        "output_class_num": 16, "use_conv_output": True,
    }  # fmt: skip
    return write(folder, kwargs, tensors | head(sizes))


def voxlect(folder: Path, seed: int = 1) -> Path:
    return whisper_profile(folder, {"out_layer": 16}, seed=seed)


def whisper_dimensions(folder: Path, seed: int = 2) -> Path:
    return whisper_profile(folder, DIMENSIONS, rank=0, seed=seed)


def wavlm_dimensions(folder: Path, seed: int = 3) -> Path:
    """Vox-Profile on WavLM."""
    torch.manual_seed(seed)
    tensors = named("backbone_model", lively(WavLMModel(WavLMConfig(**WAVE))))
    tensors["weights"] = torch.randn(3)
    return write(folder, {"pretrain_model": "wavlm_large", "lora_rank": 16}, tensors | head(DIMENSIONS))


def audeering(folder: Path, seed: int = 4) -> Path:
    torch.manual_seed(seed)
    config = Wav2Vec2Config(**WAVE)
    tensors = named("wav2vec2", lively(Wav2Vec2Model(config)))
    tensors |= named("classifier.dense", nn.Linear(WIDTH, WIDTH)) | named("classifier.out_proj", nn.Linear(WIDTH, 3))
    return write(folder, config.to_dict(), tensors)


def odyssey(folder: Path, seed: int = 5) -> Path:
    """3loi's multi-attribute model."""
    torch.manual_seed(seed)
    tensors = named("ssl_model", lively(WavLMModel(WavLMConfig(**WAVE))))
    tensors |= named("pool_model.sap_linear", nn.Linear(WIDTH, WIDTH)) | {"pool_model.attention": torch.randn(WIDTH, 1)}
    tensors |= named("ser_model.fc.0.0", nn.Linear(2 * WIDTH, WIDTH)) | named("ser_model.fc.0.1", nn.LayerNorm(WIDTH))
    tensors |= named("ser_model.out.0", nn.Linear(WIDTH, 3))
    config = {
        "model_type": "ser", "ssl_type": "microsoft/wavlm-large", "hidden_size": WIDTH, "classifier_hidden_layers": 1,
        "classifier_dropout_prob": 0.5, "num_classes": 3, "mean": -8.278621631819787e-05, "std": 0.08485510250851999,
        "sampling_rate": 16000, "id2label": {"0": "arousal", "1": "dominance", "2": "valence"},
    }  # fmt: skip
    return write(folder, config, tensors)


def mms_lid(folder: Path, languages: tuple[str, ...] = ("eng", "deu", "cmn"), english: float = 0.0) -> Path:
    """MMS-LID, as save_pretrained writes it.

    Args:
        english: added to the bias of the first language: a large number makes it sure of it.
    """
    torch.manual_seed(6)
    config = Wav2Vec2Config(
        **WAVE, id2label=dict(enumerate(languages)), label2id={name: n for n, name in enumerate(languages)},
        classifier_proj_size=32,
    )  # fmt: skip
    model = lively(Wav2Vec2ForSequenceClassification(config))
    with torch.no_grad():
        model.classifier.bias[0] += english
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps({"do_normalize": True, "sampling_rate": 16000}))
    return folder


def whisper_lid(folder: Path) -> Path:
    """Any multilingual Whisper, as save_pretrained writes it."""
    torch.manual_seed(7)
    config = WhisperConfig(
        d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1, decoder_attention_heads=1,
        encoder_ffn_dim=96, decoder_ffn_dim=96, vocab_size=40, num_mel_bins=80, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1, max_target_positions=8,
    )  # fmt: skip
    model = lively(WhisperForConditionalGeneration(config))
    model.generation_config.lang_to_id = {"<|en|>": 30, "<|de|>": 31, "<|zh|>": 32}
    model.save_pretrained(folder)
    return folder


def trace(path: Path, kind: Kind = "crossattn", *, inputs: int = WIDTH, words: int = 16, texts: bool = True) -> Path:
    """TRACE's last_model.pt, as its training script saves it."""
    torch.manual_seed(8)
    aux = AuxSizes(cards=(2, 3, 4), category_width=6, context_width=words, relation_width=words, part_width=14)
    cross = {"cross_layers": 2, "cross_feed_forward": 40} if kind == "crossattn" else {}
    sizes = TraceSizes(
        kind=kind, inputs=inputs, width=16, layers=2, feed_forward=24, heads=2, hidden=16, max_vectors=64,
        aux=aux if texts else None, **cross,
    )  # fmt: skip
    hyperparams = {"n_heads": 2, "max_seq_len": 64, "model_type": kind}
    state = lively(Trace(sizes), spread=1.0).state_dict()
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model_state_dict": state, "hyperparams": hyperparams, "epoch": 3, "best_score": 0.5}, path)
    return path


def minilm(folder: Path, width: int = 16) -> Path:
    """all-MiniLM-L6-v2, as the hub has it."""
    torch.manual_seed(9)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "friends", "stranger", "talk", "what", "do", "you", "?", "a"]
    config = BertConfig(
        vocab_size=len(words), hidden_size=width, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=300,
    )  # fmt: skip
    lively(BertModel(config)).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    BertTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder
