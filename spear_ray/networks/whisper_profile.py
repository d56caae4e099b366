"""Vox-Profile and VoxLect on Whisper's encoder, on transformers 5."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import OutOfGpuMemory
from spear_ray.networks.batching import padded
from spear_ray.networks.log_mel import HOP, LogMel
from spear_ray.networks.memo import Outputs
from spear_ray.networks.profile_heads import ProfileHead
from spear_ray.networks.speech_model import SpeechModel, unbatched

POSITIONS = 750
"""Encoder positions that these models use: 15 s."""
SECONDS = 15.0
MEL_FRAMES = 2 * POSITIONS


class WhisperProfile(SpeechModel):
    """Hears the first 15 s of a clip, padded with silence to 15 s.

    Args:
        config: of the encoder, with 750 positions.
        width: of the head.
        sizes: of the head's outputs; see `ProfileHead`.
    """

    longest_s = SECONDS

    def __init__(self, config: WhisperConfig, width: int, sizes: Mapping[str, int]) -> None:
        super().__init__()
        self.batch_clips = round(self.batch_seconds / SECONDS)  # each clip costs 15 s, however short
        self.encoder = WhisperEncoder(config)
        self.head = ProfileHead(config.d_model, width, sizes)
        self.log_mel = LogMel(config.num_mel_bins)

    @property
    def vector_width(self) -> int:
        """Of `vectors`."""
        return int(self.encoder.config.d_model)

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch; a clip's frames are those of its first 15 s."""
        mels = self.log_mel(padded(clips, round(SECONDS * SAMPLE_RATE_HZ), self.device))
        lengths = torch.tensor([own_frames(clip.size) for clip in clips])
        return unbatched(self.head(self.encoder(mels).last_hidden_state, lengths))

    def read_windows(self, windows: Sequence[Samples]) -> list[Outputs | OutOfGpuMemory]:
        """`encode_windows` of any number of windows, in their order.

        Args:
            windows: float32 [samples] each, all of one length.
        """
        return self.remembered("window", windows, self.encode_windows)

    def encode_windows(self, windows: Sequence[Samples]) -> list[Outputs]:
        """What TRACE hears of windows of equal length (3 s).

        Differs from `encode`: the spectrogram is made of the window alone and continued with zeros, not with the
        spectrogram of silence, and the vector is the mean over all 750 frames (TRACE's published feature extraction).

        Args:
            windows: float32 [samples] each, all of one length.

        Returns:
            For each window `vector` float32 [vector_width] and the head's outputs over the window's own frames.
        """
        mels = self.log_mel(padded(windows, windows[0].size, self.device))
        mels = torch.nn.functional.pad(mels, (0, MEL_FRAMES - mels.shape[-1]))
        hidden = self.encoder(mels).last_hidden_state
        lengths = torch.full((len(windows),), own_frames(windows[0].size))
        return unbatched({"vector": hidden.float().mean(1), **self.head(hidden, lengths)})


def own_frames(samples: int) -> int:
    """Encoder frames of a clip, at most 750: the mel frames go through a convolution of stride 2.

    Args:
        samples: of the clip at 16 kHz, at least one mel frame (160).
    """
    return int(np.clip((samples // HOP - 1) // 2 + 1, 1, POSITIONS))
