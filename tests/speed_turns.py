"""Speed of the turn-taking predictors, for `make speed` (CPU) and `make gpu-check`.

VAP and DualTurn have their published sizes and random weights: what they say means nothing, how long it takes does.
"""

import time
from collections.abc import Callable

import numpy as np
import torch
from transformers import MimiConfig, Qwen2Config

from spear_ray.networks.dualturn import DualTurn
from spear_ray.networks.dualturn_network import DualTurnNetwork, DualTurnParts
from spear_ray.networks.mimi import Mimi
from spear_ray.networks.vap import Vap
from spear_ray.networks.vap_layers import VapSizes
from spear_ray.turntaking.predictors import Clip, PredictorConfig, make_predictor
from tests.turntaking.talk import talk

DIALOGUES = 2000
CLIP_S = 22.5
AUDIO_S = 24.0
ASKED_FOR = 1000
QWEN_05B = {
    "vocab_size": 8,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "rope_theta": 1e6,
}
"""Qwen2.5-0.5B without its vocabulary, which DualTurn does not use."""


def timing() -> None:
    """Dialogues per second and core, once it is known who speaks when."""
    predictor = make_predictor(PredictorConfig())
    predictor.setup()
    whole = [talk(seed, seconds=240) for seed in range(20)]
    rng = np.random.default_rng(0)
    clips = []
    for number in range(DIALOGUES):
        start_s = float(rng.uniform(0, 240 - CLIP_S))
        clips.append(Clip(whole[number % len(whole)].crop(start_s, start_s + CLIP_S)))
    predictor.assess(clips[:10])
    begun = time.process_time()
    found = predictor.assess(clips)
    spent = time.process_time() - begun
    scored = sum(one is not None for one in found)
    print(
        f"timing: {scored} of {DIALOGUES} dialogues of {CLIP_S:g} s, {DIALOGUES / spent:.0f} per second of CPU time"
        f" (asked for: at least {ASKED_FOR}); voice activity not counted"
    )


def full_vap() -> Vap:
    """Published size, random weights."""
    torch.manual_seed(0)
    return Vap(VapSizes()).eval()


def full_dualturn() -> DualTurn:
    """Published sizes, random weights."""
    torch.manual_seed(0)
    network = DualTurnNetwork(
        Qwen2Config(**QWEN_05B), DualTurnParts(feature_width=512, classes=True, layer_weights=True)
    )
    return DualTurn(Mimi(MimiConfig()), network).eval()


def sound(rate_hz: int, seconds: float = AUDIO_S, seed: int = 0) -> np.ndarray:
    """Noise, float32 [2, samples]."""
    samples = round(seconds * rate_hz)
    return 0.05 * np.random.default_rng(seed).standard_normal((2, samples), dtype=np.float32)


def networks() -> None:
    """VAP and DualTurn on the CPU, once warm."""
    vap, dualturn = full_vap(), full_dualturn()
    at16, at24 = sound(16_000), sound(24_000)
    report("vap", "CPU, float32", lambda: vap.stream(at16), AUDIO_S)
    report("dualturn", "CPU, float32", lambda: dualturn.frame_logits([at24]), AUDIO_S)


def report(name: str, where: str, work: Callable[[], object], seconds: float) -> None:
    """Run twice, time the second."""
    work()
    begun = time.perf_counter()
    work()
    spent = time.perf_counter() - begun
    print(f"{name}: {seconds / spent:.1f} x real time ({where}, published size, random weights)")
