"""Signatures of the scorers: `python -m tests.update_signatures [same-scores]` writes them again.

A signature is a scorer's version and a hash of all code that its scores come from: its module and what that imports
of the rooms below. Comments, docstrings and formatting do not count. Where code changed, raise the scorer's `version`;
only where no score can change, say `same-scores` instead.
"""

import ast
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from spear_ray.scorers import Scorer, scorer_types

PACKAGE = Path(__file__).resolve().parent.parent / "spear_ray"
FILE = Path(__file__).resolve().parent / "fixtures" / "scorer_signatures.json"
ROOMS = (
    "scorers", "timing", "turntaking", "networks", "judging", "affect", "acoustics", "dialects", "sides", "prosody",
    "transcripts", "remote", "pcm",
)  # fmt: skip
SHARED = ("scorers.base",)
"""Bookkeeping that every scorer has: no value comes from it."""


def signatures() -> dict[str, dict[str, str]]:
    return {name: {"version": kind.version, "sha256": source_hash(kind)} for name, kind in scorer_types().items()}


def source_hash(kind: type[Scorer[Any]]) -> str:
    parts = [[module, shape(parsed(module))] for module in sorted(modules_of(kind))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def modules_of(kind: type[Scorer[Any]]) -> set[str]:
    """The scorer's module and what it imports, in turn; names within spear_ray."""
    found: set[str] = set()
    waiting = [kind.__module__.removeprefix("spear_ray.")]
    while waiting:
        module = waiting.pop()
        if module in found or module in SHARED or module.split(".")[0] not in ROOMS or not path_of(module).is_file():
            continue
        found.add(module)
        waiting += imported(parsed(module))
    return found


def path_of(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def parsed(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name.removeprefix("spear_ray.") for name in names if name.startswith("spear_ray.")]


def shape(node: Any) -> Any:
    """A syntax tree as plain lists, without positions, docstrings and what is empty: the same in each Python."""
    if isinstance(node, list):
        return [shape(item) for item in node if not is_text(item)]
    if not isinstance(node, ast.AST):
        return repr(node)
    kept = [[name, shape(value)] for name, value in ast.iter_fields(node) if value is not None and value != []]
    return [type(node).__name__, kept]


def is_text(node: Any) -> bool:
    """A statement that is only a string: a docstring, of a module, class, function or attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def recorded() -> dict[str, dict[str, str]]:
    return json.loads(FILE.read_text()) if FILE.is_file() else {}


def drifted(now: dict[str, dict[str, str]], before: dict[str, dict[str, str]]) -> list[str]:
    """Scorers whose code changed under an unchanged version."""
    return [
        name
        for name, entry in now.items()
        if name in before and entry["version"] == before[name]["version"] and entry != before[name]
    ]


def main(words: list[str]) -> int:
    now = signatures()
    changed = drifted(now, recorded())
    if changed and words != ["same-scores"]:
        sys.stderr.write(f"code changed, version did not: {', '.join(changed)}; raise it, or say same-scores\n")
        return 2
    FILE.write_text(json.dumps(now, indent=2, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
