"""Speed of the encoder scorers, for `make speed` (CPU, small sizes) and `make gpu-check` (published sizes).

Weights are random: what the scorers say means nothing, how long it takes does.
"""

import time
from typing import Any

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, WhisperConfig

from spear_ray.dialogue import Dialogue, Status
from spear_ray.networks.language import ClassifiedLanguage
from spear_ray.networks.settings import placed
from spear_ray.networks.speech_model import SpeechModel
from spear_ray.networks.trace import Trace
from spear_ray.networks.trace_layers import TraceSizes
from spear_ray.networks.whisper_profile import POSITIONS, WhisperProfile
from spear_ray.scorers import Scorer, scorer_type
from tests.clips import dialogue_of, speech

QUESTION_S, ANSWER_S = 14.0, 9.0
"""About the means of SPEARBench; questions that are heard in one part."""

LARGE_V3 = {
    "d_model": 1280, "encoder_layers": 32, "encoder_attention_heads": 20, "encoder_ffn_dim": 5120, "num_mel_bins": 128,
}  # fmt: skip
"""whisper-large-v3's encoder (its published config.json)."""
MMS_1B = {
    "hidden_size": 1280, "num_hidden_layers": 48, "num_attention_heads": 16, "intermediate_size": 5120,
    "do_stable_layer_norm": True, "feat_extract_norm": "layer", "conv_bias": True,
}  # fmt: skip
"""MMS-LID's encoder (its published config.json)."""
SMALL_WHISPER = {
    "d_model": 128, "encoder_layers": 4, "encoder_attention_heads": 2, "encoder_ffn_dim": 512, "num_mel_bins": 80,
}  # fmt: skip
SMALL_WAVE = MMS_1B | {"hidden_size": 128, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 512}
DIMENSIONS = {"arousal_layer": 1, "valence_layer": 1, "dominance_layer": 1}


def whisper(full: bool, sizes: dict[str, int]) -> WhisperProfile:
    """Vox-Profile or VoxLect with random weights."""
    torch.manual_seed(0)
    config = WhisperConfig(**(LARGE_V3 if full else SMALL_WHISPER), max_source_positions=POSITIONS)
    return WhisperProfile(config, 256 if full else 32, sizes).eval().requires_grad_(False)


def languages(full: bool) -> ClassifiedLanguage:
    """MMS-LID with random weights, sure of English so that dialects are heard too."""
    torch.manual_seed(0)
    names = ["eng", *(f"l{number:03d}" for number in range(125))]
    labels = {"id2label": dict(enumerate(names)), "label2id": {name: place for place, name in enumerate(names)}}
    sizes = MMS_1B if full else SMALL_WAVE
    config = Wav2Vec2Config(**sizes, **labels, mask_time_prob=0.0, apply_spec_augment=False)
    model = Wav2Vec2ForSequenceClassification(config)
    with torch.no_grad():
        model.classifier.bias[0] += 30.0
    return ClassifiedLanguage(model, normalises=True).eval().requires_grad_(False)


def scorer(name: str, full: bool, precision: str) -> Scorer[Any]:
    """`emotion` or `dialect` with models put in by hand."""
    kind = scorer_type(name)
    config = kind.config_type(precision=precision)
    for key in ("dimensions_model", "language_model", "dialect_model"):
        if hasattr(config, key):
            setattr(config, key, "none")
    made: Any = kind(config)
    made.setup()
    if name == "emotion":
        made._model = placed(whisper(full, DIMENSIONS), config)
        torch.manual_seed(0)
        made._trace = Trace(TraceSizes(kind="llama", inputs=made._model.vector_width)).eval().to(made._model.device)
    else:
        made._language = placed(languages(full), config)
        made._dialect = placed(whisper(full, {"out_layer": 16}), config)
    return made


def exchanges(count: int) -> list[Dialogue]:
    """Dialogues of SPEARBench's mean length; no two share a question."""
    turns = [(speech(QUESTION_S + 0.01 * n), speech(ANSWER_S + 0.01 * n, voice=1)) for n in range(count)]
    return [dialogue_of(name=f"d{n}", question=question, answer=answer) for n, (question, answer) in enumerate(turns)]


def hours_per_hour(made: Scorer[Any], batch: list[Dialogue]) -> float:
    """Audio (question and answer) scored in a second of wall time, once warm; every row must be ok."""
    made.score(batch[:2])
    forget(made)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    begun = time.perf_counter()
    rows = made.score(batch)
    spent = time.perf_counter() - begun
    assert all(row.status == Status.OK for row in rows)
    return sum(one.seconds for one in batch) / spent


def forget(made: Scorer[Any]) -> None:
    """Empty the models' memory, so that nothing is remembered from the warm-up."""
    for model in vars(made).values():
        if isinstance(model, SpeechModel):
            model._memo._known.clear()
            model._memo._bytes = 0


def cpu() -> None:
    """The small sizes on this machine's CPU."""
    for name in ("emotion", "dialect"):
        speed = hours_per_hour(scorer(name, full=False, precision="fp32"), exchanges(8))
        print(f"{name}: {speed:.1f} x real time on the CPU at a SMALL size (4 layers of 128), not the published one")


if __name__ == "__main__":
    cpu()
