"""Vox-Profile on WavLM and VoxLect on wav2vec2 (MMS), on transformers 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from transformers import Wav2Vec2Config, Wav2Vec2Model, WavLMConfig, WavLMModel

from spear_ray.dialogue import Samples
from spear_ray.networks.memo import Outputs
from spear_ray.networks.profile_heads import ProfileHead
from spear_ray.networks.speech_model import SpeechModel, unbatched
from spear_ray.networks.waves import Waves, frames_of, normalised

SECONDS = 15.0


class WaveProfile(SpeechModel):
    """A weighted sum over the encoder's layers, then the head.

    transformers 5 gives the last of `hidden_states` before the encoder's final layer norm, 4.x gave it after; the
    models were trained on the latter, so it is put in its place.

    Args:
        config: of the encoder.
        width: of the head.
        sizes: of the head's outputs; see `ProfileHead`.
        with_input: whether the sum begins with the input of the first layer.
    """

    longest_s = SECONDS

    def __init__(
        self, config: WavLMConfig | Wav2Vec2Config, width: int, sizes: Mapping[str, int], with_input: bool = True
    ) -> None:
        super().__init__()
        # Both are Wav2Vec2Config's kin; WavLM has relative positions.
        self.backbone = WavLMModel(config) if isinstance(config, WavLMConfig) else Wav2Vec2Model(config)
        self.with_input = with_input
        self.weights = torch.nn.Parameter(torch.zeros(config.num_hidden_layers + with_input), requires_grad=False)
        self.head = ProfileHead(config.hidden_size, width, sizes)

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch; of each clip the first 15 s are heard."""
        waves = normalised(clips, SECONDS, self.device)
        frames = self.layered(waves)
        return unbatched(self.head(frames, frames_of(self.backbone, waves.lengths)))

    def layered(self, waves: Waves) -> torch.Tensor:
        """[clips, frames, hidden]: the layers' weighted sum."""
        found = self.backbone(waves.values, attention_mask=waves.mask, output_hidden_states=True)
        layers = torch.stack([*found.hidden_states[:-1], found.last_hidden_state])
        layers = layers if self.with_input else layers[1:]
        return (layers.float() * self.weights.softmax(0)[:, None, None, None]).sum(0)
