"""`spear-ray checkpoints list`, `pull`, `verify` and `convert`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from spear_ray.checkpoints.catalogue import ANY, CATALOGUE, COMMAND, Published, named, of_file
from spear_ray.checkpoints.hub import SCHEME, HubName, cached, fetched
from spear_ray.checkpoints.verify import Checked, check
from spear_ray.errors import CheckpointMissing, ConfigError, PrerequisiteError
from spear_ray.networks.files import local_copy

USAGE = """usage: spear-ray checkpoints COMMAND

  list                    the published checkpoints, their licences, and which are on this machine
  pull NAME [NAME …]      fetch some: names of the list, or hf://org/name[@revision]
  verify [NAME …]         whether they are whole: names, hf://, paths or s3://; without a name, all on this machine
  convert SOURCE TARGET [BASE]
                          a fine-tuned thinker of Qwen2.5-Omni as vLLM reads it; tokenizer and processor come from the
                          folder BASE where SOURCE has none
"""

LIST_WIDTH = 1000
"""Most columns of the list, far more than it has: whatever the terminal, names and keys must not be cut."""


def run(words: Sequence[str]) -> int:
    """One of the commands; returns the exit code.

    Raises:
        ConfigError: an unknown command or name, or none where one is needed.
        PrerequisiteError: what is named cannot be had, or is damaged.
        StorageError: the hub, a store or the disk failed.
    """
    commands: dict[str, Callable[[Sequence[str]], int]] = {
        "list": show,
        "pull": pull,
        "verify": verify,
        "convert": convert,
    }
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        return 0 if words else 2
    if words[0] not in commands:
        raise ConfigError(f"there is no 'checkpoints {words[0]}': must be one of {', '.join(commands)}")
    return commands[words[0]](words[1:])


def show(words: Sequence[str]) -> int:
    """Print the catalogue, and where what is on this machine lies; needs no network."""
    from rich.console import Console
    from rich.table import Table

    if words:
        raise ConfigError(f"checkpoints list takes no further words, not '{words[0]}'")
    places = {one.name: _place(one) for one in CATALOGUE}
    console = Console(markup=False, highlight=False, width=LIST_WIDTH)
    table = Table("name", "size", "licence", "used by", "here")
    for one in CATALOGUE:
        here = "yes" if places[one.name] else "no" if one.uri else "on no hub"
        table.add_row(one.name, one.size, one.terms, one.used_by, here)
    console.print(table)
    for one in CATALOGUE:
        _write(f"{one.name}: {one.about}", f"here: {places[one.name]}" if places[one.name] else "", one.how)
    return 0


def pull(words: Sequence[str]) -> int:
    """Fetch what is named, after saying what it is; nothing else in spear_ray downloads anything."""
    if not words:
        raise ConfigError(f"checkpoints pull needs a name: {COMMAND} NAME, names are in spear-ray checkpoints list")
    wanted = [named(word) for word in words]
    for one in wanted:
        _write(f"{one.name}: {one.terms}, {one.size}", one.uri)
    sys.stdout.flush()
    for one in wanted:
        if one.uri:
            _pull(one)
    elsewhere = [f"{one.name} is on no hub: {one.how}, then {one.used_by}=PATH" for one in wanted if not one.uri]
    if elsewhere:
        raise CheckpointMissing("; ".join(elsewhere))
    return 0


def verify(words: Sequence[str]) -> int:
    """Check the files of what is named, or of all of the catalogue that is on this machine."""
    chosen = list(words) or [one.name for one in CATALOGUE if _place(one)]
    if not chosen:
        _write("no checkpoint of the catalogue is on this machine")
    faults = [fault for word in chosen for fault in _faults(word)]
    if faults:
        raise PrerequisiteError("; ".join(faults))
    return 0


def convert(words: Sequence[str]) -> int:
    """Write a thinker-only checkpoint as a whole one."""
    from spear_ray.checkpoints.convert import convert as write

    if len(words) not in (2, 3):
        raise ConfigError("checkpoints convert needs SOURCE and TARGET, and BASE where SOURCE has no tokenizer")
    source, target, *base = (Path(word).expanduser() for word in words)
    count = write(source, target, base[0] if base else None)
    _write(f"{target}: {count} tensors", f"to judge with it: judge.checkpoint={target}")
    return 0


def _place(one: Published) -> Path | None:
    return cached(HubName.of(one.uri), one.files) if one.uri else None


def _pull(one: Published) -> None:
    name = HubName.of(one.uri)
    folder = fetched(name, one.files)
    pinned = HubName(name.repository, folder.name)
    _write(f"{one.name}: commit {folder.name}", f"here: {folder}", f"to pin this commit: {pinned}")
    sys.stdout.flush()


def _faults(word: str) -> list[str]:
    """Check one checkpoint, print its files, and say what is wrong with them."""
    path, files, sha256 = _target(word)
    checked, absent = check(path, files, sha256)
    _write(f"{word}: {path}", *(f"{one.sha256}  {_within(one, path)}" for one in checked))
    faults = [f"{one.path} {one.fault}: {_remedy(one)}" for one in checked if one.fault]
    faults += [f"{path} has no {name}" for name in absent]
    if not faults:
        _write(f"{word}: whole")
    return faults


def _target(word: str) -> tuple[Path, tuple[str, ...], str]:
    """Where a checkpoint is, which of its files count, and the SHA-256 of a single one where it is known."""
    known = word in {one.name for one in CATALOGUE} or word.startswith(SCHEME)
    if not known and (Path(word).exists() or "/" in word):
        path = local_copy(word, "give another path")
        entry = of_file(path.name)
        return path, ANY, entry.sha256 if entry else ""
    entry = named(word)
    if not entry.uri:
        raise ConfigError(f"{entry.name} is on no hub, so that its place is not known: give the path of its file")
    return local_copy(entry.uri, f"{COMMAND} {word}"), entry.files, ""


def _remedy(one: Checked) -> str:
    """A file of the hub's cache is not fetched again as long as it is there."""
    return f"delete {one.path.resolve()} and fetch it again"


def _within(one: Checked, path: Path) -> str:
    return one.path.name if one.path == path else one.path.relative_to(path).as_posix()


def _write(title: str, *lines: str) -> None:
    sys.stdout.write(title + "\n" + "".join(f"  {line}\n" for line in lines if line))
