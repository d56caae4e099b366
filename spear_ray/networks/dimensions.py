"""Any published model of arousal, valence and dominance, told apart by its tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spear_ray.errors import PrerequisiteError
from spear_ray.networks.profile_checkpoint import is_profile, profile_in
from spear_ray.networks.profile_heads import DIMENSIONS, HEADS
from spear_ray.networks.regression import audeering_of, odyssey_of
from spear_ray.networks.speech_model import SpeechModel
from spear_ray.networks.tensors import WEIGHTS, read_config, read_safetensors


def load_dimensions(folder: Path, fetch: str, **backbone: Any) -> SpeechModel:
    """A model whose outputs have `arousal`, `valence` and `dominance`, each float32 [1].

    Args:
        folder: of a Vox-Profile model (Whisper or WavLM), of audeering's or of 3loi's.
        fetch: what to do to have it, for the message.
        backbone: what is known of the encoder besides its tensors, in transformers' names.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: damaged, of another kind, or with other tensors than it must have.
    """
    tensors = read_safetensors(folder / WEIGHTS, fetch)
    source = str(folder / WEIGHTS)
    if is_profile(tensors):
        wanted = [name for name, output in HEADS.items() if output in DIMENSIONS]
        if lacking := [name for name in wanted if f"{name}.2.weight" not in tensors]:
            raise PrerequisiteError(f"{source} has no {', '.join(lacking)}: it is no model of {', '.join(DIMENSIONS)}")
        return profile_in(folder, tensors, fetch, **backbone)
    if "ssl_model.encoder.layer_norm.weight" in tensors:
        return odyssey_of(tensors, read_config(folder, "ser", fetch), source, **backbone)
    if "classifier.dense.weight" in tensors and "wav2vec2.encoder.layer_norm.weight" in tensors:
        return audeering_of(tensors, read_config(folder, "wav2vec2", fetch), source)
    raise PrerequisiteError(f"{source} is no known model of {', '.join(DIMENSIONS)}: {fetch}")
