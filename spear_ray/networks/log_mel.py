"""Whisper's log-mel spectrogram on the device that the encoder runs on."""

from __future__ import annotations

import torch
from torch import nn
from transformers.audio_utils import mel_filter_bank

from spear_ray.dialogue import SAMPLE_RATE_HZ

WINDOW = 400
"""Samples of an analysis window: 25 ms (Radford et al. 2022, section 2.2)."""
HOP = 160
"""Samples from one frame to the next: 10 ms (ibid.)."""
TOP_HZ = 8000.0
POWER_FLOOR = 1e-10
RANGE = 8.0
"""What lies more than this many powers of ten below the clip's maximum is raised to it (Whisper's reference code)."""


class LogMel(nn.Module):
    """Log-mel energies, each clip scaled by its own maximum.

    Args:
        mels: number of mel bands: 128 for whisper-large-v3, 80 for the smaller ones.
    """

    filters: torch.Tensor
    window: torch.Tensor

    def __init__(self, mels: int) -> None:
        super().__init__()
        filters = mel_filter_bank(WINDOW // 2 + 1, mels, 0.0, TOP_HZ, SAMPLE_RATE_HZ, norm="slaney", mel_scale="slaney")
        # Made anew on each load, so they are no part of a checkpoint.
        self.register_buffer("filters", torch.from_numpy(filters.T.copy()).float(), persistent=False)
        self.register_buffer("window", torch.hann_window(WINDOW), persistent=False)

    def forward(self, waves: torch.Tensor) -> torch.Tensor:
        """Log-mel frames.

        Args:
            waves: float32 [clips, samples] at 16 kHz.

        Returns:
            float32 [clips, mels, samples // 160].
        """
        # Energies span eight powers of ten: in float32 also where the encoder runs in bf16.
        with torch.autocast(waves.device.type, enabled=False):
            spectrum = torch.stft(waves.float(), WINDOW, HOP, window=self.window, return_complex=True)
            power = spectrum[..., :-1].abs().square()
            logs = (self.filters @ power).clamp(min=POWER_FLOOR).log10()
        floor = logs.amax(dim=(1, 2), keepdim=True) - RANGE
        scaled: torch.Tensor = (torch.maximum(logs, floor) + 4.0) / 4.0
        return scaled
