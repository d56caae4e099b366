"""DualTurn with its Mimi: from 24 kHz audio of two channels to logits at 12.5 Hz.

Source: arXiv 2603.08216 (DualTurn), with TurnNat's head of 256 classes; see `spear_ray.networks.dualturn_network`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from spear_ray.dialogue import Samples
from spear_ray.errors import AudioChannels, AudioEmpty
from spear_ray.networks.dualturn_network import DualTurnNetwork
from spear_ray.networks.mimi import Mimi


class DualTurn(nn.Module):
    """DualTurn with its Mimi: from audio to logits.

    Args:
        mimi: gives the features.
        network: reads them.
    """

    def __init__(self, mimi: Mimi, network: DualTurnNetwork) -> None:
        super().__init__()
        self.mimi = mimi
        self.network = network

    @torch.inference_mode()
    def features(self, audio24: Sequence[Samples]) -> list[torch.Tensor]:
        """Mimi features of both channels, for each dialogue float32 [T_i, 2D]; arguments as `frame_logits`."""
        device = self.network.fvad_head.weight.device
        rows = [torch.from_numpy(_checked(audio)).to(device) for audio in audio24]
        return [channels.transpose(0, 1).flatten(1) for channels in self.mimi.features(rows)]

    @torch.inference_mode()
    def frame_logits(
        self, audio24: Sequence[Samples], native: bool = False, bf16: bool | None = None
    ) -> list[np.ndarray]:
        """Logits of the next 2 s of voice activity for each 80 ms frame of several dialogues, in one batch.

        Every dialogue comes out as it would alone, to 1e-5 in float32. Memory grows with the longest times their
        number, so batch dialogues of like length.

        Args:
            audio24: each float32 [2, N_i] at 24 kHz, at least one sample.
            native: 8 bits instead of 256 classes, see `DualTurnNetwork.fvad_logits`.
            bf16: bfloat16 autocast of the backbone (never of Mimi); by default on CUDA. It moves logits by well under
                1 % of their spread on average. Measured on a CPU with random weights: 3 layers of 32, spread 0.33,
                mean 0.0008, most 0.0038; 24 layers of 256, spread 0.42, mean 0.0025, most 0.014.

        Returns:
            For each, float32 [T_i, 256] or [T_i, 8], T_i = ceil(N_i / 1920).

        Raises:
            AudioChannels: not two channels.
            AudioEmpty: no samples.
            PrerequisiteError: the checkpoint has no head of 256 classes.
        """
        if not audio24:
            return []
        features = self.features(audio24)
        padded = pad_sequence(features, batch_first=True)
        half = padded.device.type == "cuda" if bf16 is None else bf16
        logits = self.network.fvad_logits(padded, native, half).cpu().numpy()
        return [rows[: len(frames)] for rows, frames in zip(logits, features, strict=True)]


def _checked(audio: Samples) -> Samples:
    if audio.ndim != 2 or audio.shape[0] != 2:
        raise AudioChannels(f"DualTurn needs audio of shape [2, samples], not {list(audio.shape)}")
    if not audio.shape[1]:
        raise AudioEmpty("DualTurn needs at least one sample, the audio has none")
    return np.ascontiguousarray(audio, dtype=np.float32)
