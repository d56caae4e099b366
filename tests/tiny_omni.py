"""A small, randomly initialised Qwen2.5-Omni in the real file layout: what it says means nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>", "<|vision_bos|>",
    "<|vision_eos|>", "<|vision_pad|>", "<|IMAGE|>", "<|VIDEO|>",
)  # fmt: skip
BYTES = 256
ID = {token: BYTES + place for place, token in enumerate(SPECIAL)}
VOCABULARY = 288

NAMED = {
    "image_token": "<|IMAGE|>",
    "audio_token": "<|AUDIO|>",
    "video_token": "<|VIDEO|>",
    "vision_bos_token": "<|vision_bos|>",
    "vision_eos_token": "<|vision_eos|>",
    "audio_bos_token": "<|audio_bos|>",
    "audio_eos_token": "<|audio_eos|>",
}

TOKENS = {
    "audio_token_index": ID["<|AUDIO|>"], "image_token_index": ID["<|IMAGE|>"], "video_token_index": ID["<|VIDEO|>"],
    "audio_start_token_id": ID["<|audio_bos|>"], "audio_end_token_id": ID["<|audio_eos|>"],
    "vision_start_token_id": ID["<|vision_bos|>"], "vision_end_token_id": ID["<|vision_eos|>"],
    "tie_word_embeddings": False,
}  # fmt: skip
"""Of a thinker's configuration."""

TEMPLATE = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
    "{% endif %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif 'audio' in part['type'] %}<|audio_bos|><|AUDIO|><|audio_eos|>{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make(folder: Path, seed: int = 0) -> Path:
    """Write the whole model; returns the folder."""
    from transformers import Qwen2_5OmniForConditionalGeneration

    _random(Qwen2_5OmniForConditionalGeneration, _whole_config(), seed).save_pretrained(folder)
    write_beside(folder)
    return folder


def make_thinker(folder: Path, seed: int = 0) -> Path:
    """Write what training tools save: only the half that hears and writes; the same weights as `make`'s."""
    from transformers import Qwen2_5OmniForConditionalGeneration

    _random(Qwen2_5OmniForConditionalGeneration, _whole_config(), seed).thinker.save_pretrained(folder)
    write_beside(folder)
    return folder


def full_size(folder: Path) -> Path:
    """Qwen2.5-Omni-7B's sizes with the small tokenizer and no weights: for an engine that makes up its own."""
    from transformers import Qwen2_5OmniConfig

    rope = {"rope_type": "default", "rope_theta": 1_000_000.0, "mrope_section": [16, 24, 24]}
    config = Qwen2_5OmniConfig(
        thinker_config={"text_config": {"rope_parameters": rope}, "audio_config": {}, "vision_config": {}, **TOKENS},
        enable_audio_output=False,
        architectures=["Qwen2_5OmniForConditionalGeneration"],
    )
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    write_beside(folder)
    return folder


def _random(kind: type, config: Any, seed: int) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = kind(config).eval()
        for tensor in model.parameters():
            if tensor.ndim > 1:
                torch.nn.init.normal_(tensor, std=0.6 / tensor.shape[-1] ** 0.5)
    return model


def _whole_config() -> Any:
    from transformers import Qwen2_5OmniConfig

    text = {
        "vocab_size": VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 8192,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6]},
        "bos_token_id": ID["<|endoftext|>"], "eos_token_id": ID["<|im_end|>"], "pad_token_id": ID["<|endoftext|>"],
        "tie_word_embeddings": False,
    }  # fmt: skip
    thinker = {
        "text_config": text,
        "audio_config": {
            "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 128, "d_model": 64, "output_dim": 64,
        },
        "vision_config": {
            "depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64,
            "fullatt_block_indexes": [0],
        },
        **TOKENS,
    }  # fmt: skip
    return Qwen2_5OmniConfig(thinker_config=thinker, enable_audio_output=False)


def write_beside(
    folder: Path,
    special: Sequence[str] = SPECIAL,
    named: Mapping[str, str] = NAMED,
    template: str = TEMPLATE,
    processor: str = "Qwen2_5OmniProcessor",
) -> None:
    """Tokenizer (one token for each byte), processor and chat template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: place for place, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    assert tokenizer.get_vocab_size() == BYTES + len(special)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2TokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
            "model_max_length": 32768, "extra_special_tokens": named, "processor_class": processor,
            "clean_up_tokenization_spaces": False, **named,
        },
    )  # fmt: skip
    _write(
        folder / "preprocessor_config.json",
        {
            "feature_extractor_type": "WhisperFeatureExtractor", "image_processor_type": "Qwen2VLImageProcessor",
            "processor_class": processor, "feature_size": 128, "sampling_rate": 16000, "hop_length": 160,
            "n_fft": 400, "chunk_length": 300, "n_samples": 4800000, "nb_max_frames": 30000, "padding_side": "right",
            "padding_value": 0.0, "dither": 0.0, "return_attention_mask": True, "min_pixels": 3136,
            "max_pixels": 12845056, "patch_size": 14, "temporal_patch_size": 2, "merge_size": 2,
            "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711],
        },
    )  # fmt: skip
    _write(folder / "chat_template.json", {"chat_template": template})
    _write(folder / "generation_config.json", {"eos_token_id": ID["<|im_end|>"], "pad_token_id": ID["<|endoftext|>"]})


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")


class Forward:
    """Transformers' own forward pass of the thinker, one prompt at a time."""

    def __init__(self, folder: Path, kind: str = "Qwen2_5OmniThinkerForConditionalGeneration") -> None:
        import transformers

        self.processor = transformers.AutoProcessor.from_pretrained(folder)
        self.model = getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()

    def log_probabilities(self, prompt: Any, choices: Sequence[str]) -> dict[str, float]:
        """Of the next token, for a prompt of `spear_ray.judging.asking`."""
        content = [
            {"type": "text", "text": part} if isinstance(part, str) else {"type": "audio"} for part in prompt.parts
        ]
        messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
        messages.append({"role": "user", "content": content})
        text = self.processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        inputs = self.processor(
            text=text + prompt.opening, audio=prompt.clips, sampling_rate=16_000, return_tensors="pt"
        )
        with torch.no_grad():
            found = self.model(**inputs).logits[0, -1].log_softmax(-1)
        ids = self.processor.tokenizer.convert_tokens_to_ids(list(choices))
        return {choice: float(found[one]) for choice, one in zip(choices, ids, strict=True)}
