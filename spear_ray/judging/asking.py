"""What a judge is asked, whichever engine holds it, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from spear_ray.dialogue import Problem, Samples
from spear_ray.errors import JudgeParseError

PARSE_ERROR = JudgeParseError.code
REASONING_CUT = "judge_reasoning_cut"
THINK, END_OF_THINK = "<think>", "</think>"


@dataclass(frozen=True, eq=False)
class Prompt:
    """One request.

    Args:
        parts: of the user's turn, in order: clips (float32 [samples], 16 kHz, on 16-bit steps) and texts. Clips stand
            first, so that questions on the same clips share the work on them.
        system: what the judge is told it is; empty leaves it to the model's own chat template.
        opening: what the judge's turn begins with.
    """

    parts: tuple[Samples | str, ...]
    system: str = ""
    opening: str = ""

    @property
    def clips(self) -> list[Samples]:
        """The clips alone, in order."""
        return [part for part in self.parts if not isinstance(part, str)]


@dataclass(frozen=True, slots=True)
class Written:
    """Free text of a judge; `ended` where it came to its end by itself."""

    text: str
    ended: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """A judge's decision.

    Args:
        log_probabilities: natural, of each choice as the next token, before anything is ruled out.
        thoughts: what the judge wrote before, where it was let.
    """

    log_probabilities: Mapping[str, float]
    thoughts: str | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """No decision: why, and what the judge said, as far as it said something."""

    problem: Problem
    said: str = ""


class Engine(Protocol):
    """What holds a judge. Both methods take many prompts at once, keep their order, and lose none."""

    def choose(self, prompts: Sequence[Prompt], choices: Sequence[str]) -> list[Reply | Failed]:
        """The log-probabilities of single-token choices as the next token of each prompt."""

    def write(self, prompts: Sequence[Prompt], most_tokens: int, stop: str) -> list[Written | Failed]:
        """Greedy text up to `stop` (left out) or `most_tokens`."""


def ask(
    engine: Engine, prompts: Sequence[Prompt], choices: Sequence[str], reasoning_tokens: int = 0
) -> list[Reply | Failed]:
    """Put questions to the judge.

    Args:
        engine: that holds it.
        prompts: the questions.
        choices: one token each.
        reasoning_tokens: the most that the judge may write inside <think></think> before it decides; 0 lets it not.
    """
    if not reasoning_tokens:
        return engine.choose(prompts, choices)
    thinking = [replace(prompt, opening=THINK) for prompt in prompts]
    thoughts = [_ended(one, reasoning_tokens) for one in engine.write(thinking, reasoning_tokens, END_OF_THINK)]
    ready = [
        replace(prompt, opening=f"{THINK}{thought.text}{END_OF_THINK}\n{prompt.opening}")
        for prompt, thought in zip(prompts, thoughts, strict=True)
        if isinstance(thought, Written)
    ]
    decided = iter(engine.choose(ready, choices) if ready else [])
    return [one if isinstance(one, Failed) else _after(next(decided), one.text) for one in thoughts]


def _ended(written: Written | Failed, most_tokens: int) -> Written | Failed:
    if isinstance(written, Failed) or written.ended:
        return written
    text = f"the judge was still reasoning after {most_tokens} tokens (judge.reasoning_tokens)"
    return Failed(Problem(REASONING_CUT, text), written.text)


def _after(decision: Reply | Failed, thoughts: str) -> Reply | Failed:
    return replace(decision, thoughts=thoughts) if isinstance(decision, Reply) else replace(decision, said=thoughts)
