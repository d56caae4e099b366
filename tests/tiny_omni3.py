"""A small, randomly initialised Qwen3-Omni (a mixture of experts) in the real file layout; it says nothing."""

import json
from pathlib import Path

import torch

from tests import tiny_omni

SPECIAL = (
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_pad|>", "<|audio_start|>", "<|audio_end|>",
    "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>",
)  # fmt: skip
ID = {token: tiny_omni.BYTES + place for place, token in enumerate(SPECIAL)}
NAMED = {
    "image_token": "<|image_pad|>", "audio_token": "<|audio_pad|>", "video_token": "<|video_pad|>",
    "vision_bos_token": "<|vision_start|>", "vision_eos_token": "<|vision_end|>",
    "audio_bos_token": "<|audio_start|>", "audio_eos_token": "<|audio_end|>",
}  # fmt: skip
TEMPLATE = tiny_omni.TEMPLATE.replace(
    "<|audio_bos|><|AUDIO|><|audio_eos|>", "<|audio_start|><|audio_pad|><|audio_end|>"
)
THINKER = "Qwen3OmniMoeThinkerForConditionalGeneration"
PUBLISHED = {"image_size": 768, "apply_vit_abs_pos_embed": True, "tokens_per_second": 2}
"""Of the published vision_config, which vLLM reads and transformers does not write."""


def make(folder: Path, seed: int = 0) -> Path:
    """Write the thinker's half of a whole model, with the names of the published files."""
    import transformers
    from safetensors.torch import load_file, save_file

    config = _config()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, THINKER)(config.thinker_config).eval()
        for tensor in model.parameters():
            if tensor.ndim > 1:
                torch.nn.init.normal_(tensor, std=0.6 / tensor.shape[-1] ** 0.5)
    model.save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    named = {f"thinker.{name}": tensor for name, tensor in tensors.items()}
    save_file(named, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    written["thinker_config"]["vision_config"] |= PUBLISHED
    (folder / "config.json").write_text(json.dumps(written, indent=2))
    tiny_omni.write_beside(folder, SPECIAL, NAMED, TEMPLATE, "Qwen3OmniMoeProcessor")
    return folder


def _config():
    from transformers import Qwen3OmniMoeConfig

    text = {
        "vocab_size": tiny_omni.VOCABULARY, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "max_position_embeddings": 8192,
        "moe_intermediate_size": 64, "num_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 6, 6], "mrope_interleaved": True,
        },
        "bos_token_id": ID["<|endoftext|>"], "eos_token_id": ID["<|im_end|>"], "pad_token_id": ID["<|endoftext|>"],
    }  # fmt: skip
    thinker = {
        "text_config": text,
        "audio_config": {
            "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 128, "d_model": 64, "output_dim": 64,
            "downsample_hidden_size": 16,
        },
        "vision_config": {
            "depth": 1, "hidden_size": 64, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 64,
            "deepstack_visual_indexes": [0],
        },
        "audio_token_id": ID["<|audio_pad|>"], "image_token_id": ID["<|image_pad|>"],
        "video_token_id": ID["<|video_pad|>"], "audio_start_token_id": ID["<|audio_start|>"],
        "audio_end_token_id": ID["<|audio_end|>"], "vision_start_token_id": ID["<|vision_start|>"],
        "vision_end_token_id": ID["<|vision_end|>"],
    }  # fmt: skip
    return Qwen3OmniMoeConfig(
        thinker_config=thinker, enable_audio_output=False, architectures=["Qwen3OmniMoeForConditionalGeneration"]
    )
