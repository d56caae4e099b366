"""The system-level values of `stance`."""

from __future__ import annotations

from spear_ray.judging.stances import STANCES
from spear_ray.scorers.base import Metric


def _poles(index: int) -> str:
    stance = STANCES[index]
    return f"{'/'.join(stance.positive)} (+2) or {'/'.join(stance.negative)} (-2)".lower()


METRICS = (
    *(
        Metric(
            name=f"stance_{stance.name}",
            key=f"stance_score_{stance.id}",
            unit="-2..2",
            direction="human",
            about=f"{stance.id}: does the answer come across as {_poles(place)}? Mean of both orders of the question.",
        )
        for place, stance in enumerate(STANCES)
    ),
    *(
        Metric(
            name=f"stance_{stance.name}_probability",
            key=f"stance_probability_{stance.id}",
            unit="probability",
            direction="human",
            about=f"{stance.id}: the judge's probability of the positive pole.",
        )
        for stance in STANCES
    ),
    Metric(
        name="stance_flip_%",
        key="flip_rate",
        unit="%",
        scale=100,
        direction="lower",
        about="Stances whose pole changes with the order of the two descriptions: the judge's doubt, not the system's.",
    ),
    Metric(
        name="stance_mass",
        key="mass",
        unit="probability",
        direction="none",
        about="Probability that the judge gave to P or N at all, the smallest of a row; far below 1 it says little.",
    ),
    Metric(
        name="stance_same_%",
        key="same_stance",
        unit="%",
        scale=100,
        direction="higher",
        column="stance_same_as_question_%",
        about="Rows whose judged stance has the sign of the role that was acted; only rows with a known role.",
    ),
    Metric(
        name="stance_more_negative_%",
        key="more_negative",
        unit="%",
        scale=100,
        direction="lower",
        column="stance_more_negative_%",
        about="Rows whose judged stance lies below the acted one.",
    ),
    Metric(
        name="stance_more_positive_%",
        key="more_positive",
        unit="%",
        scale=100,
        direction="lower",
        column="stance_more_positive_%",
        about="Rows whose judged stance lies above the acted one.",
    ),
)
