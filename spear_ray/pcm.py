"""Samples as 16-bit PCM, for servers that take files."""

from __future__ import annotations

import io
import wave

import numpy as np

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples

FULL_SCALE = 32768


def on_16_bits(samples: Samples) -> Samples:
    """The nearest samples that 16-bit PCM can hold: a file of them is no other audio.

    Args:
        samples: float32, 1.0 is full scale; what lies beyond is clipped.
    """
    steps = np.clip(np.round(samples * np.float32(FULL_SCALE)), -FULL_SCALE, FULL_SCALE - 1)
    return (steps / FULL_SCALE).astype(np.float32)


def wav(samples: Samples) -> bytes:
    """A 16-bit WAV file of samples [samples] at 16 kHz."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(SAMPLE_RATE_HZ)
        file.writeframes((on_16_bits(samples) * FULL_SCALE).astype("<i2").tobytes())
    return buffer.getvalue()
