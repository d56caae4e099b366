"""What the leaderboard shows of `quality`."""

from __future__ import annotations

from spear_ray.scorers.base import Metric

CAUTION = " Human recordings score lower than clean synthetic speech: what counts is how near a system is to people."

METRICS = (
    Metric(
        name="distillmos",
        unit="MOS",
        direction="human",
        headline=True,
        about="DistillMOS, an estimate of rated speech quality from 1 to 5." + CAUTION,
    ),
    Metric(
        name="utmos",
        unit="MOS",
        direction="human",
        column="UTMOS",
        about="UTMOS22, an estimate of rated naturalness of synthetic speech from 1 to 5." + CAUTION,
    ),
    Metric(name="dnsmos_ovrl", unit="MOS", direction="human", about="DNSMOS P.835, overall." + CAUTION),
    Metric(name="dnsmos_sig", unit="MOS", direction="human", about="DNSMOS P.835, of the speech signal."),
    Metric(name="dnsmos_bak", unit="MOS", direction="human", about="DNSMOS P.835, of the background."),
    Metric(name="dnsmos_p808", unit="MOS", direction="human", about="DNSMOS P.808."),
)
