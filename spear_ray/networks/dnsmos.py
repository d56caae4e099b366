"""DNSMOS: estimates of listeners' ratings of signal, background and overall quality, from shipped weights.

Made for noise suppression; what it is not: a measure of naturalness in conversation. Sources: Reddy et al. 2021 (P.808)
and 2022 (P.835); the ONNX files are those of the package `speechmos` (MIT).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples

SECONDS = 9.01
"""Of a segment (package, INPUT_LENGTH); the next one begins 1 s later."""
SAMPLES = int(SECONDS * SAMPLE_RATE_HZ)
BATCH = 8
"""Segments of one clip in one call."""
POLYNOMIALS = {
    "sig": (-0.08397278, 1.22083953, 0.0052439),
    "bak": (-0.13166888, 1.60915514, -0.39604546),
    "ovrl": (-0.06766283, 1.11546468, 0.04602535),
}
"""From the P.835 network's outputs to the rating scale, highest power first (package, get_polyfit_val)."""
MELS, WINDOW, HOP, TAIL = 120, 321, 160, 160
"""Of the P.808 network's log-mel input; it hears a segment without its last 160 samples (package, audio_melspec)."""

Floats = npt.NDArray[np.float32]


class Dnsmos:
    """Both networks, in sessions of our own.

    Args:
        threads: of ONNX Runtime within one call.
    """

    def __init__(self, threads: int = 1) -> None:
        import onnxruntime
        import speechmos

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        folder = Path(str(speechmos.__file__)).parent / "dnsmos_models"
        self._rating, self._p808 = (
            onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
            for name in ("sig_bak_ovr.onnx", "model_v8.onnx")
        )

    def scores(self, clip: Samples) -> dict[str, float]:
        """Ratings of one clip, means over its segments, about 1 to 5.

        Args:
            clip: float32 [samples] at 16 kHz, within full scale.

        Returns:
            `sig`, `bak`, `ovrl` (P.835) and `p808`.
        """
        cut = segments(clip)
        parts = [self._batch(cut[first : first + BATCH]) for first in range(0, len(cut), BATCH)]
        return {name: float(np.mean(np.concatenate([part[name] for part in parts]))) for name in parts[0]}

    def _batch(self, cut: Sequence[Samples]) -> Mapping[str, Any]:
        raw = self._rating.run(None, {"input_1": np.stack(cut)})[0]
        mels = np.stack([log_mel(segment[:-TAIL]) for segment in cut])
        found = {name: np.polyval(POLYNOMIALS[name], raw[:, place]) for place, name in enumerate(POLYNOMIALS)}
        return {**found, "p808": self._p808.run(None, {"input_1": mels})[0][:, 0]}


def segments(clip: Samples) -> list[Samples]:
    """A clip as the package cuts it: a short one is repeated until it is long enough, by doubling.

    Edges are computed in float seconds as there: a segment that rounding makes one sample short is left out.
    """
    while clip.size < SAMPLES:
        clip = np.append(clip, clip)
    hops = int(np.floor(clip.size / SAMPLE_RATE_HZ) - SECONDS) + 1
    cut = [clip[int(place * SAMPLE_RATE_HZ) : int((place + SECONDS) * SAMPLE_RATE_HZ)] for place in range(hops)]
    return [segment for segment in cut if segment.size >= SAMPLES]


def log_mel(audio: Samples) -> Floats:
    """The P.808 network's input: [frames, 120], in units of 40 dB around 40 dB below the maximum."""
    import librosa

    energies = librosa.feature.melspectrogram(y=audio, sr=SAMPLE_RATE_HZ, n_fft=WINDOW, hop_length=HOP, n_mels=MELS)
    scaled: Floats = ((librosa.power_to_db(energies, ref=np.max) + 40) / 40).T.astype(np.float32)
    return scaled
