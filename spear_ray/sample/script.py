"""What the sample says: seven everyday conversations, the items cut from them, the systems that answer.

Times are in seconds. A conversation is one recording; two items of one conversation may share turns, as they
do in SPEARBench.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One transcript segment.

    Args:
        speaker: tag of the speaker, `P0001`.
        text: what is said.
        gap_s: from the end of the turn before to the start of this segment; negative when it starts early.
        lead_s: silence inside the segment before the speech.
        backchannel: what the listener says in the middle of this turn, on the listener's own channel.
    """

    speaker: str
    text: str
    gap_s: float = 0.2
    lead_s: float = 0.02
    backchannel: str = ""


@dataclass(frozen=True, slots=True)
class Item:
    """One dialogue of the benchmark, cut from a conversation.

    The turn after the question is the human answer.

    Args:
        first: index of the turn where the clip begins.
        question: index of the turn that the clip ends with.
        replies: what each generated system answers, by its name; empty where it stays silent.
    """

    first: int
    question: int
    replies: dict[str, str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recorded conversation; `speakers` in channel order."""

    name: str
    subset: str
    speakers: tuple[str, str]
    turns: tuple[Turn, ...]
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class System:
    """A made-up model: its voice and the range of its answer_start_time."""

    name: str
    voice: str
    start_s: tuple[float, float]


SYSTEMS = (
    System("early", "kal16", (-1.45, -0.45)),
    System("slow", "awb", (1.6, 3.2)),
    System("sometimes-silent", "slt", (0.4, 0.9)),
)

SPEAKER_VOICES = {"P0001": "slt", "P0002": "rms", "P0003": "awb"}
"""The flite voice of each participant."""


def _replies(early: str, slow: str, sometimes_silent: str) -> dict[str, str]:
    return {"early": early, "slow": slow, "sometimes-silent": sometimes_silent}


CONVERSATIONS = (
    Conversation(
        "V00_S0001_I00000001",
        "improvised",
        ("P0001", "P0002"),
        (
            Turn("P0001", "My suitcase did not come off the plane from Lisbon."),
            Turn("P0002", "I am sorry to hear that. What colour is it?", gap_s=0.3),
            Turn("P0001", "It is dark green, with a yellow ribbon on the handle.", gap_s=0.22),
            Turn("P0002", "Thank you, that helps.", gap_s=0.15),
            Turn("P0001", "How long will it take to find it?", gap_s=0.25),
            Turn("P0002", "Most bags turn up by the next morning.", gap_s=0.35, lead_s=0.06),
        ),
        (
            Item(
                0,
                1,
                _replies(
                    "It is green, and it is quite a big one.",
                    "I believe it is a dark green suitcase.",
                    "Green, with a ribbon tied around the handle.",
                ),
            ),
            Item(
                2,
                4,
                _replies("It should be here by tomorrow at the latest.", "That usually takes one or two days.", ""),
            ),
        ),
    ),
    Conversation(
        "V00_S0001_I00000002",
        "improvised",
        ("P0003", "P0001"),
        (
            Turn("P0003", "I borrowed your ladder last week, and one step is cracked.", backchannel="Right."),
            Turn("P0001", "Oh dear, did you hurt yourself?", gap_s=0.2),
            Turn("P0003", "Not at all, I only noticed it while cleaning.", gap_s=-0.15),
            Turn("P0001", "Good, then it does not matter.", gap_s=0.3),
            Turn("P0003", "Shall I buy you another one?", gap_s=0.1),
            Turn("P0001", "No need, my brother can mend it on Sunday.", gap_s=0.18, lead_s=0.04),
        ),
        (
            Item(
                0,
                1,
                _replies(
                    "No, no, I am perfectly fine, thank you.",
                    "No, luckily I was not standing on it.",
                    "No, I am fine, thank you for asking.",
                ),
            ),
            Item(
                2,
                4,
                _replies("Oh please, do not worry about that.", "You really do not have to do that for us.", ""),
            ),
        ),
    ),
    Conversation(
        "V00_S0002_I00000003",
        "improvised",
        ("P0002", "P0003"),
        (
            Turn("P0003", "The cake is ordered, but nobody has told the band."),
            Turn("P0002", "I can call them tonight. When should they arrive?", gap_s=0.25),
            Turn("P0003", "Around seven, before the guests start to come.", gap_s=0.1),
            Turn("P0002", "Fine, I will write that down.", gap_s=0.2),
            Turn("P0003", "Who is going to bring Maria to the hall?", gap_s=0.35),
            Turn("P0002", "Her sister said she would drive her over.", gap_s=0.55, lead_s=0.05),
        ),
        (
            Item(
                0,
                1,
                _replies(
                    "Tell them to come at seven, please.",
                    "Seven in the evening would be best.",
                    "Let us say seven, just to be safe.",
                ),
            ),
            Item(
                2,
                4,
                _replies("I could pick her up on my way from work.", "I think that her sister will bring her.", ""),
            ),
        ),
    ),
    Conversation(
        "V00_S0003_I00000004",
        "naturalistic",
        ("P0001", "P0003"),
        (
            Turn("P0001", "We finally planted tomatoes on the balcony this spring."),
            Turn("P0003", "Nice. Do they get enough sun up there?", gap_s=0.15),
            Turn("P0001", "Mostly in the morning, but they seem happy so far.", gap_s=0.25, lead_s=0.03),
            Turn("P0003", "Mine never survive the summer.", gap_s=0.2),
            Turn("P0001", "Do you water them every day?", gap_s=0.12),
            Turn("P0003", "To be honest, I forget it most of the week.", gap_s=0.05),
        ),
        (
            Item(
                0,
                1,
                _replies(
                    "Yes, the sun is out there all morning long.",
                    "They get about four hours of it a day.",
                    "Enough, as long as the weather holds.",
                ),
            ),
            Item(
                2,
                4,
                _replies(
                    "Not every day, only when I remember.",
                    "I try to, but I am often too busy.",
                    "Twice a week, and more when it is hot.",
                ),
            ),
        ),
    ),
    Conversation(
        "V00_S0004_I00000005",
        "naturalistic",
        ("P0003", "P0002"),
        (
            Turn("P0002", "I sold the car in May and cycle to work now.", backchannel="I see."),
            Turn("P0003", "Really? How far do you have to ride?", gap_s=0.18),
            Turn("P0002", "About nine kilometres, mostly along the river.", gap_s=-0.08),
            Turn("P0003", "That sounds lovely.", gap_s=0.2),
            Turn("P0003", "But what do you do when it rains?", gap_s=0.3),
            Turn("P0002", "I put on a big coat and complain about it.", gap_s=0.42, lead_s=0.08),
        ),
        (
            Item(
                0,
                1,
                _replies("It is nine kilometres, so not too bad.", "It is a little under ten kilometres.", ""),
            ),
            Item(
                2,
                4,
                _replies(
                    "I take the bus whenever it looks like rain.",
                    "On those days I usually take the train.",
                    "Then I stay at home and work from there.",
                ),
            ),
        ),
    ),
    Conversation(
        "V00_S0004_I00000006",
        "naturalistic",
        ("P0002", "P0001"),
        (
            Turn("P0001", "I fell asleep halfway through that film."),
            Turn("P0002", "So did I, and I paid for both tickets.", gap_s=0.22),
            Turn("P0001", "Would you watch the second part with me?", gap_s=0.3),
            Turn("P0002", "Only if you promise to keep me awake.", gap_s=0.2),
        ),
        (
            Item(
                0,
                2,
                _replies(
                    "Sure, just tell me which evening.",
                    "I would, if it is shorter than the first.",
                    "Yes, but this time I choose the seats.",
                ),
            ),
        ),
    ),
    Conversation(
        "V00_S0005_I00000007",
        "naturalistic",
        ("P0001", "P0002"),
        (
            Turn("P0002", "My daughter wants to learn the drums."),
            Turn("P0001", "Your poor neighbours.", gap_s=0.15),
            Turn("P0002", "Did you play anything as a child?", gap_s=0.28),
            Turn("P0001", "The violin, but never well enough to enjoy it.", gap_s=0.15, lead_s=0.04),
        ),
        (
            Item(
                0,
                2,
                _replies(
                    "Yes, I played the piano for years.",
                    "I had guitar lessons for a short while.",
                    "Some piano, but I gave it up at school.",
                ),
            ),
        ),
    ),
)
