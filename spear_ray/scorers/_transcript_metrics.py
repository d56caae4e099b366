"""What the leaderboard shows of `transcript`."""

from __future__ import annotations

from spear_ray.scorers.base import Metric

METRICS = (
    Metric(
        name="WER_%",
        key="spear_wer",
        scale=100,
        unit="%",
        direction="human",
        headline=True,
        column="WER_%",
        about="SPEARBench's word error rate between what a system meant to say and what is heard, by one recogniser;"
        " its table pools two. Case and punctuation count, and people's own transcripts differ from any recogniser, so"
        " nearer to the human system is better. Rows with a reference count.",
    ),
    Metric(
        name="CER_%",
        key="spear_cer",
        scale=100,
        unit="%",
        direction="human",
        column="CER_%",
        about="SPEARBench's character error rate, as WER_%.",
    ),
    Metric(
        name="wer_normalised_%",
        key="wer",
        scale=100,
        unit="%",
        direction="human",
        about="Word error rate after both texts went through Whisper's English normaliser: case, punctuation,"
        " hesitations and forms of numbers no longer count.",
    ),
    Metric(
        name="cer_normalised_%",
        key="cer",
        scale=100,
        unit="%",
        direction="human",
        about="Character error rate after Whisper's English normaliser.",
    ),
    Metric(
        name="transcript_words",
        key="words",
        unit="count",
        direction="human",
        about="Words that are heard in an answer. English answers with words count.",
    ),
)
