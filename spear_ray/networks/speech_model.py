"""What published speech encoders with a head have in common: clips in, named vectors out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import OutOfGpuMemory
from spear_ray.networks.batching import Precision, bucketed, lowered, run_halving
from spear_ray.networks.memo import Memo, Outputs, key_of

Encode = Callable[[Sequence[Samples]], list[Outputs]]


class SpeechModel(nn.Module):
    """A network that hears clips of 16 kHz.

    A clip's outputs do not depend on the others in its batch beyond the rounding of float32: padding is masked, or
    always the same.

    Attributes:
        precision: float32, or bfloat16 under autocast.
        batch_seconds: padded audio in one batch on a GPU.
        batch_clips: clips in one batch on a GPU.
    """

    longest_s: float | None = None
    """What is heard of a clip at most; None hears all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.precision: Precision = "fp32"
        self.batch_seconds = 480.0
        self.batch_clips = 256
        self._memo = Memo()

    @abstractmethod
    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch, float32 on the CPU."""

    def read(self, clips: Sequence[Samples]) -> list[Outputs | OutOfGpuMemory]:
        """Outputs of any number of clips, in their order.

        Args:
            clips: float32 [samples] at 16 kHz each.

        Returns:
            Outputs, or the error of a clip that does not fit the GPU by itself.
        """
        return self.remembered("clip", clips, self.encode)

    def remembered(self, kind: str, clips: Sequence[Samples], encode: Encode) -> list[Outputs | OutOfGpuMemory]:
        """As `read`, with another way to encode a batch; a clip that was heard before is not heard again.

        Args:
            kind: names the way.
            clips: float32 [samples] each.
            encode: outputs of one batch.
        """
        keys = [key_of(kind, clip) for clip in clips]
        found: dict[bytes, Outputs | OutOfGpuMemory] = {
            key: known for key in keys if (known := self._memo.get(key)) is not None
        }
        new = {key: clip for key, clip in zip(keys, clips, strict=True) if key not in found}
        for key, outputs in zip(new, self._read(list(new.values()), encode), strict=True):
            found[key] = outputs
            if not isinstance(outputs, OutOfGpuMemory):
                self._memo.put(key, outputs)
        return [found[key] for key in keys]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def _read(self, clips: Sequence[Samples], encode: Encode) -> list[Outputs | OutOfGpuMemory]:
        found: dict[int, Outputs | OutOfGpuMemory] = {}
        for places in self._batches([clip.size for clip in clips]):
            results = run_halving(lambda batch: self._guarded(batch, encode), [clips[place] for place in places])
            found |= dict(zip(places, results, strict=True))
        return [found[place] for place in range(len(clips))]

    def _guarded(self, clips: Sequence[Samples], encode: Encode) -> list[Outputs]:
        with torch.inference_mode(), lowered(self.precision, self.device):
            return encode(clips)

    def _batches(self, lengths: Sequence[int]) -> list[list[int]]:
        # A CPU gains nothing from batches, and a clip's last bits then never depend on its neighbours.
        if self.device.type == "cpu":
            return [[place] for place in range(len(lengths))]
        return list(bucketed(lengths, round(self.batch_seconds * SAMPLE_RATE_HZ), self.batch_clips))


def unbatched(outputs: Mapping[str, torch.Tensor]) -> list[Outputs]:
    """Tensors [clips, size] by name as one mapping for each clip."""
    arrays = {name: tensor.float().cpu().numpy() for name, tensor in outputs.items()}
    count = len(next(iter(arrays.values())))
    return [{name: array[row].copy() for name, array in arrays.items()} for row in range(count)]
