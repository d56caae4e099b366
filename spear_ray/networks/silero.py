"""Silero's voice activity detector, from the weights that its package ships."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version as package_version
from importlib.util import find_spec

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import PrerequisiteError
from spear_ray.timing.segments import Segment


@dataclass(kw_only=True)
class SpeechSettings:
    """Silero's own parameters.

    Args:
        threshold: speech probability at which speech begins (it ends 0.15 below).
        min_speech_ms: shorter speech is dropped.
        min_silence_ms: shorter silence does not end speech.
        pad_ms: added to both ends of each segment.
    """

    threshold: float = 0.5
    min_speech_ms: int = 250
    min_silence_ms: int = 100
    pad_ms: int = 30


class Silero:
    """The sequence model: one ONNX call per 16 s of audio, sample-exact."""

    def __init__(self) -> None:
        from silero_vad import load_silero_vad

        self._model = load_silero_vad(sequence=True)

    @staticmethod
    def missing() -> PrerequisiteError | None:
        """What is not installed, if anything."""
        for module, package in (("silero_vad", "silero-vad"), ("onnxruntime", "onnxruntime")):
            if find_spec(module) is None:
                return PrerequisiteError(f"voice activity needs {package}: pip install {package}")
        return None

    @staticmethod
    def version() -> str:
        """Of the package, and so of the weights."""
        return package_version("silero-vad")

    def speech(self, samples: Samples, settings: SpeechSettings, grid: bool = False) -> list[Segment]:
        """Speech segments of one channel, in seconds, at sample resolution unless `grid`.

        Args:
            samples: float32 [samples] at 16 kHz.
            settings: Silero's parameters.
            grid: round to 0.1 s.
        """
        from silero_vad import get_speech_timestamps_sequence

        if not samples.size:
            return []
        found = get_speech_timestamps_sequence(
            samples,
            self._model,
            threshold=settings.threshold,
            sampling_rate=SAMPLE_RATE_HZ,
            min_speech_duration_ms=settings.min_speech_ms,
            min_silence_duration_ms=settings.min_silence_ms,
            speech_pad_ms=settings.pad_ms,
            return_seconds=grid,
        )
        unit = 1 if grid else SAMPLE_RATE_HZ
        return [Segment(item["start"] / unit, item["end"] / unit) for item in found]
