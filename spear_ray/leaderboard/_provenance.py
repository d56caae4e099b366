"""The report's sections on what is missing and on how the run was made."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from spear_ray.leaderboard._tables import scrolled
from spear_ray.leaderboard.board import Board, Outcome
from spear_ray.leaderboard.text import ABSENT

SHOWN_IDS = 20
"""Dialogue ids listed for each scorer, status and code."""


def skipped_section(board: Board, run: Mapping[str, Any]) -> str:
    """Rows that were skipped or in error, by scorer, system and code, and scorers that did not run."""
    missing = [one for one in board.outcomes if one.status != "ok"]
    total, lacking = sum(one.count for one in board.outcomes), sum(one.count for one in missing)
    summary = (
        f"{total - lacking} of {total} rows were scored; {lacking} were skipped or in error, over all splits."
        if lacking
        else f"All {total} rows were scored."
    )
    return (
        f"<section><h2>What was skipped or in error, and why</h2><p class='lead'>{summary}</p>"
        f"{_scorers_without_rows(board, run)}{_outcome_table(missing)}{_examples(missing)}</section>"
    )


def provenance_section(run: Mapping[str, Any]) -> str:
    """Command line, versions, fingerprints, configuration."""
    command = shlex.join(str(word) for word in run.get("command") or ())
    config = "\n".join(outline(run["config"])) if run.get("config") else ""
    parts = (
        f"<pre><code>{escape(command)}</code></pre>" if command else "",
        _fact_table(run),
        _scorer_table(run),
        _notes(run),
        f"<details><summary>Configuration</summary><pre>{escape(config)}</pre></details>" if config else "",
    )
    if not any(parts):
        return ""
    return (
        "<section><h2>How this was run, and how to run it again</h2><p class='lead'>The same command on the"
        " same data gives the same fingerprints; values with other fingerprints are not comparable.</p>"
        f"{''.join(parts)}</section>"
    )


def outline(value: Any, indent: str = "") -> Iterator[str]:
    """Nested mappings and lists as indented lines."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            nested = isinstance(inner, Mapping) and bool(inner)
            yield f"{indent}{key}:" if nested else f"{indent}{key}: {_scalar(inner)}"
            if nested:
                yield from outline(inner, indent + "  ")
    else:
        yield indent + _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(_scalar(one) for one in value)}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value) if value != "" else "''"


def _scorers_without_rows(board: Board, run: Mapping[str, Any]) -> str:
    seen = {one.scorer for one in board.outcomes}
    items = "".join(
        f"<li><b>{escape(str(name))}</b> has no rows: {escape(_status(facts))}</li>"
        for name, facts in (run.get("scorers") or {}).items()
        if name not in seen
    )
    return f"<ul class='notes'>{items}</ul>" if items else ""


def _status(facts: Mapping[str, Any]) -> str:
    words = [str(facts[key]) for key in ("status", "message") if facts.get(key)]
    return ": ".join(words) or "no reason was recorded"


def _outcome_table(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    lines = "".join(
        f"<tr><td class='text'>{escape(one.scorer)}</td><td class='text'>{escape(one.system)}</td>"
        f"<td class='text'><span class='{escape(one.status)}'>{escape(one.status)}</span></td>"
        f"<td class='text'><code>{escape(one.code)}</code></td>"
        f"<td>{one.count}</td><td class='text wide'>{escape(one.message) or ABSENT}</td></tr>"
        for one in outcomes
    )
    heads = "".join(f"<th class='text' scope='col'>{name}</th>" for name in ("scorer", "system", "status", "code"))
    return scrolled(
        f"<thead><tr>{heads}<th scope='col'>rows</th><th class='text' scope='col'>for example</th></tr>"
        f"</thead><tbody>{lines}</tbody>"
    )


def _examples(outcomes: Sequence[Outcome]) -> str:
    ids: dict[tuple[str, str, str], list[str]] = {}
    for one in outcomes:
        ids.setdefault((one.scorer, one.status, one.code), []).extend(one.dialogue_ids)
    return "".join(
        f"<details><summary>{escape(' · '.join(filter(None, key)))}: dialogues</summary>"
        f"<pre>{escape(chr(10).join(sorted(found)[:SHOWN_IDS]))}</pre></details>"
        for key, found in ids.items()
    )


def _fact_table(run: Mapping[str, Any]) -> str:
    data = run.get("data") or {}
    facts = {
        "data": data.get("uri"),
        "layout": data.get("layout"),
        "data fingerprint": data.get("fingerprint"),
        "dialogues": data.get("dialogues"),
        "configuration hash": run.get("config_hash"),
        "git commit": run.get("git_commit"),
        "started": run.get("started"),
        "finished": run.get("finished"),
        **{str(name): version for name, version in (run.get("versions") or {}).items()},
        **{f"seconds, {name}": seconds for name, seconds in (run.get("timings") or {}).items()},
    }
    lines = "".join(
        f"<tr><td class='text'>{escape(name)}</td><td class='text wide'><code>{escape(str(value))}</code></td></tr>"
        for name, value in facts.items()
        if value not in (None, "")
    )
    return scrolled(f"<tbody>{lines}</tbody>") if lines else ""


def _scorer_table(run: Mapping[str, Any]) -> str:
    lines = "".join(
        f"<tr><td class='text'>{escape(str(name))}</td>"
        + "".join(
            f"<td class='text'><code>{escape(str(facts.get(key) or ABSENT))}</code></td>"
            for key in ("version", "fingerprint", "status")
        )
        + f"<td class='text wide'>{escape(str(facts.get('message') or ''))}</td></tr>"
        for name, facts in (run.get("scorers") or {}).items()
    )
    heads = "".join(
        f"<th class='text' scope='col'>{name}</th>"
        for name in ("scorer", "version", "fingerprint", "status", "message")
    )
    return scrolled(f"<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody>") if lines else ""


def _notes(run: Mapping[str, Any]) -> str:
    items = "".join(f"<li>{escape(str(note))}</li>" for note in run.get("notes") or ())
    return f"<ul class='notes'>{items}</ul>" if items else ""
