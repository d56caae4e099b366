"""How the answering speaker comes across: ten interpersonal stances, as an audio LLM judges them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spear_ray.affect.texts import context_text, relationship_text
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue, Samples, Score
from spear_ray.errors import ConfigError, JudgeParseError
from spear_ray.judging import prompts
from spear_ray.judging.asking import Failed, Prompt, Reply
from spear_ray.judging.choice import read_choice
from spear_ray.judging.clips import TooLong, mixed, target_speech, turn_pair
from spear_ray.judging.stance_rows import CHOICES, ORDERS, Judgement, compared, judgement
from spear_ray.judging.stances import IDS, STANCES, Stance, target_of
from spear_ray.scorers._judged import JudgedConfig, JudgedScorer
from spear_ray.scorers._stance_metrics import METRICS
from spear_ray.sides import answer_clip, question_clip

HERE = "scorer.stance"
LAYOUTS = ("spearbench", "stancebench")
UNIT_PAUSE_S = 0.3
"""StanceBench joins speech over shorter pauses to one inter-pausal unit."""

Clips = tuple[Samples, ...]


@dataclass(kw_only=True)
class StanceConfig(JudgedConfig):
    """Settings of `stance`: those of every scorer that asks the judge, and.

    Args:
        questions: the stances that are judged.
        layout: `spearbench` plays question and answer on one channel, as they were, and shares the clip among all
            questions; `stancebench` plays the target's speech alone, for the last three stances after the question.
        most_seconds: a longer clip is not judged.
        tell_role: tells the judge the acted role, the category, the situation and the transcript, as SPEARBench does:
            that gives the answer away.
        target_rows_only: judges only dialogues whose target has a known role or category, and only the stance that it
            belongs to, as SPEARBench does.
    """

    questions: list[str] = field(default_factory=lambda: list(IDS))
    layout: str = "spearbench"
    most_seconds: float = 90.0
    tell_role: bool = False
    target_rows_only: bool = False

    def check(self) -> None:
        """Words must be known, numbers within their limits."""
        self.check_judged(HERE)
        unknown = [one for one in self.questions if one not in IDS]
        if unknown or not self.questions or len(set(self.questions)) < len(self.questions):
            raise ConfigError(f"{HERE}.questions={self.questions}: must be some of {', '.join(IDS)}, each once")
        if self.layout not in LAYOUTS:
            raise ConfigError(f"{HERE}.layout={self.layout}: must be one of {', '.join(LAYOUTS)}")
        if self.most_seconds <= 0:
            raise ConfigError(f"{HERE}.most_seconds={self.most_seconds}: must be positive")


class StanceScorer(JudgedScorer[StanceConfig]):
    """P or N for each stance, asked with its two descriptions in both orders.

    Details: for each stance the probability of P in both orders; `target` where role or category are known; `notes`.

    Source: StanceBench (both orders, scores), SPEARBench (arXiv 2607.05365; clip, columns). Their judges tell a
    probability in words; here it is the model's own, of the letter. The words of the prompts are ours.
    """

    name = "stance"
    version = "1"
    config_type = StanceConfig
    metrics = METRICS
    choices = CHOICES

    @property
    def identity(self) -> Mapping[str, Any]:
        """Settings, judge and prompt."""
        keys = ("questions", "layout", "most_seconds", "tell_role", "target_rows_only")
        return self.judged_identity(prompts.digest(prompts.STANCE), **{key: getattr(self.config, key) for key in keys})

    def measure(self, batch: Sequence[Dialogue]) -> list[Score]:
        """One row per dialogue; the judge is asked all questions of all dialogues at once."""
        made = [self._prompts(dialogue) for dialogue in batch]
        flat = [prompt for one in made if isinstance(one, dict) for pair in one.values() for prompt in pair]
        replies = iter(self.asked(flat))
        return [
            self._row_of(dialogue, {stance: [next(replies) for _ in pair] for stance, pair in one.items()})
            if isinstance(one, dict)
            else one
            for dialogue, one in zip(batch, made, strict=True)
        ]

    def _prompts(self, dialogue: Dialogue) -> dict[str, tuple[Prompt, Prompt]] | Score:
        """For each stance the question in both orders, or a skipped row."""
        stances = self._stances(dialogue)
        if not stances:
            return self.skipped(dialogue, "stance_no_target", "target_role and target_category tell no known stance")
        question, answer = question_clip(dialogue, "asking", with_context=False), answer_clip(dialogue)
        if (row := self.unheard(dialogue, question, answer)) is not None:
            return row
        found, made = {}, dict[bool, Clips | TooLong]()
        for stance in stances:
            apart = stance.interaction and self.config.layout == "stancebench"
            if apart not in made:
                made[apart] = self._clips(dialogue, apart)
            clips = made[apart]
            if isinstance(clips, TooLong):
                return self.skipped(dialogue, "too_long", f"{clips} ({HERE}.most_seconds)")
            found[stance.id] = self._pair(dialogue, stance, clips)
        return found

    def _stances(self, dialogue: Dialogue) -> list[Stance]:
        wanted = [stance for stance in STANCES if stance.id in self.config.questions]
        if not self.config.target_rows_only:
            return wanted
        target = _target(dialogue)
        return [stance for stance in wanted if target is not None and target.stance is stance]

    def _clips(self, dialogue: Dialogue, apart: bool) -> Clips | TooLong:
        """What is heard.

        Args:
            dialogue: with audio.
            apart: in StanceBench's layout, the question's turn as a clip of its own before the answer.
        """
        answer = answer_clip(dialogue)
        if self.config.layout == "spearbench":
            question = question_clip(dialogue, "mixed", with_context=True)
            clip = mixed(question, answer, dialogue.answer_start_s or 0.0, self.config.most_seconds)
            return clip if isinstance(clip, TooLong) else (clip,)
        if apart:
            return turn_pair(question_clip(dialogue, "asking", with_context=False), answer)
        units = self._silero.speech(answer, self.config.speech)
        speech = target_speech(answer, units, most_s=self.config.most_seconds)
        return speech if isinstance(speech, TooLong) else (speech,)

    def _pair(self, dialogue: Dialogue, stance: Stance, clips: Clips) -> tuple[Prompt, Prompt]:
        texts = prompts.stance_texts()
        told = [self._scene(dialogue, stance), *(self._leaks(dialogue) if self.config.tell_role else ())]
        descriptions = texts["stances"][stance.id]
        first, second = (
            texts["question"].format(
                question=descriptions["question"], first=descriptions[order[0]], second=descriptions[order[1]]
            )
            for order in ORDERS
        )
        scene = "\n".join(told)
        return tuple(Prompt((*clips, f"{scene}\n\n{asked}"), texts["system"]) for asked in (first, second))  # type: ignore[return-value]

    def _scene(self, dialogue: Dialogue, stance: Stance) -> str:
        texts = prompts.stance_texts()
        if self.config.layout == "stancebench":
            return str(texts["interaction" if stance.interaction else "single"])
        question_s = question_clip(dialogue, "mixed", with_context=True).size / SAMPLE_RATE_HZ
        onset_s = question_s + (dialogue.answer_start_s or 0.0)
        before = max(0.0, -onset_s)
        return str(texts["mixed"].format(onset=f"{onset_s + before:.1f}", question_end=f"{question_s + before:.1f}"))

    def _leaks(self, dialogue: Dialogue) -> Iterator[str]:
        texts, roles = prompts.stance_texts(), dialogue.roles
        for name, value in (
            ("role", roles.get("target_role", "")),
            ("category", roles.get("target_category", "")),
            ("relationship", relationship_text(roles)),
            ("situation", context_text(dialogue) if roles else ""),
            ("transcript", dialogue.question_text or ""),
        ):
            if value:
                yield texts[name].format(**{name: value})

    def _row_of(self, dialogue: Dialogue, replies: Mapping[str, Sequence[Reply | Failed]]) -> Score:
        found: dict[str, Judgement] = {}
        for stance, pair in replies.items():
            for reply in pair:
                if isinstance(reply, Failed):
                    return self.undecided(dialogue, reply, {"stance": stance})
            try:
                choices = [read_choice(one.log_probabilities, CHOICES) for one in pair if isinstance(one, Reply)]
            except JudgeParseError as error:
                return self.error(dialogue, error.code, str(error), {"stance": stance})
            found[stance] = judgement(choices)
        target = _target(dialogue)
        metrics = {key: value for stance, one in found.items() for key, value in one.metrics(stance).items()}
        metrics["flip_rate"] = sum(one.flipped for one in found.values()) / len(found)
        metrics["mass"] = min(one.mass for one in found.values())
        if target is not None and target.stance.id in found:
            metrics |= compared(found[target.stance.id], target)
        details = {
            "probabilities": {stance: [round(part, 6) for part in one.positive] for stance, one in found.items()},
            "target": [target.stance.id, target.category] if target else None,
            "notes": list(dialogue.notes),
        }
        return self.ok(dialogue, metrics, details)


def _target(dialogue: Dialogue) -> Any:
    roles = dialogue.roles
    return target_of(roles.get("target_role", ""), roles.get("target_category", ""))
