"""What the leaderboard shows of `emotion`."""

from __future__ import annotations

from spear_ray.scorers.base import Metric

DIMENSIONS = ("arousal", "valence", "dominance")
NATURALNESS = "naturalness_logit"
VOCAL = "vocal_arousal"
VOICE = ("log_f0", "intensity_db", "hf500_db")
"""Names of `VoiceFeatures`; as metric keys with `question_voice_` or `answer_voice_` in front."""

METRICS = (
    Metric(
        name="emotional_naturalness_logit",
        key=NATURALNESS,
        unit="logit",
        direction="higher",
        headline=True,
        column="emotional_naturalness_logit",
        about="TRACE: do question and answer belong to one emotional exchange? Rows with question and answer. Shifted"
        " only where leaderboard.naturalness_dev_run names a run; else as the network gives it.",
    ),
    Metric(
        name="naturalness_probability",
        unit="p",
        direction="higher",
        about="Sigmoid of TRACE's logit, before any shift.",
    ),
    *(
        Metric(
            name=f"{name}_question_answer_corr",
            keys=(f"question_{name}", f"answer_{name}"),
            reducer="pearson",
            unit="r",
            direction="human",
            column=f"{name}_question_answer_corr",
            about=f"Pearson's r over rows between the {name} of question and answer. Rows with both count.",
        )
        for name in DIMENSIONS
    ),
    *(
        Metric(
            name=f"{side}_{name}",
            unit="0-1",
            direction="human" if side == "answer" else "none",
            about=f"Mean {name} of the {side}, as the network predicts it.",
        )
        for side in ("answer", "question")
        for name in DIMENSIONS
    ),
    Metric(
        name="vocal_arousal_question_answer_corr",
        keys=(f"question_{VOCAL}", VOCAL),
        reducer="pearson",
        unit="r",
        direction="human",
        about="Pearson's r over rows between the vocal arousal of question and answer, by rules and without a model."
        " Rows count where both voices have a baseline.",
    ),
    Metric(
        name=VOCAL,
        unit="-1 to 1",
        direction="none",
        about="Vocal arousal of the answer against the same voice's other speech: what people said before, or a"
        " system's other answers, where it is 0 on average by construction.",
    ),
    Metric(
        name=f"question_{VOCAL}",
        unit="-1 to 1",
        direction="none",
        about="Vocal arousal of the question against what the asking speaker said before.",
    ),
)
