"""What the scorers that ask the judge have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, TypeVar

from spear_ray.dialogue import Dialogue, Samples, Score
from spear_ray.errors import ConfigError, PrerequisiteError
from spear_ray.judging.asking import Failed, Prompt, Reply, ask
from spear_ray.judging.engines import engine_name, engine_of
from spear_ray.judging.settings import JudgeSettings, check_judge, identity, missing_judge
from spear_ray.networks.silero import Silero, SpeechSettings
from spear_ray.scorers.base import Scorer, ScorerConfig
from spear_ray.sides import speech_seconds

SAID = 4000
"""Characters that an error row keeps of what the judge said."""


@dataclass(kw_only=True)
class JudgedConfig(ScorerConfig):
    """Settings of a scorer that asks the judge.

    Args:
        judge: the audio LLM: the configuration's own `judge`, but for what is said here.
        min_speech_s: a side with less speech is not judged.
        speech: of the voice activity detector.
    """

    judge: JudgeSettings = field(default_factory=JudgeSettings)
    min_speech_s: float = 0.25
    speech: SpeechSettings = field(default_factory=SpeechSettings)

    def check_judged(self, where: str) -> None:
        """Raises ConfigError where a value cannot be used."""
        check_judge(f"{where}.judge", self.judge)
        gpus, wanted = self.resources.num_gpus, self.judge.tensor_parallel
        if self.judge.is_local and wanted > 1 and gpus != wanted:
            raise ConfigError(
                f"judge.tensor_parallel={wanted} needs as many GPUs: {where}.resources.num_gpus={wanted}, not {gpus:g}"
            )
        if self.min_speech_s < 0:
            raise ConfigError(f"{where}.min_speech_s={self.min_speech_s}: must not be negative")


ConfigT = TypeVar("ConfigT", bound=JudgedConfig)


class JudgedScorer(Scorer[ConfigT]):
    """A scorer that asks the judge; all of them share one engine in a process."""

    choices: ClassVar[tuple[str, ...]]
    """What the judge decides between, one token each."""

    def __init__(self, config: ConfigT) -> None:
        super().__init__(config)
        if not config.judge.is_local:
            config.resources.num_gpus = 0.0  # a server's model needs none of ours
        elif not config.resources.num_gpus and not config.resources.concurrency:
            config.resources.concurrency = [1, 1]  # without a GPU the engine takes all cores by itself

    @property
    def shares(self) -> str:
        """The engine."""
        return engine_name(self.config.judge)

    def missing(self) -> PrerequisiteError | None:
        """Silero, and vLLM with a checkpoint or the server's key."""
        return Silero.missing() or missing_judge("judge", self.config.judge)

    def setup(self) -> None:
        """Start the engine, or get ready to ask a server."""
        self._silero = Silero()
        self._engine = engine_of(self.config.judge)
        self._engine.choose([], self.choices)  # refuses a model that has no single tokens for them

    def judged_identity(self, prompt: str, **settings: Any) -> Mapping[str, Any]:
        """What a score depends on.

        Args:
            prompt: digest of the prompt.
            settings: the scorer's own.
        """
        return {
            "scorer": self.name,
            "version": self.version,
            "settings": {"min_speech_s": self.config.min_speech_s, **settings},
            "speech": asdict(self.config.speech),
            "silero_vad": Silero.version(),
            "judge": dict(identity(self.config.judge)),
            "prompt": prompt,
        }

    def unheard(self, dialogue: Dialogue, question: Samples, answer: Samples) -> Score | None:
        """A skipped row where a side holds too little speech to be judged."""
        for what, code, side in (("answer", "no_speech", answer), ("question", "question_no_speech", question)):
            if (
                not side.size
                or speech_seconds(self._silero.speech(side, self.config.speech)) < self.config.min_speech_s
            ):
                return self.skipped(dialogue, code, f"no speech was found in the {what}")
        return None

    def asked(self, prompts: Sequence[Prompt]) -> list[Reply | Failed]:
        """The judge's decisions on many prompts at once."""
        return ask(self._engine, prompts, self.choices, self.config.judge.reasoning_tokens)

    def undecided(self, dialogue: Dialogue, failed: Failed, details: Mapping[str, Any] | None = None) -> Score:
        """An error row that keeps what the judge said."""
        kept = {**(details or {}), "said": failed.said[:SAID], "notes": list(dialogue.notes)}
        return self.error(dialogue, failed.problem.code, failed.problem.message, details=kept)
