import csv
import json

import numpy as np
import pytest

from spear_ray.errors import JudgeParseError
from spear_ray.judging.stancebench import Said, evidence_of, merged, said, speaker_score
from spear_ray.judging.stancebench_metrics import Poles, Side, auroc, best_f1, failure_rate, measures, summary
from tests.golden_cases import GOLDEN, folder

STANCEBENCH = folder("05_stancebench")
SPEAKERS = json.loads((STANCEBENCH / "speaker_cases.json").read_text())["cases"]
TABLES = json.loads((STANCEBENCH / "metrics_cases.json").read_text())["tables"]
RESPONSES = json.loads((GOLDEN / "stance_score_cases.json").read_text())["responses"]
NAMES = {
    "consistency": "Categorical pole-consistency",
    "equal_error_rate": "Equal Error Rate",
    "auroc": "AUROC",
    "oracle_f1": "Oracle upper bound f1",
    "uncertain_rate": "uncertain_rate",
    "rows": "n_rows",
    "item_disagreement": "mean_item_disagreement_rate",
    "row_disagreement": "row_disagreement_rate",
}


@pytest.mark.parametrize("case", RESPONSES, ids=lambda case: case["raw"][:30] or "nothing")
def test_recorded_answers_of_spearbenchs_judge(case):
    expected = case.get("parsed")
    if expected is None or expected["stance_error"]:
        if case["raw"] == '{"choice":"Positive","probability":0.9}':
            # StanceBench takes a choice that is spelt out, SPEARBench does not
            assert said(case["raw"]).choice == "P"
            return
        with pytest.raises(JudgeParseError):
            said(case["raw"])
        return
    found = said(case["raw"])
    assert (found.choice, found.probability, found.score) == (
        expected["stance_choice"],
        expected["stance_probability"],
        expected["stance_score"],
    )
    assert list(found.evidence) == json.loads(expected["stance_evidence"])


@pytest.mark.parametrize("case", SPEAKERS, ids=lambda case: case["id"])
def test_recorded_speakers(case):
    own = [one for one in case["items"] if one["target_spk"].endswith(case["target"])]
    wanted = own if case["role"] in case["roles_of_interest"] else []
    found = speaker_score([tuple(one["raw_outputs"]) or None for one in wanted])
    assert (found.score, found.flip_rate) == pytest.approx((case["avg_score"], case["flip_rate"]))
    notes = [note for note in case["fail_notes"] if note and note["variant"] is not None]
    assert list(found.failed) == [(note["item_index"], note["variant"]) for note in notes]
    for record, (place, (first, second)) in zip(case["evidence"], found.items.items(), strict=True):
        assert record["item_index"] == place
        for variant, one in enumerate((first, second)):
            assert (one.choice, one.probability, one.score, list(one.evidence)) == tuple(
                record[f"{key}_v{variant}{end}"]
                for key, end in (("choice", ""), ("prob", ""), ("score", "_mapped"), ("evidence", ""))
            )


def sides_of(name):
    with (STANCEBENCH / f"runs_{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {(row["a_id"], letter.upper()): side(row, letter) for row in rows for letter in "ab"}


def side(row, letter):
    text = row[f"evidence_{letter}"]
    items = []
    for one in json.loads(text or "[]"):
        pair = [{"choice": one[f"choice_v{v}"], "probability": one[f"prob_v{v}"]} for v in (0, 1)]
        items.append(tuple(said(json.dumps(each)) for each in pair))
    return Side(row[f"category_{letter}"], tuple(items), attempted=bool(text))


def poles_of(table, key):
    if key.startswith("notebook_as_published"):
        return Poles(("Calmness",), ("Avoidance",))
    return Poles(table["positive_categories"], table["negative_categories"])


@pytest.mark.parametrize("name", TABLES)
def test_recorded_rows(name):
    sides = sides_of(name)
    recorded = TABLES[name]["long_rows"]
    assert {key for key, one in sides.items() if one.items} == {(row["a_id"], row["speaker"]) for row in recorded}
    for row in recorded:
        found = sides[row["a_id"], row["speaker"]]
        assert (found.score(), found.flip_rate, found.disagreement, found.signed, *found.orders) == pytest.approx(
            tuple(
                row[key]
                for key in (
                    "avg_score", "flip_rate", "disagreement_item_rate", "avg_signed_conf_scaled", "row_mean_score_v0",
                    "row_mean_score_v1",
                )
            ),
            abs=1e-9,
        )  # fmt: skip
        assert found.orders_disagree == row["row_level_variant_disagreement"]
        assert (found.disagreement > 0) == row["has_variant_disagreement"]


@pytest.mark.parametrize("name", TABLES)
def test_recorded_summary(name):
    table, sides = TABLES[name], list(sides_of(name).values())
    assert summary(sides, poles_of(table, "")) == pytest.approx(table["package_score_summary"], abs=1e-9)
    assert failure_rate(sides) == pytest.approx(table["notebook_failure_rate"], abs=1e-9)
    assert sum(one.attempted for one in sides) == table["notebook_attempted"]


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, table in TABLES.items() for key in table["notebook"]])
def test_recorded_measures(name, key):
    table = TABLES[name]
    _, mode, filtered = key.split("|")
    most = filtered.split("=")[1]
    found = measures(
        list(sides_of(name).values()),
        poles_of(table, key),
        mode.endswith("True"),
        None if most == "None" else float(most),
    )
    expected = table["notebook"][key]
    assert found == pytest.approx({ours: expected[theirs] for ours, theirs in NAMES.items()}, abs=1e-9)


@pytest.mark.parametrize("question", ["Q0", "Q3", "Q9"])
def test_recorded_merge(question):
    where = GOLDEN / "stance_merge"
    ours, theirs, expected = (
        read(where / path)
        for path in (
            f"original/stance_metrics_{question}.csv",
            f"llm/stance_metrics_{question}.csv",
            "expected_merged.csv",
        )
    )
    wanted = [row for row in expected if row["stance_related_categories"] == ours[0]["stance_related_categories"]]
    found = merged(ours, theirs)
    assert len(found) == len(wanted)
    for row, recorded in zip(found, wanted, strict=True):
        for column, value in recorded.items():
            if column.split("_")[0] in ("score", "confidence"):
                assert (f"{row[column]:.6g}" if column in row else "") == value, column
            elif column in row:
                assert row[column] == value


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_evidence_is_at_most_four_texts():
    assert evidence_of(None) == ()
    assert evidence_of("slow") == ("slow",)
    assert evidence_of(["a", "", None, "NaN", 3, "b", "c", "d"]) == ("a", "3", "b", "c")


def test_auroc_is_a_share_of_pairs():
    assert auroc(np.array([True, True, False]), np.array([1.0, 0.0, 0.0])) == 0.75


def test_two_scores_have_a_cut_between_them_and_equal_ones_have_none():
    sure, other = Said("P", 0.9, ()), Said("N", 0.9, ())
    sides = [Side("A", ((sure, sure),)), Side("B", ((other, other),))]
    for by_probability in (False, True):
        assert measures(sides, Poles(("A",), ("B",)), by_probability)["oracle_f1"] == 1.0
    assert np.isnan(best_f1(np.array([True, False]), np.array([1.0, 1.0])))


def test_probability_that_is_no_number_is_an_error():
    with pytest.raises(JudgeParseError, match="not a number"):
        said('{"choice": "P", "probability": NaN}')


def clip_row(name, row_idx, score):
    kept = {"question_index": "0", "target_role": "r", "target_category": "Warmth", "stance_choice": "P"}
    judged = {"stance_score": score, "stance_probability": "0.6", "stance_error": ""}
    return {**kept, **judged, "row_idx": row_idx, "audio_path": name}


def test_rows_are_merged_by_clip_in_the_order_of_names():
    ours = [clip_row(f"in/clip_{n}.wav", str(n), str(n)) for n in (2, 10)]
    theirs = [clip_row(f"other/answer_clip_{n}.wav", "7", "0") for n in (10, 2)]
    assert [row["score_original"] for row in merged(ours, theirs)] == [10.0, 2.0]
