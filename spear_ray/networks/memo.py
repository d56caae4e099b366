"""Remembers what a network said of a clip: the same question is heard once for all systems that answer it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping

import numpy as np

from spear_ray.dialogue import Samples

Outputs = Mapping[str, np.ndarray]
"""Name of a head to float32 [size]; `features` is the pooled vector before the heads."""

MOST_BYTES = 256 << 20


class Memo:
    """Outputs by a clip's content; the least recently used go first.

    Args:
        most_bytes: of all outputs together.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._bytes = 0
        self._known: OrderedDict[bytes, Outputs] = OrderedDict()

    def get(self, key: bytes) -> Outputs | None:
        """What is known under a key of `key_of`."""
        found = self._known.get(key)
        if found is not None:
            self._known.move_to_end(key)
        return found

    def put(self, key: bytes, outputs: Outputs) -> None:
        """Remember, and forget what no longer fits."""
        if key not in self._known:
            self._known[key] = outputs
            self._bytes += _size(outputs)
        while self._bytes > self.most_bytes:
            self._bytes -= _size(self._known.popitem(last=False)[1])


def key_of(kind: str, clip: Samples) -> bytes:
    """Of a clip's samples and the way in which they are heard."""
    return hashlib.blake2b(np.ascontiguousarray(clip).data, digest_size=16, key=kind.encode()).digest()


def _size(outputs: Outputs) -> int:
    return sum(array.nbytes for array in outputs.values())
