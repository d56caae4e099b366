"""The report's dialogue: which one is drawn, and what is marked in it."""

import json

from spear_ray.leaderboard.board import build
from spear_ray.leaderboard.report import render
from spear_ray.leaderboard.turn_plot import choose_dialogues, marked, turn_plot
from spear_ray.scorers.turn_taking import TurnTakingScorer

from .tables import CONFIG, row, table

METRICS = {"turn_taking": TurnTakingScorer.metrics}


def talk(system, item, dialog_nll, **changes):
    metrics = {"dialog_nll": dialog_nll, "nat_score": -dialog_nll}
    return row(system, item, scorer="turn_taking", metrics=metrics, **changes)


def details(units, name="timing"):
    activity = {"asking": [[0.0, 2.0]], "answering": [[2.4, 5.0]]}
    return json.dumps({"predictor": name, "seconds": 6.0, "activity": activity, "units": units, "notes": []})


UNITS = [["other_begins", 0, 2.0, 2.4, 1.0], ["falls_silent", 1, 2.4, 5.0, 4.5], ["clip_ends", 1, 5.0, 6.0, 0.5]]


def chosen(rows):
    tables = {"turn_taking": table(rows)}
    return choose_dialogues(build(tables, METRICS, CONFIG), tables["turn_taking"])


def test_the_most_surprising_dialogue_is_drawn_beside_the_references_answer():
    rows = [talk("human", "a", 9.0), talk("human", "b", 1.0), talk("x", "a", 2.0), talk("x", "b", 3.0)]
    assert chosen(rows) == ["x/test/improvised/b", "human/test/improvised/b"]


def test_without_the_references_answer_one_dialogue_is_drawn():
    rows = [talk("human", "a", 9.0), talk("x", "c", 2.0), talk("human", "c", 1.0, status="error")]
    assert chosen(rows) == ["x/test/improvised/c"]


def test_other_splits_and_rows_without_a_score_are_not_drawn():
    rows = [talk("x", "a", 2.0), talk("x", "b", 8.0, split="dev"), talk("x", "c", 9.0, status="skipped")]
    assert chosen(rows) == ["x/test/improvised/a"]
    assert chosen([talk("human", "a", 2.0)]) == []


def test_the_worst_quarter_is_marked_in_order_of_time():
    units = [["goes_on", 0, place, place + 1.0, float(place % 5)] for place in range(12)]
    assert sorted(unit[4] for unit in marked(units)) == [3.0, 4.0, 4.0]
    assert [unit[3] for unit in marked(units)] == sorted(unit[3] for unit in marked(units))
    assert len(marked([*units, *units, *units])) == 6


def test_the_drawing_has_a_lane_for_each_side_and_a_line_for_each_mark():
    html = turn_plot({"<x>/test/s/a": details(UNITS)})
    assert html.count("class='speech asking'") == html.count("class='speech answering'") == 1
    assert html.count("class='surprise'") == 1
    assert "5.00 s: the answering side falls silent, 2.60 s after the last change; 4.5 nats" in html
    assert "<x>" not in html
    assert turn_plot({}) == ""


def test_the_report_draws_it_where_there_is_one():
    rows = {"turn_taking": table([talk("human", "a", 1.0), talk("x", "a", 2.0)])}
    board = build(rows, METRICS, CONFIG)
    assert "A dialogue&#x27;s turns" in render(board, {}, rows, {"x/test/improvised/a": details(UNITS)})
    assert "A dialogue&#x27;s turns" not in render(board, {}, rows)
