"""From a manifest of rated exchanges to judge_agreement.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spear_ray import bench
from spear_ray.config import load
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.judging.agreement import ATTRIBUTES, CHANCE, PUBLISHED, SOURCE, Rated, Sampling, agreement
from spear_ray.ledger import Ledger
from spear_ray.sources.exchanges import REQUIRED
from spear_ray.sources.recordings import id_of, text_of
from spear_ray.sources.tables import Row, read_csv
from spear_ray.store import Store, split_file

if TYPE_CHECKING:
    from rich.console import Console

SCORER = "wavreward"
RESULT = "judge_agreement.json"
FIXED = ("data.layout=exchanges", f"scorers=[{SCORER}]", "data.asking_channel=0")


def run_agreement(words: Sequence[str], console: Console) -> tuple[dict[str, Any], str, int]:
    """Judge every exchange of the manifest that `data.uri` names, and compare with people's scores.

    The rows are those of an ordinary run at `run.uri`, which can be stopped and continued.

    Returns:
        What stands in judge_agreement.json, where it is, and the run's exit code.

    Raises:
        RequestError: the manifest or the judge cannot be used.
        InfrastructureError: the cluster or the store failed.
    """
    config = load([*words, *FIXED])
    if not config.data.uri.endswith(".csv"):
        raise ConfigError(f"data.uri={config.data.uri}: name the CSV file of the exchanges")
    people = _people(config.data.uri)
    outcome = bench.run(config, console, [*words, *FIXED], explicit=True)
    store = Store(config.run.uri)
    record = json.loads(store.read("run.json"))
    entry = record["scorers"][SCORER]
    metrics = _metrics(Ledger(store), str(entry["fingerprint"]))
    board = config.leaderboard
    rated = [_rated(name, row, metrics.get(name, {})) for name, row in people.items() if name in metrics]
    result = {
        **agreement(rated, Sampling(board.resamples, board.confidence, board.seed)),
        "judge": entry["identity"]["judge"],
        "fingerprint": entry["fingerprint"],
        "counts": dict(outcome.counts),
        "data": record["data"],
        "versions": record["versions"],
    }
    store.write(RESULT, (json.dumps(result, indent=2) + "\n").encode())
    return result, store.url(RESULT), outcome.exit_code


def table(result: Mapping[str, Any]) -> str:
    """The result as text, beside what is published."""
    lines = [f"{result['n']} of {result['n_total']} exchanges judged; equal scores by chance: {CHANCE:.1%}", ""]
    lines.append(f"{'attribute':24}{'equal scores':>32}{'n':>7}   published: Qwen2.5-Omni, WavReward")
    for name, entry in {"all": result["accuracy"], **result["by_attribute"]}.items():
        lines.append(f"{name:24}{_share(entry):>32}{entry['n']:>7}   {_published(name)}")
    lines += ["", f"{'order of pairs':24}{_share(result['preference']):>32}{result['preference']['n']:>7}"]
    for key in ("spearman", "kendall"):
        lines.append(f"{key:24}{_number(result[key]):>32}{result[key]['n']:>7}")
    lines += ["", "people's score: judge's label 1, 3, 5"]
    lines += [f"{human:>14}: {', '.join(map(str, row.values()))}" for human, row in result["confusion"].items()]
    return "\n".join([*lines, "", SOURCE])


def _people(uri: str) -> dict[str, Row]:
    """The manifest's rows by id.

    Raises:
        DataLayoutError: a human score is not a number from 1 to 5.
    """
    store, name = split_file(uri)
    store.check()
    rows, _ = read_csv(store, name, REQUIRED)
    for index, row in enumerate(rows):
        text = text_of(row, "human_score")
        try:
            fits = 1 <= float(text) <= 5
        except ValueError:
            fits = False
        if not fits:
            raise DataLayoutError(f"{uri} row {index + 2}: human_score='{text}' is no number from 1 to 5")
    found = {id_of(row, index): row for index, row in enumerate(rows)}
    if len(found) < len(rows):
        raise DataLayoutError(f"{uri}: {len(rows) - len(found)} ids are used more than once")
    return found


def _metrics(ledger: Ledger, fingerprint: str) -> dict[str, dict[str, float]]:
    rows = ledger.read(SCORER, fingerprint)
    ids, values = (rows.column(key).to_pylist() for key in ("dialogue_id", "metrics"))
    return {name: dict(one or ()) for name, one in zip(ids, values, strict=True)}


def _rated(name: str, row: Row, metrics: Mapping[str, float]) -> Rated:
    nan = float("nan")
    return Rated(
        human=float(text_of(row, "human_score")),
        label=metrics.get("label", nan),
        expected=metrics.get("score", nan),
        attribute=text_of(row, "attribute"),
        cluster=text_of(row, "conversation_id") or text_of(row, "pair") or name,
        pair=text_of(row, "pair"),
    )


def _share(entry: Mapping[str, Any]) -> str:
    if entry["value"] is None:
        return "–"
    ends = "" if entry["low"] is None else f" [{100 * entry['low']:.1f}, {100 * entry['high']:.1f}]"
    return f"{100 * entry['value']:.1f} %{ends}"


def _number(entry: Mapping[str, Any]) -> str:
    if entry["value"] is None:
        return "–"
    ends = "" if entry["low"] is None else f" [{entry['low']:.3f}, {entry['high']:.3f}]"
    return f"{entry['value']:.3f}{ends}"


def _published(attribute: str) -> str:
    if attribute not in ATTRIBUTES:
        return ""
    place = ATTRIBUTES.index(attribute)
    return f"{PUBLISHED['Qwen2.5-Omni, prompted'][place]:.1f} %, {PUBLISHED['WavReward'][place]:.1f} %"
