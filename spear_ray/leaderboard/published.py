"""SPEARBench's own aggregation of its per-row files into one line of its table, for parity.

The arithmetic is in `published_rules`, pure functions on arrays. The rows of all subsets are joined first,
then each column is one number over all rows.
Rules that one would not expect are kept on purpose, and only here:

- `interruptions_%` counts a row without a value as no interruption, `interrupted_time_ms` leaves it out;
- negative latencies are discarded;
- a plain `WER` column is ignored as soon as one subset has a `WER_*` column;
- no interruptions are shown for systems that cannot interrupt, chosen by name (`NOT_FULL_DUPLEX`);
- `dialectal_entrainment_spearman` is a regression slope, not a rank correlation;
- stances are turned round for only four of the negative categories, so "more negative" changes its meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from spear_ray.leaderboard.published_rules import (
    DIALECTS,
    Table,
    deviation,
    dialect_vector,
    entrainment_slope,
    error_rates,
    interruption_share,
    joined_numbers,
    joined_texts,
    mean,
    pearson,
    stance_reference,
    stance_shares,
    total_variance,
)
from spear_ray.leaderboard.spearbench import VALUE_COLUMNS

NOT_FULL_DUPLEX = frozenset({"gpt-audio-1.5", "mini-omni", "Qwen2.5-Omni-7B"})
"""Systems whose interruptions the published table leaves out."""

NORTH_AMERICA = "North America"
NOT_A_DIALECT = frozenset({"", "nan", "unpredicted"})
NOT_A_LANGUAGE = ("unknown", "unkown")
F0_COLUMNS = ("f0_min_raw", "f0_p10", "f0_p25", "f0_median_raw", "f0_p75", "f0_p90", "f0_max_raw")

FILES = {
    "base": "base_metrics.csv",
    "language": "language_id.csv",
    "dialect": "dialect_id.csv",
    "turn_taking": "turntaking.group4-dualturn-full-all6-fvad256.csv",
    "naturalness": "naturalness_scores_normalized.csv",
    "emotion": "SER_AVD.csv",
    "stance": "merged_stances.csv",
    "prosody": "distrib_baselines_features_normalized.csv",
    "dialect_vectors": "dialect_logits.csv",
}
"""Names of the per-row files: one for each subset, but `dialect_vectors` is one for all subsets."""


def benchmark_values(system: str, tables: Mapping[str, Sequence[Table]], subsets: Sequence[str]) -> dict[str, float]:
    """The value columns of one system's line, and the standard deviations that the published code can add.

    Args:
        system: name, for `NOT_FULL_DUPLEX`.
        tables: by the keys of `FILES`, one table for each subset that has the file.
        subsets: whose dialect vectors count.

    Returns:
        Every column of `VALUE_COLUMNS` and, for those that are plain means, `<column>_std` (n - 1); NaN where
        there is nothing.
    """
    found = dict.fromkeys(VALUE_COLUMNS, float("nan"))
    found |= _base(system, tables.get("base", ()))
    found |= _labels(tables)
    found |= _means(tables)
    for name in ("arousal", "valence", "dominance"):
        question = joined_numbers(tables.get("emotion", ()), f"question_{name}")
        answer = joined_numbers(tables.get("emotion", ()), f"answer_{name}")
        found[f"{name}_question_answer_corr"] = pearson(question, answer)
    found |= _vectors(tables.get("dialect_vectors", ()), subsets)
    found |= _stances(tables.get("stance", ()))
    return found


def _base(system: str, tables: Sequence[Table]) -> dict[str, float]:
    mos, latency = joined_numbers(tables, "UTMOS"), joined_numbers(tables, "latency")
    latency = latency[latency >= 0]
    overlap = joined_numbers(tables, "interrupted")
    found = {"UTMOS": mean(mos), "UTMOS_std": deviation(mos)}
    for kind in ("WER", "CER"):
        rates = 100 * error_rates(tables, kind)
        found |= {f"{kind}_%": mean(rates), f"{kind}_%_std": deviation(rates)}
    found |= {"latency_ms": mean(latency), "latency_ms_std": deviation(latency)}
    columns = {name for table in tables for name in table}
    if system in NOT_FULL_DUPLEX or not columns & {"interrupted", "interruptions"}:
        return found | {"interrupted_time_ms_std": float("nan")}
    share = interruption_share(overlap, joined_numbers(tables, "interruptions"))
    return found | {
        "interrupted_time_ms": mean(overlap),
        "interrupted_time_ms_std": deviation(overlap),
        "interruptions_%": 100 * share,
    }


def _labels(tables: Mapping[str, Sequence[Table]]) -> dict[str, float]:
    languages = [text.lower() for text in joined_texts(tables.get("language", ()), "language")]
    known = [text for text in languages if text and not text.startswith(NOT_A_LANGUAGE)]
    questions = joined_texts(tables.get("dialect", ()), "dialect")
    answers = joined_texts(tables.get("dialect", ()), "answer_dialect")
    pairs = [pair for pair in zip(questions, answers, strict=True) if not NOT_A_DIALECT.intersection(pair)]
    labelled = [answer for answer in answers if answer not in NOT_A_DIALECT]
    return {
        "english_answers_%": _percent([text == "eng" for text in known]),
        "same_dialect_as_question_%": _percent([question == answer for question, answer in pairs]),
        "north_american_dialect_%": _percent([answer == NORTH_AMERICA for answer in labelled]),
    }


def _means(tables: Mapping[str, Sequence[Table]]) -> dict[str, float]:
    turn_taking = joined_numbers(tables.get("turn_taking", ()), "naturalness_score")
    found = {"turn_taking_naturalness": mean(turn_taking)}
    for column, kind, source in (
        ("emotional_naturalness_logit", "naturalness", "naturalness_logit"),
        ("explainable_duration_s", "prosody", "total_duration_s"),
        ("explainable_voiced_ratio", "prosody", "voiced_ratio"),
    ):
        values = joined_numbers(tables.get(kind, ()), source)
        found |= {column: mean(values), f"{column}_std": deviation(values)}
    spreads = [deviation(joined_numbers(tables.get("prosody", ()), name)) for name in F0_COLUMNS]
    return found | {"explainable_normalized_f0_std_avg": mean(np.array(spreads))}


def _vectors(tables: Sequence[Table], subsets: Sequence[str]) -> dict[str, float]:
    questions, answers = [], []
    for table in tables:
        columns = (table["subset"], table["question_log_logits"], table["answer_log_logits"])
        for subset, question, answer in zip(*columns, strict=True):
            pair = dialect_vector(question), dialect_vector(answer)
            if subset in subsets and pair[0] is not None and pair[1] is not None:
                questions.append(pair[0])
                answers.append(pair[1])
    shape = (-1, DIALECTS)
    return {
        "dialectal_entrainment_spearman": entrainment_slope(np.reshape(questions, shape), np.reshape(answers, shape)),
        "dialectal_variance": total_variance(np.reshape(answers, shape)),
    }


def _stances(tables: Sequence[Table]) -> dict[str, float]:
    categories = joined_texts(tables, "target_category")
    related = joined_texts(tables, "stance_related_categories")
    derived = [stance_reference(*pair) for pair in zip(categories, related, strict=True)]
    references = np.array(derived, dtype=np.float64)
    if any("score_reference" in table for table in tables):
        references = joined_numbers(tables, "score_reference")
    same, negative, positive = stance_shares(references, joined_numbers(tables, "score_llm"), categories)
    return {
        "stance_same_as_question_%": 100 * same,
        "stance_more_negative_%": 100 * negative,
        "stance_more_positive_%": 100 * positive,
    }


def _percent(hits: Sequence[bool]) -> float:
    return 100 * float(np.mean(hits)) if hits else float("nan")
