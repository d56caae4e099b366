import io

from rich.console import Console

from spear_ray.leaderboard.board import build
from spear_ray.leaderboard.terminal import print_ranking

from .tables import CONFIG, VAD, row, table


def printed(rows) -> list[str]:
    file = io.StringIO()
    board = build({"vad": table(rows)}, {"vad": VAD}, CONFIG)
    print_ranking(board, Console(file=file, width=80, color_system=None))
    return file.getvalue().splitlines()


def rows_of(*systems):
    return [
        row(
            system,
            f"i{index}",
            f"c{index}",
            metrics={"answered": 1.0, "latency_ms": 100.0 * index + 1000 * place, "interrupted": index % 2},
        )
        for place, system in enumerate(systems)
        for index in range(6)
    ]


def test_ranking_fits_80_columns_and_marks_the_reference():
    lines = printed(rows_of("human", "a-model-with-a-rather-long-name-and-more"))
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "(reference)" in text
    assert text.index("human") < text.index("a-model-with")


def test_ranking_shows_the_interval_of_the_latency():
    text = "\n".join(printed(rows_of("human", "model")))
    assert "1250" in text
    assert "[1" in text
    assert "answered" in text


def test_names_are_not_read_as_markup():
    assert "[red]odd" in "\n".join(printed(rows_of("human", "[red]odd")))


def test_ranking_without_the_reference_says_so():
    text = " ".join(printed(rows_of("model")))
    assert "There is no ranking" in text
