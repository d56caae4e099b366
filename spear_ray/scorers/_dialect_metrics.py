"""What the leaderboard shows of `dialect`: each metric with its denominator, base rates beside agreement."""

from __future__ import annotations

from spear_ray.dialects.labels import keys
from spear_ray.scorers.base import Metric

QUESTION = keys("question")
ANSWER = keys("answer")

METRICS = (
    Metric(
        name="same_dialect_as_question_%",
        key="same_dialect",
        scale=100,
        unit="%",
        direction="human",
        headline=True,
        column="same_dialect_as_question_%",
        about="Answers whose dialect is that of the question, among English answers with both labels.",
    ),
    Metric(
        name="same_dialect_base_rate_%",
        keys=("question_dialect", "answer_dialect"),
        reducer="largest_share",
        scale=100,
        unit="%",
        direction="none",
        about="What always answering in the questions' commonest dialect would score in same_dialect_as_question_%.",
    ),
    Metric(
        name="english_answers_%",
        key="english",
        scale=100,
        unit="%",
        direction="human",
        column="english_answers_%",
        about="English answers among those whose language was recognised.",
    ),
    Metric(
        name="north_american_dialect_%",
        key="north_american",
        scale=100,
        unit="%",
        direction="human",
        column="north_american_dialect_%",
        about="Answers in a North American dialect among English answers with a label.",
    ),
    Metric(
        name="north_american_questions_%",
        key="question_north_american",
        scale=100,
        unit="%",
        direction="none",
        about="Questions in a North American dialect, among questions of English answers: the base rate.",
    ),
    Metric(
        name="dialect_entrainment",
        keys=(*QUESTION, *ANSWER),
        reducer="mean_spearman",
        unit="rho",
        direction="human",
        about="Does the answer move with the question? Spearman's rank correlation over rows of question and answer"
        " log-probabilities, for each of the 16 dialects, averaged. Rows with both sides count.",
    ),
    Metric(
        name="dialect_entrainment_slope",
        keys=(*QUESTION, *ANSWER),
        reducer="flattened_slope",
        unit="slope",
        direction="none",
        column="dialectal_entrainment_spearman",
        about="SPEARBench's value, which is no correlation: one regression over all dialects and rows of min-max scaled"
        " log-probabilities. Mostly it says that both sides have the same common dialects.",
    ),
    Metric(
        name="dialect_variance",
        keys=ANSWER,
        reducer="total_variance",
        unit="nats²",
        direction="human",
        column="dialectal_variance",
        about="How much answers differ in dialect: trace of the sample covariance of answer log-probabilities.",
    ),
    Metric(
        name="dialect_entrainment_slope_log_odds",
        keys=(*QUESTION, *ANSWER),
        transform="log_odds",
        reducer="flattened_slope",
        unit="slope",
        direction="none",
        about="dialect_entrainment_slope of log-odds instead of log-probabilities; what the published code takes"
        " is not known.",
    ),
    Metric(
        name="dialect_variance_log_odds",
        keys=ANSWER,
        transform="log_odds",
        reducer="total_variance",
        unit="nats²",
        direction="human",
        about="dialect_variance of log-odds instead of log-probabilities.",
    ),
    Metric(
        name="language_probability",
        unit="p",
        direction="none",
        about="Probability of the recognised language of the answer.",
    ),
)
