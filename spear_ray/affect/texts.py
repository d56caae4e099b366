"""What TRACE is told in words: the situation, and who the speakers are to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spear_ray.dialogue import Dialogue

SEPARATOR = " [SEP] "
"""Between the parts of a text (TRACE's published inference)."""

PROMPTS = (("participant_a_prompt_text", "participant_b_prompt_text"), ("prompt_a", "prompt_b"))
"""Pairs of role keys that hold what the two speakers were told; the first pair that is there counts."""


def context_text(dialogue: Dialogue) -> str:
    """The situation: a stated context, else both speakers' prompts, else the question's transcript, else nothing.

    Source: SPEARBench, bin/naturalness (prompts, else transcript); TRACE (high_level_context).
    """
    roles = dialogue.roles
    if stated := roles.get("high_level_context"):
        return stated
    for first, second in PROMPTS:
        if roles.get(first) or roles.get(second):
            return SEPARATOR.join((roles.get(first, ""), roles.get(second, "")))
    return dialogue.question_text or ""


def relationship_text(roles: Mapping[str, str]) -> str:
    """Roles of both speakers and their relationship; nothing where none is known.

    Source: TRACE's template `role A [SEP] role B [SEP] relationship`; SPEARBench takes relationship_detail, else
    relationship, else interaction_type.
    """
    related = next(
        (roles[key] for key in ("relationship_detail", "relationship", "interaction_type") if roles.get(key)), ""
    )
    return joined((roles.get("speaker_a_role", ""), roles.get("speaker_b_role", ""), related))


def joined(parts: Sequence[str]) -> str:
    """Parts with the separator between them, also between blank ones; nothing where all are blank."""
    return SEPARATOR.join(parts) if any(part.strip() for part in parts) else ""
