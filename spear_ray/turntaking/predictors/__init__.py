"""Models of natural talk that say how surprising a dialogue's timing is, behind one face.

Which one is `predictor` in the configuration of `turn_taking`; each has settings of its own.
"""

from __future__ import annotations

from spear_ray.errors import ConfigError
from spear_ray.turntaking.predictors.base import Assessment, Boundary, Clip, Predictor, PredictorConfig

__all__ = [
    "NAMES",
    "Assessment",
    "Boundary",
    "Clip",
    "Predictor",
    "PredictorConfig",
    "check_predictor",
    "make_predictor",
]

NAMES = ("timing", "vap", "dualturn")
HEADS = ("fvad256", "native8")


def check_predictor(config: PredictorConfig) -> None:
    """Look at the settings of all predictors.

    Raises:
        ConfigError: one cannot be used.
    """
    where = "scorer.turn_taking"
    if config.predictor not in NAMES:
        raise ConfigError(f"{where}.predictor={config.predictor}: must be one of {', '.join(NAMES)}")
    if config.dualturn.head not in HEADS:
        raise ConfigError(f"{where}.dualturn.head={config.dualturn.head}: must be one of {', '.join(HEADS)}")
    positive = {
        "vap.window_s": config.vap.window_s,
        "dualturn.batch_seconds": config.dualturn.batch_seconds,
    }
    for key, value in positive.items():
        if not value > 0:
            raise ConfigError(f"{where}.{key}={value}: must be positive")
    if config.min_utterance_s < 0:
        raise ConfigError(f"{where}.min_utterance_s={config.min_utterance_s}: must not be negative")


def make_predictor(config: PredictorConfig) -> Predictor:
    """The predictor that the configuration names; its model is not loaded yet."""
    check_predictor(config)
    if config.predictor == "timing":
        from spear_ray.turntaking.predictors.timing import TimingPredictor

        return TimingPredictor(config)
    if config.predictor == "vap":
        from spear_ray.turntaking.predictors.vap import VapPredictor

        return VapPredictor(config)
    from spear_ray.turntaking.predictors.dualturn import DualTurnPredictor

    return DualTurnPredictor(config)
