"""The ten interpersonal stances: ids, poles, acted roles, and scores.

Ids are SPEARBench's; StanceBench's shift by one after S5, because it left Q6 out. The roles are the adjectives that
actors were assigned (Seamless Interaction, improvised subset).

Source: StanceBench, metadata/questions_main.json; SPEARBench (arXiv 2607.05365), bin/STANCE.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spear_ray.errors import FieldInvalid

UNCERTAIN, CONFIDENT = 0.45, 0.75
"""Below the first probability a choice scores 0, from the second on 2 (StanceBench's tau0 and tau2)."""

TURNED_ROUND = frozenset({"aggression", "inhibition", "callousness", "disorganization"})
"""Categories whose stances change sign in SPEARBench's table: four of the negative ones."""


@dataclass(frozen=True, slots=True)
class Stance:
    """One dimension.

    Args:
        id: SPEARBench's.
        stancebench: StanceBench's id; empty for the one that it left out.
        name: in words.
        positive: categories of the positive pole.
        negative: categories of the negative pole.
        interaction: whether StanceBench plays the other speaker's turn before the target's.
        positive_roles: adjectives of the positive pole.
        negative_roles: of the negative one.
    """

    id: str
    stancebench: str
    name: str
    positive: tuple[str, ...]
    negative: tuple[str, ...]
    interaction: bool
    positive_roles: tuple[str, ...]
    negative_roles: tuple[str, ...]

    @property
    def categories(self) -> tuple[str, ...]:
        """Of both poles, the positive ones first."""
        return self.positive + self.negative


STANCES = (
    Stance(
        "Q0", "S0", "warmth", ("Warmth",), ("Coldness",), False,
        ("Friendly", "Warm", "Approachable", "Welcoming"), ("Aloof", "Distant", "Impersonal", "Indifferent"),
    ),
    Stance(
        "Q1", "S1", "compassion", ("Compassion",), ("Callousness",), False,
        ("Empathetic", "Considerate", "Understanding", "Concerned"),
        ("Insensitive", "Unsympathetic", "Inconsiderate", "Callous"),
    ),
    Stance(
        "Q2", "S2", "politeness", ("Politeness",), ("Rudeness",), False,
        ("Polite", "Respectful", "Courteous"), ("Disrespectful", "Impolite", "Uncivil"),
    ),
    Stance(
        "Q3", "S3", "assertiveness", ("Assertiveness",), ("Inhibition",), False,
        ("Assertive", "Decisive", "Self-assured", "Firm"), ("Indecisive", "Self-doubting", "Unassertive", "Timid"),
    ),
    Stance(
        "Q4", "S4", "sincerity", ("Honesty",), ("Deception",), False,
        ("Honest", "Ingenuous", "Uncalculating"), ("Manipulative", "Calculating", "Devious"),
    ),
    Stance(
        "Q5", "S5", "attentiveness", ("Focus",), ("Distraction",), False,
        ("Alert", "Attentive", "Concentrating", "Engaged"), ("Bewildered", "Distracted", "Drowsy", "Unfocused"),
    ),
    Stance(
        "Q6", "", "organisation", ("Organization",), ("Disorganization",), False,
        ("Goal-oriented", "Driven", "Self-disciplined", "Organized"),
        ("Unmotivated", "Disorganized", "Inconsistent", "Unproductive"),
    ),
    Stance(
        "Q7", "S6", "sociability", ("Sociability",), ("Withdrawal",), True,
        ("Engaging", "Sociable", "Gregarious", "Outgoing"), ("Withdrawn", "Disengaged", "Reticent", "Taciturn"),
    ),
    Stance(
        "Q8", "S7", "deference", ("Deference",), ("Dominance",), True,
        ("Submissive", "Meek", "Yielding", "Undemanding"),
        ("Forceful", "Overbearing", "Dominant", "Domineering"),
    ),
    Stance(
        "Q9", "S8", "calmness", ("Calmness", "Avoidance"), ("Aggression",), True,
        ("Stable", "Steady", "Unaggressive", "Unargumentative"), ("Aggressive", "Cruel", "Ruthless", "Vindictive"),
    ),
)  # fmt: skip

IDS = tuple(stance.id for stance in STANCES)


@dataclass(frozen=True, slots=True)
class Target:
    """What a speaker was asked to act.

    Args:
        stance: the dimension.
        pole: 1 for the positive one, -1 for the negative one.
        category: as the metadata has it, else the pole's first.
    """

    stance: Stance
    pole: int
    category: str


def target_of(role: str, category: str) -> Target | None:
    """The dimension and pole of an assigned role or category, whatever its case; None where neither is a known one.

    A role decides before a category, as it is the narrower word.
    """
    for stance in STANCES:
        for pole, roles, categories in (
            (1, stance.positive_roles, stance.positive),
            (-1, stance.negative_roles, stance.negative),
        ):
            if _is_one_of(role, roles):
                return Target(stance, pole, category.strip() or categories[0])
    for stance in STANCES:
        for pole, categories in ((1, stance.positive), (-1, stance.negative)):
            if _is_one_of(category, categories):
                return Target(stance, pole, category.strip())
    return None


def mapped(choice: str, probability: float, uncertain: float = UNCERTAIN, confident: float = CONFIDENT) -> int:
    """A choice with its probability as a score.

    Args:
        choice: P or N, whatever its case.
        probability: of the choice.
        uncertain: below it the score is 0.
        confident: from it on the score is 2, else 1.

    Returns:
        -2 to 2, negative for N.

    Raises:
        FieldInvalid: another choice.

    Source: StanceBench, pipeline.py.
    """
    letter = choice.strip().upper()
    if letter not in ("P", "N"):
        raise FieldInvalid(f"choice='{choice}': must be P or N")
    size = 0 if probability < uncertain else 1 if probability < confident else 2
    return size if letter == "P" else -size


def flipped(scores: Sequence[float]) -> bool:
    """Whether the two orders of the descriptions led to different poles; a 0 is no pole."""
    return scores[0] * scores[1] < 0


def _is_one_of(word: str, words: Sequence[str]) -> bool:
    return bool(word.strip()) and word.strip().lower() in (one.lower() for one in words)
