import io
import json
import time
from collections.abc import Sequence

import pytest
from rich.console import Console

from spear_ray.pipeline import Progress
from spear_ray.progress import display

TOTAL = 100


def at(done: int, **rest) -> Progress:
    return Progress(total=TOTAL, done=done, **rest)


def lines(console: Console) -> list[dict]:
    assert isinstance(console.file, io.StringIO)
    return [json.loads(line) for line in console.file.getvalue().splitlines()]


def log() -> Console:
    """A job's log: no terminal, and narrow."""
    return Console(file=io.StringIO(), width=20)


def shown(monkeypatch: pytest.MonkeyPatch, seconds: float, *calls: tuple[float, int]) -> Sequence[int]:
    """Which of these calls (seconds on the clock, rows done) leave a line."""
    console, clock = log(), iter([now for now, _ in calls])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with display(console, TOTAL, seconds) as show:
        for _, done in calls:
            show(at(done))
    return [line["rows"] for line in lines(console)]


def test_first_block_is_shown_at_once(monkeypatch):
    assert shown(monkeypatch, 10, (1000, 1)) == [1]


def test_there_is_at_most_one_line_in_so_many_seconds(monkeypatch):
    calls = [(second, second + 1) for second in range(25)]
    assert shown(monkeypatch, 10, *calls) == [1, 11, 21]


def test_the_last_line_is_always_shown(monkeypatch):
    assert shown(monkeypatch, 10, (0, 1), (1, 99), (2, TOTAL)) == [1, TOTAL]


def test_every_block_is_shown_where_no_time_must_pass(monkeypatch):
    assert shown(monkeypatch, 0, (0, 1), (0, 2), (0, 3)) == [1, 2, 3]


def test_a_line_says_how_far_the_run_is():
    console = log()
    status = {"vad.ok": 49, "vad.error.audio_format": 1}
    with display(console, TOTAL, 10) as show:
        show(at(50, audio_s=5400.4, wall_s=12.34, status=status))
    assert lines(console) == [{"rows": 50, "of": TOTAL, "audio_hours": 1.5, "seconds": 12.3, "status": status}]


def test_a_line_is_json_whatever_a_code_looks_like():
    console = log()
    status = {"vad.error.[red]x[/red]": 1, 'vad.error."ü"\n': 2}
    with display(console, TOTAL, 10) as show:
        show(at(3, status=status))
    assert lines(console)[0]["status"] == status


def test_a_log_holds_no_control_characters():
    console = log()
    with display(console, TOTAL, 0) as show:
        for done in (1, 2, TOTAL):
            show(at(done))
    assert console.file.getvalue().replace("\n", "").isprintable()


def test_a_terminal_shows_a_bar_with_rows_hours_and_errors():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with display(console, TOTAL, 10) as show:
        show(at(50, audio_s=5400, status={"vad.ok": 48}))
        show(at(TOTAL, audio_s=7200, status={"vad.ok": 96, "vad.error.audio_format": 3, "vad.error.audio_empty": 1}))
    last = [line for line in console.file.getvalue().splitlines() if "h of audio" in line][-1]
    assert "2.00 h of audio, 4 errors" in last
    assert "100/100" in last
    assert '{"rows"' not in console.file.getvalue()


def test_a_bar_without_errors_does_not_speak_of_them():
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with display(console, TOTAL, 10) as show:
        show(at(TOTAL, status={"vad.ok": 99, "vad.skipped.checkpoint_missing": 1}))
    assert "100/100" in console.file.getvalue()
    assert "error" not in console.file.getvalue()


def test_the_bar_is_put_away_when_the_run_fails():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with pytest.raises(KeyboardInterrupt), display(console, TOTAL, 10):
        raise KeyboardInterrupt
    assert console.file.getvalue().count("\x1b[?25h") == 1
