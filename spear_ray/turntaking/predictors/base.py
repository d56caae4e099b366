"""What a predictor is: it takes clips with their voice activity and gives the surprise of their boundaries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from spear_ray.dialogue import Samples
from spear_ray.errors import PrerequisiteError
from spear_ray.turntaking.pooling import Pooled
from spear_ray.turntaking.timeline import Timeline


@dataclass(kw_only=True)
class TimingSettings:
    """Settings of `timing`.

    Args:
        statistics: of which population: the name of one that ships, or a file (local or s3://).
    """

    statistics: str = "telephone"


@dataclass(kw_only=True)
class VapSettings:
    """Settings of `vap`.

    Args:
        checkpoint: file with the weights (.pt, .ckpt or .safetensors; local or s3://).
        frame_hz: of the model; 0 reads it off the checkpoint (say 20 for MaAI's models of 20 Hz under another name).
        published_chunks: score in chunks of 60 s with the label shift of the published script. Only for comparison
            with numbers made by it: longer dialogues come out wrong.
        window_s: audio that is encoded at a time; bounds memory, changes no score.
    """

    checkpoint: str = ""
    frame_hz: float = 0.0
    published_chunks: bool = False
    window_s: float = 60.0


@dataclass(kw_only=True)
class DualTurnSettings:
    """Settings of `dualturn`.

    Args:
        checkpoint: turnnat-dualturn-fvad256.pt, or a DualTurn folder or file (local or s3://).
        backbone: folder with Qwen2.5-0.5B's config.json.
        mimi: folder with Mimi's config.json and model.safetensors.
        head: `fvad256` (TurnNat's) or `native8` (DualTurn's own).
        sliding_window: apply Mimi's attention window, as transformers 5 does; 4.x ignored it, which changes
            features from 10 s on.
        batch_seconds: padded audio in one batch.
    """

    checkpoint: str = ""
    backbone: str = ""
    mimi: str = ""
    head: str = "fvad256"
    sliding_window: bool = True
    batch_seconds: float = 480.0


@dataclass(kw_only=True)
class PredictorConfig:
    """Which predictor, and how units are made of its frames.

    Args:
        predictor: `timing`, `vap` or `dualturn`.
        min_utterance_s: shorter utterances give no unit: 0.5 as SPEARBench runs it, 0.2 as the released scorer does.
            `timing` has no utterances and does not read it.
        timing: its settings.
        vap: its settings.
        dualturn: its settings.
    """

    predictor: str = "timing"
    min_utterance_s: float = 0.5
    timing: TimingSettings = field(default_factory=TimingSettings)
    vap: VapSettings = field(default_factory=VapSettings)
    dualturn: DualTurnSettings = field(default_factory=DualTurnSettings)


@dataclass(frozen=True, slots=True)
class Clip:
    """What a predictor hears.

    Args:
        activity: speech of each side as the voice activity detector found it, in seconds.
        audio: float32 [2, samples] at 16 kHz; None where only the times are known.
    """

    activity: Timeline
    audio: Samples | None = None


class Boundary(NamedTuple):
    """One unit: what happened, whose boundary it is, its span in seconds and its surprise in nats."""

    kind: str
    side: int
    start_s: float
    end_s: float
    nll: float


@dataclass(frozen=True, slots=True)
class Assessment:
    """What a predictor says of one clip.

    Args:
        pooled: the dialogue's surprise.
        boundaries: the units behind it, in order of time.
        notes: codes of what was unusual: which fallback was used.
    """

    pooled: Pooled
    boundaries: tuple[Boundary, ...]
    notes: tuple[str, ...] = ()


class Predictor(ABC):
    """A model of natural talk."""

    name: ClassVar[str]
    hears_audio: ClassVar[bool]
    published: ClassVar[bool]
    """Whether its score is what SPEARBench's column turn_taking_naturalness means."""

    def __init__(self, config: PredictorConfig) -> None:
        self.config = config

    def missing(self) -> PrerequisiteError | None:
        """What it lacks to run here, or None. Cheap."""
        return None

    @abstractmethod
    def setup(self) -> None:
        """Load the model."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """All that its scores depend on besides the clip."""

    @abstractmethod
    def assess(self, clips: Sequence[Clip]) -> list[Assessment | None]:
        """Score clips, each by itself; None where a clip has nothing that can be scored."""
