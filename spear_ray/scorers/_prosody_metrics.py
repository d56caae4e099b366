"""What the leaderboard shows of `prosody`."""

from __future__ import annotations

from spear_ray.prosody.f0 import NORMALISED
from spear_ray.scorers.base import Metric

SPEAKER = "answered_speaker"
"""A key of rows that stands for the speaker, no measurement: it has no line of its own on the leaderboard."""
DURATION = "total_duration_s"

F0 = {
    "f0_mean_raw": "Mean pitch of the voiced frames",
    "f0_median_raw": "Median pitch",
    "f0_min_raw": "Lowest pitch",
    "f0_max_raw": "Highest pitch",
    "f0_range_raw": "Highest less lowest pitch",
    "f0_std_raw": "Standard deviation of the pitch over voiced frames",
    "f0_p10": "10th percentile of the pitch",
    "f0_p25": "25th percentile of the pitch",
    "f0_p75": "75th percentile of the pitch",
    "f0_p90": "90th percentile of the pitch",
    "f0_range_p25_p75": "From the 25th to the 75th percentile of the pitch",
    "f0_mean_p10_p90": "Mean pitch within its 10th and 90th percentile",
    "f0_mean_p25_p75": "Mean pitch within its 25th and 75th percentile",
    "f0_std_p10_p90": "Standard deviation of the pitch within its 10th and 90th percentile",
    "f0_std_p25_p75": "Standard deviation of the pitch within its 25th and 75th percentile",
}
VOICE = {
    "energy_db": ("dB", "Level of the answer's speech re full scale, median over frames; sensitive to gain"),
    "hf500_db": ("dB", "Brightness: energy above 500 Hz over energy below in the answer's speech, median over frames"),
}
TEMPORAL = {
    "speech_rate_wps": ("words/s", "Words per second of talk, pauses included"),
    "speech_rate_wpm": ("words/min", "Words per minute of talk, pauses included"),
    "articulation_rate_wps": ("words/s", "Words per second of talk, pauses left out"),
    "articulation_rate_wpm": ("words/min", "Words per minute of talk, pauses left out"),
    "pause_ratio": ("share", "Share of talk that is pauses of 0.2 s or more between words"),
    "pause_count": ("per answer", "Pauses of 0.2 s or more between words"),
    "pause_mean_s": ("s", "Mean length of the pauses between words; answers with a pause"),
    "pause_total_s": ("s", "All pauses between words together"),
}
VAD = {
    "vad_pause_ratio": (
        "share",
        "Share of talk that is pauses of 0.2 s or more between voice activity; no words needed",
    ),
    "vad_speech_s": ("s", "Speech in the answer by voice activity"),
    "vad_pause_count": ("per answer", "Pauses of 0.2 s or more between voice activity; no words needed"),
    "vad_pause_mean_s": ("s", "Mean length of the pauses between voice activity; answers with a pause"),
    "vad_pause_total_s": ("s", "All pauses between voice activity together"),
}
LEXICAL = {
    "words": ("words", "Words of the answer"),
    "ttr": ("share", "Type-token ratio: different words over words; falls with length"),
    "mattr_50": ("share", "Type-token ratio averaged over windows of 50 words; answers that are as long"),
    "mattr_500": ("share", "Type-token ratio averaged over windows of 500 words; answers that are as long"),
    "mtld": ("words", "Mean length of passages that keep a type-token ratio above 0.72; answers of 50 words or more"),
    "hapax_ratio": ("share", "Words that occur once over all words; falls with length"),
    "entropy": ("bits", "Entropy of the answer's word frequencies"),
    "backchannel_ratio": ("share", "Share of segments that are only yeah, okay, ok, uh or um"),
    "discourse_marker_ratio": ("per word", "How often 'you know', 'I mean', 'kind of', 'sort of' are said"),
}
TALK = "within stretches of talk (SPEARBench: of at least 12.1 s)"

METRICS = (
    Metric(
        name="f0_range_p10_p90",
        unit="Hz",
        direction="human",
        headline=True,
        about="How far pitch moves within an answer: from its 10th to its 90th percentile. High voices move further in"
        " Hz.",
    ),
    Metric(
        name="explainable_duration_s",
        key=DURATION,
        unit="s",
        direction="human",
        column="explainable_duration_s",
        about="Mean duration of the answers' audio, pauses included.",
    ),
    Metric(
        name="explainable_voiced_ratio",
        key="voiced_ratio",
        unit="share",
        direction="human",
        column="explainable_voiced_ratio",
        about="Share of pitch frames that are voiced.",
    ),
    Metric(
        name="explainable_normalized_f0_std_avg",
        keys=(SPEAKER, "f0_mean_raw", *NORMALISED),
        reducer="normalised_deviation",
        unit="ratio",
        direction="human",
        column="explainable_normalized_f0_std_avg",
        about="How far pitch differs between answers: standard deviation over rows of seven percentiles of pitch, each"
        " over the mean pitch of the answers to the same speaker, averaged.",
    ),
    *(Metric(name=name, unit="Hz", direction="human", about=f"{about}.") for name, about in F0.items()),
    *(Metric(name=name, unit=unit, direction="human", about=f"{about}.") for name, (unit, about) in VOICE.items()),
    *(
        Metric(name=name, unit=unit, direction="human", about=f"{about}, {TALK}. Needs word times.")
        for name, (unit, about) in TEMPORAL.items()
    ),
    *(
        Metric(
            name=name,
            unit=unit,
            direction="human",
            about=f"{about}." if name == "vad_speech_s" else f"{about}, {TALK}.",
        )
        for name, (unit, about) in VAD.items()
    ),
    *(
        Metric(name=f"lexical_{name}", unit=unit, direction="human", about=f"{about}.")
        for name, (unit, about) in LEXICAL.items()
    ),
)
