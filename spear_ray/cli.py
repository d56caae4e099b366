"""The `spear-ray` command: thin; each subcommand calls one room.

Subcommands take OmegaConf words (`data.uri=… run.uri=…`) and no other options; `checkpoints` takes names. Exit codes:
0 every row is ok, or skipped for a declared reason; 1 some rows are in error; 2 the request is wrong; 3 the cluster or
the store failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

USAGE = """spear-ray: how natural is a speech-to-speech model in conversation?

usage: spear-ray COMMAND [key=value ...]

  bench             score a data set and write leaderboard.csv, benchmark.csv, report.html
                    (data.uri=… run.uri=… scorers=[vad] profile=local|gpu|cluster)
  pack              write a SPEARBench folder as tar shards: data.uri=… pack.uri=… [pack.shard_bytes=…]
  report            write leaderboard and report of a finished run again: run.uri=…
  score FILE        score one two-channel file: FILE question_end_s=3.2 [answer_start_s=0.4] [context_end_s=0]
                    [--server URL] asks a running API
  turn-bench        how well a turn-taking predictor tells natural from edited timing: data.uri=… run.uri=…
                    [predictor=timing] [limit=1000] [seed=0]
  fit-timing        timing statistics of a population: data.uri=… fit.name=… fit.out=…
  judge-agreement   how a judge's scores agree with people's: data.uri=exchanges.csv run.uri=…
  make-triples      exchanges with known scores to check a judge with: data.uri=… triples.out=…
  checkpoints       published models that scorers need: list, pull NAME …, verify [NAME …], convert SOURCE TARGET
  scorers           what can be measured, and what each number means
  doctor            what is installed, which scorers can run here, and what the others lack

Every key with its meaning stands in spear_ray/config.py and conf/. Exit codes: 0 fine, 1 some rows in error,
2 the request is wrong, 3 the cluster or the store failed.
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the command."""
    sys.exit(run(list(sys.argv[1:] if arguments is None else arguments)))


def run(arguments: Sequence[str]) -> int:
    """Run a subcommand and return its exit code; every error of ours is one line on stderr."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        sys.stdout.write(USAGE)
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from spear_ray import __version__

        sys.stdout.write(f"spear_ray {__version__}\n")
        return 0
    command = _commands().get(arguments[0])
    if command is None:
        sys.stderr.write(f"spear-ray: there is no command '{arguments[0]}'\n\n{USAGE}")
        return 2
    return guarded(command, arguments[1:])


def guarded(command: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
    """Run a command; an error of ours becomes one line and its exit code."""
    from spear_ray.errors import SpearError

    try:
        return command(words)
    except SpearError as error:
        sys.stderr.write(f"spear-ray: {error.code}: {error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("spear-ray: stopped; the same command continues where it was\n")
        return 130


def bench(words: Sequence[str]) -> int:
    """Score a data set."""
    from rich.console import Console

    from spear_ray import bench as benchmark
    from spear_ray.config import load, names_scorers
    from spear_ray.leaderboard.terminal import print_ranking

    console = Console(markup=False)
    outcome = benchmark.run(load(words), console, words, names_scorers(words))
    print_ranking(outcome.board, console)
    _print_results(console, outcome)
    return outcome.exit_code


def report(words: Sequence[str]) -> int:
    """Write the results of a finished run again."""
    from rich.console import Console

    from spear_ray import bench as benchmark
    from spear_ray.config import load
    from spear_ray.leaderboard.terminal import print_ranking

    console = Console(markup=False)
    outcome = benchmark.republish(load(words))
    print_ranking(outcome.board, console)
    _print_results(console, outcome)
    return outcome.exit_code


def pack(words: Sequence[str]) -> int:
    """Write tar shards."""
    from spear_ray.config import load
    from spear_ray.packing import pack as write_shards

    packed = write_shards(load(words))
    sys.stdout.write(
        f"{packed.rows} dialogues in {packed.shards} shards, {packed.bytes} bytes: {packed.index}\n"
        + "".join(f"note: {note}\n" for note in packed.notes)
    )
    return 0


def score(words: Sequence[str]) -> int:
    """Score one file."""
    from spear_ray.single import score_file

    if not words or "=" in words[0]:
        sys.stderr.write("spear-ray: score needs a file: spear-ray score FILE question_end_s=3.2\n")
        return 2
    return score_file(words[0], words[1:], sys.stdout)


def turn_bench(words: Sequence[str]) -> int:
    """Measure a turn-taking predictor."""
    from spear_ray.config import load
    from spear_ray.turntaking.bench_run import long_words, run_turn_bench
    from spear_ray.turntaking.bench_tables import markdown

    result, url = run_turn_bench(load(long_words(words)))
    sys.stdout.write(f"{markdown(result)}\n{url}\n")
    return 0


def fit_timing(words: Sequence[str]) -> int:
    """Fit timing statistics and write their card."""
    from spear_ray.config import load
    from spear_ray.turntaking.fit_run import run_fit

    sys.stdout.write("".join(f"{url}\n" for url in run_fit(load(words))))
    return 0


def judge_agreement(words: Sequence[str]) -> int:
    """Compare a judge with people."""
    from rich.console import Console

    from spear_ray.judge_agreement import run_agreement, table

    result, url, exit_code = run_agreement(words, Console(markup=False))
    sys.stdout.write(f"{table(result)}\n\n{url}\n")
    return exit_code


def make_triples(words: Sequence[str]) -> int:
    """Write exchanges with known scores."""
    from spear_ray.config import load
    from spear_ray.triples import make_triples as write

    count, url = write(load(words))
    sys.stdout.write(f"{count} triples: {url}\n")
    return 0


def checkpoints(words: Sequence[str]) -> int:
    """List, fetch or check published checkpoints."""
    from spear_ray.checkpoints.commands import run as run_command

    return run_command(words)


def scorers(words: Sequence[str]) -> int:
    """List the scorers."""
    from spear_ray.describe import list_scorers

    return list_scorers(words)


def doctor(words: Sequence[str]) -> int:
    """Say what can run here."""
    from spear_ray.describe import examine

    return examine(words)


def _commands() -> dict[str, Callable[[Sequence[str]], int]]:
    return {
        "bench": bench,
        "pack": pack,
        "report": report,
        "score": score,
        "turn-bench": turn_bench,
        "fit-timing": fit_timing,
        "judge-agreement": judge_agreement,
        "make-triples": make_triples,
        "checkpoints": checkpoints,
        "scorers": scorers,
        "doctor": doctor,
    }


def _print_results(console: object, outcome: object) -> None:
    from rich.console import Console

    from spear_ray.bench import Outcome

    assert isinstance(console, Console)
    assert isinstance(outcome, Outcome)
    console.print()
    lacking = {(one.scorer, one.code): one.message for one in outcome.board.outcomes if one.code.endswith("_missing")}
    for key, count in outcome.counts.items():
        name, status, *code = key.split(".")
        console.print(f"{name}: {count} {status}" + (f" ({code[0]})" if code else ""), highlight=False)
        if code and status == "skipped" and (name, code[0]) in lacking:
            reasons = lacking[name, code[0]].replace("; ", "\n  ")
            console.print(f"  {reasons}", style="dim", markup=False, highlight=False, soft_wrap=True)
    console.print()
    for name, path in outcome.files.items():
        console.print(f"{name:16} {path}", soft_wrap=True, highlight=False)


if __name__ == "__main__":
    main()
