"""`spear-ray checkpoints convert`: a fine-tuned judge as vLLM reads it.

Training tools save only the thinker of Qwen2.5-Omni, the half that hears and writes; vLLM's model class looks for it
inside the whole model. The tensors stay bit for bit what they were, only their names change.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spear_ray.checkpoints.hub import CONFIG, INDEX, WEIGHTS
from spear_ray.errors import PrerequisiteError

THINKER, WHOLE = "qwen2_5_omni_thinker", "qwen2_5_omni"
PREFIX = "thinker."
ARCHITECTURE = "Qwen2_5OmniForConditionalGeneration"
OF_THINKER = ("model.", "lm_head.", "audio_tower.", "visual.")
"""What the names of a thinker's tensors begin with."""
TOKENS = ("tokenizer.json", "tokenizer_config.json", "preprocessor_config.json")
"""Without these a judge cannot read or hear."""
BESIDE = (
    *TOKENS, "processor_config.json", "chat_template.json", "chat_template.jinja", "vocab.json", "merges.txt",
    "added_tokens.json", "special_tokens_map.json", "generation_config.json",
)  # fmt: skip


def convert(source: Path, target: Path, base: Path | None = None) -> int:
    """Write a thinker-only checkpoint as a whole one.

    Args:
        source: folder with a thinker's config.json and safetensors.
        target: folder to write; must not exist, or be empty.
        base: folder to take tokenizer, processor and chat template from where `source` lacks them.

    Returns:
        How many tensors were written.

    Raises:
        PrerequisiteError: `source` is no thinker, `target` is in use, or neither folder has a file that a judge needs.
    """
    thinker = _thinker_config(source)
    shards = _shards(source)
    beside = _beside(source, base)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise PrerequisiteError(f"{target} is not an empty folder: name another one")
    target.mkdir(parents=True, exist_ok=True)
    names = {shard.name: _rewrite(shard, target / shard.name) for shard in shards}
    if len(shards) > 1 or shards[0].name != WEIGHTS:
        _write_json(target / INDEX, _index(names, target))
    for path in beside:
        shutil.copyfile(path, target / path.name)
    _write_json(target / CONFIG, _whole_config(thinker))
    return sum(len(of_shard) for of_shard in names.values())


def _thinker_config(source: Path) -> dict[str, Any]:
    path = source / CONFIG
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise PrerequisiteError(f"{path} does not exist: give the folder of a fine-tuned thinker") from None
    except ValueError as error:
        raise PrerequisiteError(f"{path} is not JSON: {error}") from error
    kind = found.get("model_type") if isinstance(found, dict) else None
    if kind == WHOLE:
        raise PrerequisiteError(f"{path} says {WHOLE}: vLLM reads this checkpoint as it is")
    if kind != THINKER:
        raise PrerequisiteError(f"{path} says model_type '{kind}': only {THINKER} is converted")
    return dict(found)


def _shards(source: Path) -> list[Path]:
    """The weight files, all of those that the index names where there is one."""
    index = source / INDEX
    if index.is_file():
        listed = json.loads(index.read_bytes()).get("weight_map", {})
        found = [source / name for name in sorted(set(listed.values())) if "/" not in name]
        absent = [path.name for path in found if not path.is_file()]
    else:
        found, absent = [source / WEIGHTS], [] if (source / WEIGHTS).is_file() else [WEIGHTS]
    if absent or not found:
        raise PrerequisiteError(f"{source} has no {', '.join(absent) or 'weights'}: only safetensors are read")
    return found


def _beside(source: Path, base: Path | None) -> list[Path]:
    folders = [source] + ([base] if base else [])
    found = {name: folder / name for name in BESIDE for folder in folders[::-1] if (folder / name).is_file()}
    absent = [name for name in TOKENS if name not in found]
    if absent:
        text = f"{source} has no {', '.join(absent)}: name a folder that has, that of the model it was tuned from"
        raise PrerequisiteError(f"{text}: spear-ray checkpoints convert SOURCE TARGET BASE")
    return list(found.values())


def _rewrite(shard: Path, target: Path) -> list[str]:
    """One file with new names; returns these."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    try:
        tensors = load_file(shard)
    except SafetensorError as error:
        raise PrerequisiteError(f"{shard} cannot be read as safetensors: {error}") from error
    strange = [name for name in tensors if not name.startswith(OF_THINKER)]
    if strange:
        raise PrerequisiteError(f"{shard} holds tensors that are not a thinker's: {', '.join(strange[:5])}")
    renamed = {PREFIX + name: tensor for name, tensor in tensors.items()}
    save_file(renamed, target, metadata={"format": "pt"})
    return list(renamed)


def _index(names: Mapping[str, list[str]], target: Path) -> dict[str, Any]:
    size = sum((target / name).stat().st_size for name in names)
    weights = dict(_places(names))
    return {"metadata": {"total_size": size}, "weight_map": weights}


def _places(names: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    for shard, tensors in names.items():
        for tensor in tensors:
            yield tensor, shard


def _whole_config(thinker: Mapping[str, Any]) -> dict[str, Any]:
    """The whole model's configuration: it does not speak, so that nobody looks for the parts that do."""
    inner = {key: value for key, value in thinker.items() if key not in ("architectures", "transformers_version")}
    return {
        "architectures": [ARCHITECTURE],
        "model_type": WHOLE,
        "enable_audio_output": False,
        "enable_talker": False,
        "thinker_config": inner,
        **{key: thinker[key] for key in ("dtype", "torch_dtype", "transformers_version") if key in thinker},
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n")
