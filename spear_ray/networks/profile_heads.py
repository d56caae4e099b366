"""The head of Vox-Profile and VoxLect models: three pointwise convolutions, a mean over time, small classifiers.

Source: Vox-Profile (arXiv 2505.14648) and VoxLect (arXiv 2508.01691) and their published code: all heads read the
same pooled vector; arousal, valence and dominance end in a sigmoid.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

HEADS: Mapping[str, str] = {
    "out_layer": "logits",
    "emotion_layer": "emotion_logits",
    "detailed_out_layer": "detailed_logits",
    "arousal_layer": "arousal",
    "valence_layer": "valence",
    "dominance_layer": "dominance",
}
"""Name of a head in the checkpoints to that of its output."""

DIMENSIONS = ("arousal", "valence", "dominance")
"""Outputs in (0, 1)."""

DROPOUT = 0.1


class ProfileHead(nn.Module):
    """From an encoder's frames to named outputs.

    Args:
        hidden: width of the encoder.
        width: of the convolutions.
        sizes: for each head its number of outputs; a name of `HEADS` to a number.
    """

    def __init__(self, hidden: int, width: int, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.model_seq = nn.Sequential(
            nn.Conv1d(hidden, width, 1), nn.ReLU(), nn.Dropout(DROPOUT),
            nn.Conv1d(width, width, 1), nn.ReLU(), nn.Dropout(DROPOUT),
            nn.Conv1d(width, width, 1),
        )  # fmt: skip
        for name, size in sizes.items():
            self.add_module(name, nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, size)))
        self.sizes = dict(sizes)

    def forward(self, frames: torch.Tensor, lengths: torch.Tensor) -> dict[str, torch.Tensor]:
        """Outputs of each clip.

        Args:
            frames: [clips, frames, hidden].
            lengths: int [clips]: how many of its frames are the clip's own.

        Returns:
            `features` [clips, width] and each head's output [clips, size].
        """
        mapped = self.model_seq(frames.transpose(1, 2)).float()
        pooled = true_mean(mapped.transpose(1, 2), lengths)
        found = {HEADS[name]: self.get_submodule(name)(pooled).float() for name in self.sizes}
        found |= {name: found[name].sigmoid() for name in DIMENSIONS if name in found}
        return {"features": pooled, **found}


def true_mean(frames: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Mean over each clip's own frames.

    Args:
        frames: [clips, frames, width].
        lengths: int [clips].

    Returns:
        [clips, width].
    """
    own = torch.arange(frames.shape[1], device=frames.device)[None] < lengths.to(frames.device)[:, None]
    return (frames * own[..., None]).sum(1) / own.sum(1, keepdim=True)
