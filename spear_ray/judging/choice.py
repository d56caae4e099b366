"""Reading a decision: from the log-probabilities of the choices, or from text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spear_ray.errors import JudgeParseError

SCORES = ("1", "3", "5")
"""WavReward's rubric: wrong words; right words in the wrong voice; both right."""

SCORE = re.compile(r"<score>(.*?)</score>", re.DOTALL)
NUMBERS = {text: int(text[0]) for score in SCORES for text in (score, f"{score}.0")}
SHOWN = 200
"""Characters of a text that an error repeats."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A decision among choices.

    Args:
        probabilities: of each choice, together 1.
        mass: the probability that all choices had together as the next token; far below 1 the judge wanted to say
            something else.
        entropy: of `probabilities`, in nats.
    """

    probabilities: Mapping[str, float]
    mass: float
    entropy: float

    @property
    def label(self) -> str:
        """The likeliest choice; of equals the one that stands first."""
        return max(self.probabilities, key=self.probabilities.__getitem__)


def read_choice(log_probabilities: Mapping[str, float], choices: Sequence[str]) -> Choice:
    """A decision from natural log-probabilities.

    Args:
        log_probabilities: of the next token; other tokens do not count.
        choices: what can be chosen, in the order that decides among equals.

    Raises:
        JudgeParseError: a choice is absent or not a number, or all are impossible.
    """
    wrong = [choice for choice in choices if not log_probabilities.get(choice, math.nan) <= 0]
    if wrong:
        raise JudgeParseError(f"no log-probability of {', '.join(wrong)} among {dict(log_probabilities)}")
    logs = [log_probabilities[choice] for choice in choices]
    highest = max(logs)
    if highest == -math.inf:
        raise JudgeParseError(f"the judge holds each of {', '.join(choices)} for impossible")
    weights = [math.exp(one - highest) for one in logs]
    total = sum(weights)
    parts = [weight / total for weight in weights]
    entropy = -sum(part * math.log(part) for part in parts if part > 0)
    return Choice(dict(zip(choices, parts, strict=True)), min(1.0, math.exp(highest) * total), entropy)


def expected_score(choice: Choice) -> float:
    """The mean of the scores by their probability, for instance in [1, 5].

    Source: as G-Eval reads scores (Liu et al. 2023, section 2), over the rubric's scores.
    """
    return sum(float(score) * part for score, part in choice.probabilities.items())


def parse_score(text: str) -> int:
    """The score of free text: its last <score>…</score>, which must be 1, 3 or 5 ("5.0" is 5).

    Raises:
        JudgeParseError: there is none, or another number.
    """
    found = SCORE.findall(text)
    score = NUMBERS.get(found[-1].strip()) if found else None
    if score is None:
        shown = text if len(text) <= SHOWN else f"…{text[-SHOWN:]}"
        raise JudgeParseError(f"no <score>1</score>, 3 or 5 at last in: {shown!r}")
    return score
