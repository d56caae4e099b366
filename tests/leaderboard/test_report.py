import re
from html.parser import HTMLParser

import numpy as np
import pytest

from spear_ray.leaderboard.board import build
from spear_ray.leaderboard.latency_plot import density
from spear_ray.leaderboard.plots import make_axis
from spear_ray.leaderboard.report import render

from .tables import CONFIG, VAD, row, table

EVIL = "<script>alert('x')</script>"
VOID = {"meta", "br", "link", "img"}

RUN = {
    "versions": {"spear_ray": "0.1.0", "torch": "2.14.1"},
    "config": {"profile": "local", "data": {"uri": EVIL, "splits": []}},
    "command": ["python", "jobs/full_bench.py", "data.uri=s3://a b"],
    "data": {"uri": "s3://bench/set", "fingerprint": "0123456789abcdef", "dialogues": 12},
    "scorers": {"vad": {"version": "1", "fingerprint": "f" * 16, "status": "ok"}, "dialect": {"status": "skipped"}},
    "notes": [f"a note {EVIL}"],
}


class Page(HTMLParser):
    """Collects text and tags, and checks that tags close in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def people_and(*systems):
    generator = np.random.default_rng(4)
    rows = []
    for place, system in enumerate(("human", *systems)):
        for index in range(12):
            latency = float(generator.normal(300 + 900 * place, 200))
            metrics = {"answered": 1.0, "latency_ms": latency, "interrupted": float(latency < 0)}
            rows.append(row(system, f"i{index:02d}", f"c{index // 2}", metrics=metrics))
    return rows


def page_of(rows, run=RUN) -> str:
    tables = {"vad": table(rows)}
    return render(build(tables, {"vad": VAD}, CONFIG), run, tables)


def test_page_needs_no_script_and_nothing_from_the_network():
    html = page_of(people_and("model"))
    page = Page(html)
    assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
    assert not [attrs for _, attrs in page.tags if attrs.keys() & {"src", "href", "onclick", "onload"}]
    assert not re.search(r"https?:|url\(|@import", html)


def test_page_escapes_names_and_messages():
    broken = row(
        EVIL, EVIL, "c1", status="error", code="audio_decode", message=f"{EVIL} cannot be decoded", subset=EVIL
    )
    html = page_of([*people_and(EVIL, "a & b"), broken])
    assert "<script" not in html
    text = Page(html).text
    assert f"{EVIL} cannot be decoded" in text
    assert "a & b" in text


def test_ranking_shows_answered_latency_with_interval_and_distance():
    rows = people_and("model")
    board = build({"vad": table(rows)}, {"vad": VAD}, CONFIG)
    text = Page(page_of(rows)).text
    latency = board.entry("model", "latency_ms")
    assert f"{latency.value:.0f} [{latency.ci_low:.0f}, {latency.ci_high:.0f}] 12 of 12" in text
    assert f"{board.standings[1].distance:.2f}" in text
    assert "human reference" in text


def test_latency_plot_states_how_many_answered_and_marks_the_end_of_the_question():
    silent = [row("model", f"s{index}", f"c{index}", metrics={"answered": 0.0}) for index in range(3)]
    html = page_of([*people_and("model"), *silent])
    assert "12 of 15 answered" in Page(html).text
    assert html.count("class='zero'") == 2
    assert html.count("class='outline'") == 2


def test_page_without_the_vad_scorer_has_no_latency_plot():
    rows = {"talk": table(people_and("model"))}
    html = render(build(rows, {"talk": VAD}, CONFIG), RUN, rows)
    assert "When the answer starts" not in html


def test_what_was_skipped_is_counted_with_an_example_and_ids():
    broken = [
        row("model", f"x{index:02d}", status="error", code="audio_empty", message=f"file {index} is empty")
        for index in range(25)
    ]
    text = Page(page_of([*people_and("model"), *broken])).text
    assert "24 of 49 rows were scored; 25 were skipped or in error" in text
    assert "audio_empty 25 file 0 is empty" in text
    assert "model/test/improvised/x19" in text
    assert "model/test/improvised/x20" not in text
    assert "dialect has no rows: skipped" in text


def test_page_says_how_to_run_it_again():
    text = Page(page_of(people_and("model"))).text
    assert "python jobs/full_bench.py 'data.uri=s3://a b'" in text
    assert "profile: local" in text
    assert "0123456789abcdef" in text
    assert "2.14.1" in text


def test_page_without_the_reference_says_why_there_is_no_ranking():
    rows = [one for one in people_and("b", "a") if one["system"] != "human"]
    text = Page(page_of(rows)).text
    assert "There is no ranking: the reference system 'human' is not in the run" in text
    assert "Differences to" not in text


@pytest.mark.parametrize("run", [{}, {"config": None, "data": None, "command": [], "scorers": {}}])
def test_every_key_of_the_run_is_optional(run):
    assert "Ranking" in Page(page_of(people_and("model"), run)).text


def test_page_of_a_run_in_which_nothing_was_scored():
    rows = [row("model", f"i{index}", status="error", code="audio_missing", message="gone") for index in range(3)]
    text = Page(page_of(rows)).text
    assert "0 of 3 rows were scored" in text
    assert "No headline metric was measured." in text
    assert "nan" not in text.lower()


def test_absent_values_are_a_dash_not_a_zero():
    silent = [row("mute", f"s{index}", f"c{index}", metrics={"answered": 0.0}) for index in range(4)]
    text = Page(page_of([*people_and("model"), *silent])).text
    assert "– 0 of 4" in text
    assert "mute has no distance" in text
    assert "nan" not in text.lower()


def test_density_has_area_one_and_lies_where_the_values_are():
    grid = np.linspace(-5000, 5000, 4001)
    values = np.random.default_rng(0).normal(800, 200, 3000)
    curve = density(values, grid) * (grid[1] - grid[0])
    assert np.sum(curve) == pytest.approx(1, abs=1e-3)
    assert np.sum(curve * grid) == pytest.approx(np.mean(values), abs=1)


def test_density_of_equal_values_is_finite():
    assert np.isfinite(density(np.full(5, 300.0), np.linspace(-1000, 1000, 50))).all()


@pytest.mark.parametrize("values", [(3.0, 3.0), (0.0, 0.0), (-412.0, 2950.0), (0.001, 0.0017)])
def test_axis_holds_its_values_and_has_round_ticks(values):
    axis = make_axis(values)
    assert axis.low < min(values)
    assert axis.high > max(values)
    assert 2 <= len(axis.ticks) <= 7
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    assert len({f"{tick:.{axis.digits}f}" for tick in axis.ticks}) == len(axis.ticks)


def test_metrics_that_no_row_has_are_named_in_one_line():
    text = Page(page_of([row("human", str(n), metrics={"latency_ms": 100.0 + n}) for n in range(4)])).text
    assert "Not measured in any row: answered, interrupted, spear_latency_ms, overlap_ms." in text
    assert "vad: 2 metrics" in text
