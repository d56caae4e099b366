"""Folders in the published layouts: from the recorded cases, and from small random networks."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import MimiConfig, Qwen2Config

from spear_ray.networks.dualturn_network import DualTurnNetwork, DualTurnParts
from spear_ray.networks.mimi import Mimi

GOLDEN = Path(os.environ.get("SPEAR_GOLDEN_DIR") or Path(__file__).parents[1] / "golden") / "02_vap"

MIMI = {
    "model_type": "mimi", "hidden_size": 16, "num_filters": 2, "frame_rate": 12.5, "upsampling_ratios": [8, 6, 5, 4],
    "num_hidden_layers": 2, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
    "sliding_window": 6, "layer_scale_initial_scale": 0.5, "codebook_size": 8, "num_quantizers": 2,
}  # fmt: skip
QWEN = {
    "model_type": "qwen2", "vocab_size": 4, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "rope_theta": 1e6,
}  # fmt: skip


@dataclass
class Recorded:
    """One recorded network: its published-layout parts and what it gave."""

    name: str
    weights: dict[str, torch.Tensor]
    arrays: dict[str, np.ndarray]
    shapes: dict[str, list[int]]
    mimi: Path
    backbone: Path


def recorded(folder: Path) -> list[Recorded]:
    """Every recorded DualTurn, with config folders written under `folder`."""
    return [
        _recorded(case, file, folder / path.stem / file.stem)
        for path in sorted(GOLDEN.glob("dualturn*cases*.json"))
        for case in [json.loads(path.read_text())]
        for file in _files(case)
        if "mimi_projection" in _keys(file)
    ]


def golden_arrays() -> list[tuple[str, str]]:
    """Each (network, array) that the JSON files list."""
    return [
        (file.stem, array)
        for path in sorted(GOLDEN.glob("dualturn*cases*.json"))
        for case in [json.loads(path.read_text())]
        for file in _files(case)
        if "mimi_projection" in _keys(file)
        for array in case["shapes"]
    ]


def _files(case: dict) -> list[Path]:
    return [GOLDEN / name for name in case["weights"]]


def _keys(file: Path) -> str:
    with safe_open(file, "np") as weights:
        return " ".join(weights.keys())


def _recorded(case: dict, file: Path, folder: Path) -> Recorded:
    with np.load(file.with_suffix(".npz")) as arrays:
        given = dict(arrays)
    mimi = next(other for other in _files(case) if "encoder_transformer" in _keys(other))
    (folder / "mimi").mkdir(parents=True)
    shutil.copy(mimi, folder / "mimi" / "model.safetensors")
    config_folder(folder / "mimi", case["mimi_config"])
    return Recorded(
        name=file.stem,
        weights=load_file(file),
        arrays=given,
        shapes=case["shapes"],
        mimi=folder / "mimi",
        backbone=config_folder(folder / "backbone", case["qwen_config"]),
    )


def config_folder(folder: Path, config: dict) -> Path:
    """A folder with this config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def random_mimi(seed: int = 0, sliding_window: bool = True, **changes) -> Mimi:
    """A small Mimi with weights that make all of its parts matter."""
    torch.manual_seed(seed)
    return Mimi(MimiConfig.from_dict(MIMI | changes), sliding_window).eval()


def random_network(seed: int = 0, **parts) -> DualTurnNetwork:
    """A small network whose layer weights and heads matter."""
    torch.manual_seed(seed)
    network = DualTurnNetwork(Qwen2Config.from_dict(QWEN), DualTurnParts(feature_width=16, **parts)).eval()
    for name, parameter in network.named_parameters():
        if name.startswith("task_layer_weights"):
            parameter.data.normal_()
    return network


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Audio, float32."""
    return (0.1 * np.random.default_rng(seed).standard_normal(shape)).astype(np.float32)


def published(weights: dict[str, torch.Tensor], path: Path, **changes) -> Path:
    """A checkpoint in TurnNat's inference layout, with the copy of Mimi that the training ones carry."""
    copy = {"model._mimi_encoder.encoder.layers.0.conv.weight": torch.zeros(2, 1, 7)}
    saved = {
        "format": "turn-taking-naturalness-inference-v1",
        "model_state": weights | copy,
        "args": {"backbone": "dualturn", "lr": 5e-6},
        "epoch": 5,
        "global_step": 57000,
        "source_checkpoint": "last.pt",
        "experiment": "any",
    }
    torch.save(saved | changes, path)
    return path


def native_layout(weights: dict[str, torch.Tensor], folder: Path) -> Path:
    """The folder that DualTurn itself is published in: no outer name, its own around Qwen2's, no 256 classes."""
    folder.mkdir(parents=True)
    inner = {key.removeprefix("model."): value for key, value in weights.items() if not key.startswith("fvad_head_256")}
    save_file(
        {key.replace("backbone.", "backbone.model.", 1): value for key, value in inner.items()},
        folder / "model.safetensors",
    )
    return config_folder(folder, {"model_type": "dualturn_qwen_mimi"})


def published_names(network: DualTurnNetwork) -> dict[str, torch.Tensor]:
    """A network's tensors under the names of TurnNat's checkpoint, with the vocabulary that Qwen2 brings."""
    outer = ("fvad_head_256.", "task_layer_weights.")
    state = {
        key if key.startswith(outer) else "model." + key.replace("backbone.", "backbone.model.", 1): value
        for key, value in network.state_dict().items()
    }
    vocabulary = torch.zeros(QWEN["vocab_size"], QWEN["hidden_size"])
    state["model.backbone.model.embed_tokens.weight"] = vocabulary
    return state | {"model.backbone.lm_head.weight": vocabulary.clone()}


def mimi_folder(folder: Path, mimi: Mimi | None = None, **changes) -> Path:
    """Mimi's published folder, with tensors of the decoding half."""
    config_folder(folder, MIMI | changes)
    weights = (mimi or random_mimi(**changes)).state_dict()
    decoding = ("decoder.layers.0.conv.weight", "decoder_transformer.layers.0.mlp.fc1.weight", "upsample.conv.weight")
    others = {key: torch.zeros(1) for key in (*decoding, "quantizer.input_proj.weight")}
    save_file(weights | others, folder / "model.safetensors")
    return folder
