"""The card of timing statistics: what they are, how well they work, what they cannot hear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spear_ray.turntaking.bench_tables import markdown
from spear_ray.turntaking.timing_model import TimingModel

POPULATION = (
    ("conversations", "conversations", "{:.0f}"),
    ("hours", "hours", "{:.1f}"),
    ("silence_share", "share of time in which nobody speaks", "{:.3f}"),
    ("overlap_share", "share of time in which both speak", "{:.3f}"),
    ("median_gap_s", "median gap between the speakers, s", "{:.2f}"),
    ("gap_p90_s", "90th percentile of gaps, s", "{:.2f}"),
    ("median_pause_s", "median pause within a turn, s", "{:.2f}"),
    ("pause_p90_s", "90th percentile of pauses, s", "{:.2f}"),
    ("median_overlap_s", "median overlap, s", "{:.2f}"),
    ("changes_per_minute", "changes of the floor per minute", "{:.1f}"),
)


def card(model: TimingModel) -> str:
    """The card in Markdown; every number in it was measured by the run that fitted the statistics."""
    facts = model.facts
    parts = [_header(model), _accuracy(facts), _calibration(facts)]
    if "ablation" in facts:
        parts.append(_ablation(facts["ablation"]))
    parts.append(_population(facts))
    if "compared" in facts:
        parts.append(_comparison(facts))
    return "\n".join([*parts, _limits()])


def _header(model: TimingModel) -> str:
    facts = model.facts
    return (
        f"# Timing statistics `{facts['name']}`\n\n"
        f"Data: {facts['title']}. Fitted on {facts['date']} on {facts['fitted_conversations']} conversations"
        f" ({facts['fitted_hours']:.1f} hours); measured on others. The file holds smooth curves only: nobody's words,"
        " voice or talk can be got back from it.\n\n"
        "Method: the two sides' speech is cut into sojourns (the holder of the floor speaks alone, nobody speaks, both"
        " do). For each state two competing hazards, smooth in log time, say how it ends and when, given what went"
        f" before ({', '.join(model.groups)}). A sojourn's surprise is its negative log density in nats; a dialogue's"
        " score is half their mean and half the mean of the worst quarter, the first 3 s not counted.\n"
    )


def _accuracy(facts: Mapping[str, Any]) -> str:
    return (
        "## How well it tells natural from edited timing\n\n"
        "Clips of 20 to 25 s of unseen conversations against the same clips with one edit; 0.5 is chance."
        " In brackets: 95 % intervals from resampling conversations.\n\n" + markdown(facts["accuracy"])
    )


def _calibration(facts: Mapping[str, Any]) -> str:
    natural = facts["natural"]
    return (
        "## Natural dialogues\n\n"
        f"`dialog_nll` of unseen natural clips of 20 to 25 s: {_spread(natural)}. By length:\n\n"
        + _table(
            ("clip, s", "mean", "5th percentile", "median", "95th percentile"),
            [
                (f"{row['seconds']:g}", *(f"{row[key]:.2f}" for key in ("mean", "q05", "median", "q95")))
                for row in facts["by_length"]
            ],
        )
    )


def _ablation(rows: Sequence[Mapping[str, Any]]) -> str:
    kinds = list(rows[0]["pairwise_accuracy"])
    return (
        "\n## What helped\n\n"
        "The same fit with ever more context: mean surprise per event of unseen clips (lower is a better description"
        " of natural talk), and pairwise accuracy by kind of edit, which need not rise with it.\n\n"
        + _table(
            ("context", "nats per event", *kinds, "mean"),
            [
                (
                    ("**" if row["chosen"] else "")
                    + (f"+ {row['groups'][-1]}" if row["groups"] else "none")
                    + (" (shipped)**" if row["chosen"] else ""),
                    f"{row['nll_per_event']:.4f}",
                    *(f"{row['pairwise_accuracy'][kind]:.3f}" for kind in kinds),
                    f"{row['overall']:.3f}",
                )
                for row in rows
            ],
        )
    )


def _population(facts: Mapping[str, Any]) -> str:
    columns = [facts["population"]]
    names = ["this population"]
    if "compared" in facts:
        columns.append(facts["compared"]["population"])
        names.append("the other one")
    rows = [(label, *(form.format(one[key]) for one in columns)) for key, label, form in POPULATION]
    return "\n## The population\n\n" + _table(("", *names), rows)


def _comparison(facts: Mapping[str, Any]) -> str:
    compared = facts["compared"]
    return (
        "\n## On another population\n\n"
        f"Natural clips of the other population score {_spread(compared['natural'])} with these statistics; those of"
        f" their own {_spread(facts['natural'])}. Edits of the other population's clips:\n\n"
        + markdown(compared["accuracy"])
        + "\nUse statistics of people who talk in the same setting, or fit your own: `jobs/fit_timing.py`.\n"
    )


def _limits() -> str:
    return (
        "## What it cannot hear\n\n"
        "It knows when somebody speaks, not what or how. Whether a pause sounds finished, whether a turn answers the"
        " question, laughter, breath, tone and words do not reach it: that is why turns put into a pause, and pauses"
        " put where a turn was, are hard for it. It takes the voice activity detector's word for what is speech.\n"
    )


def _spread(values: Mapping[str, float]) -> str:
    return f"mean {values['mean']:.2f}, 5th to 95th percentile {values['q05']:.2f} to {values['q95']:.2f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "".join(_lines([header, ["---"] * len(header), *rows]))


def _lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    return (f"| {' | '.join(row)} |\n" for row in rows)
