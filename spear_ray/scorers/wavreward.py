"""Whether a reply fits in words and voice: an audio LLM's score by WavReward's protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spear_ray.dialogue import Dialogue, Score
from spear_ray.errors import ConfigError, JudgeParseError
from spear_ray.judging import prompts
from spear_ray.judging.asking import Failed, Prompt, Reply
from spear_ray.judging.choice import SCORES, expected_score, read_choice
from spear_ray.judging.clips import TooLong, exchange
from spear_ray.scorers._judged import JudgedConfig, JudgedScorer
from spear_ray.scorers.base import Metric
from spear_ray.sides import answer_clip, question_clip

HERE = "scorer.wavreward"
OPENING = "<score>"
LOW_MASS = 0.5
"""Below it the judge wanted to say something else than a score; a note of the row says so."""

METRICS = (
    Metric(
        name="wavreward_score",
        key="score",
        unit="1-5",
        direction="higher",
        headline=True,
        about="Expected score of the judge: 1 wrong words, 3 right words in an unfitting voice, 5 both fit.",
    ),
    Metric(
        name="wavreward_fitting_%",
        key="fitting",
        unit="%",
        scale=100,
        direction="higher",
        about="Share of answers whose likeliest score is 5.",
    ),
    Metric(
        name="wavreward_wrong_words_%",
        key="wrong_words",
        unit="%",
        scale=100,
        direction="lower",
        about="Share of answers whose likeliest score is 1.",
    ),
    Metric(
        name="wavreward_label",
        key="label",
        unit="1-5",
        direction="higher",
        about="Mean of the likeliest score of each answer.",
    ),
    Metric(
        name="wavreward_mass",
        key="mass",
        unit="probability",
        direction="none",
        about="Probability that the judge gave to any score at all; far below 1 its scores say little.",
    ),
    Metric(
        name="wavreward_entropy",
        key="entropy",
        unit="nats",
        direction="none",
        about="How undecided the judge was among the scores; 1.10 nats is not decided at all.",
    ),
)


@dataclass(kw_only=True)
class WavRewardConfig(JudgedConfig):
    """Settings of `wavreward`: those of every scorer that asks the judge, and.

    Args:
        most_question_s: a longer question (its last turn, without outer silence) is not judged.
        most_seconds: nor is a longer clip of question, pause and answer.
    """

    most_question_s: float = 20.0
    most_seconds: float = 45.0

    def check(self) -> None:
        """Numbers must be within their limits."""
        self.check_judged(HERE)
        if self.most_question_s <= 0 or self.most_seconds <= 0:
            raise ConfigError(f"{HERE}: most_question_s and most_seconds must be positive")


class WavRewardScorer(JudgedScorer[WavRewardConfig]):
    """One question to the judge on the question's last turn, a second of silence, and the answer.

    The published WavReward was trained for this and is not public; `judge.checkpoint` is any audio LLM that follows its
    protocol. Details: `log_probabilities`, `thoughts` of the judge where it was let, `notes`.

    Source: WavReward (arXiv 2505.09558), sections 3.1 and 3.2.3, figure 5; the words of the prompt are ours.
    """

    name = "wavreward"
    version = "1"
    config_type = WavRewardConfig
    metrics = METRICS
    choices = SCORES

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings, judge and prompt."""
        settings = {key: getattr(self.config, key) for key in ("most_question_s", "most_seconds")}
        return self.judged_identity(prompts.digest(*self._files), **settings)

    @property
    def _files(self) -> tuple[str, str]:
        rubric, answer, reasoning = prompts.WAVREWARD
        return rubric, reasoning if self.config.judge.reasoning_tokens else answer

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; the judge is asked about all of them at once."""
        made = [self._prompt(dialogue) for dialogue in batch]
        replies = iter(self.asked([one for one in made if isinstance(one, Prompt)]))
        return [
            self._row_of(dialogue, next(replies)) if isinstance(one, Prompt) else one
            for dialogue, one in zip(batch, made, strict=True)
        ]

    def _prompt(self, dialogue: Dialogue) -> Prompt | Score:
        """What the judge is asked, or a skipped row."""
        question, answer = question_clip(dialogue, "asking", with_context=False), answer_clip(dialogue)
        if (row := self.unheard(dialogue, question, answer)) is not None:
            return row
        clip = exchange(question, answer, self.config.most_question_s, self.config.most_seconds)
        if isinstance(clip, TooLong):
            return self.skipped(dialogue, "too_long", f"{clip} ({HERE}.most_seconds, most_question_s)")
        words = "\n\n".join(prompts.text(name) for name in self._files)
        return Prompt((clip, words), opening=OPENING)

    def _row_of(self, dialogue: Dialogue, reply: Reply | Failed) -> Score:
        if isinstance(reply, Failed):
            return self.undecided(dialogue, reply)
        try:
            choice = read_choice(reply.log_probabilities, SCORES)
        except JudgeParseError as error:
            return self.error(dialogue, error.code, str(error), {"thoughts": reply.thoughts})
        metrics = {
            "score": expected_score(choice),
            "label": float(choice.label),
            "fitting": float(choice.label == "5"),
            "wrong_words": float(choice.label == "1"),
            "mass": choice.mass,
            "entropy": choice.entropy,
        }
        notes = [*dialogue.notes, *(["judge_low_mass"] if choice.mass < LOW_MASS else [])]
        probabilities = {label: round(part, 6) for label, part in choice.probabilities.items()}
        return self.ok(dialogue, metrics, {"probabilities": probabilities, "thoughts": reply.thoughts, "notes": notes})
