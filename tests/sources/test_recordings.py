import os

import numpy as np
import pytest
from bundled import read_all
from datasets import recordings, speech, two_channels, write_audio

from spear_ray.config import load
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue
from spear_ray.errors import DataLayoutError
from spear_ray.sources import Source, open_source

COLUMNS = (
    "id",
    "file",
    "question_end_s",
    "answer_start_s",
    "context_end_s",
    "system",
    "conversation_id",
    "split",
    "subset",
    "question_text",
    "answer_text",
)


def line(name: str, **rest: str) -> dict[str, str]:
    return {"id": name, "file": f"{name}.wav", "question_end_s": str(speech().question_end_s), **rest}


def opened(uri, *words: str) -> Source:
    return open_source(load([f"data.uri={uri}", *words]))


def read(uri, *words: str) -> list[Dialogue]:
    return read_all(opened(uri, *words))


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b", "c"):
        write_audio(tmp_path / f"{name}.wav", two_channels(), subtype="FLOAT")
    recordings(tmp_path, line("a", system="one"), line("b", system="one"), line("c", system="two"))
    return tmp_path


def test_a_row_becomes_a_dialogue_without_an_answer_file(folder):
    fields = {
        "answer_start_s": "-0.25",
        "context_end_s": "1.5",
        "system": "one",
        "conversation_id": "c",
        "split": "dev",
        "subset": "calls",
        "question_text": "Why?",
        "answer_text": "Why not.",
    }
    recordings(folder, line("a", **fields), columns=COLUMNS)
    (dialogue,) = read(folder)
    assert (dialogue.dialogue_id, dialogue.conversation_id, dialogue.system) == ("a", "c", "one")
    assert (dialogue.split, dialogue.subset) == ("dev", "calls")
    assert (dialogue.question_end_s, dialogue.answer_start_s) == (speech().question_end_s, -0.25)
    assert dialogue.context_end_s == 1.5
    assert (dialogue.question_text, dialogue.answer_text) == ("Why?", "Why not.")
    assert dialogue.answer is None
    assert dialogue.facts["recording"]["source_rate_hz"] == SAMPLE_RATE_HZ
    np.testing.assert_array_equal(dialogue.audio, two_channels().T.astype(np.float32))


def test_what_a_row_does_not_say_is_unknown_or_has_a_default(folder):
    recordings(folder, line("a"), columns=("id", "file", "question_end_s"))
    (dialogue,) = read(folder)
    assert (dialogue.answer_start_s, dialogue.answer_onset_s, dialogue.context_end_s) == (None, None, 0)
    assert (dialogue.question_text, dialogue.answer_text) == (None, None)
    assert (dialogue.system, dialogue.split, dialogue.subset) == ("recordings",) * 3
    assert dialogue.conversation_id == "a"


def test_folder_and_table_name_the_same_data(folder):
    by_folder, by_table = (opened(uri).shards() for uri in (folder, folder / "recordings.csv"))
    assert by_folder == by_table


def test_folder_with_two_tables_needs_a_name(folder):
    (folder / "other.csv").write_text("id,file,question_end_s\n")
    with pytest.raises(DataLayoutError, match=r"other\.csv, recordings\.csv"):
        opened(folder)
    assert len(read(folder / "recordings.csv")) == 3


def test_channel_1_asks_where_the_configuration_says_so(folder):
    dialogue = read(folder, "data.asking_channel=1")[0]
    np.testing.assert_array_equal(dialogue.clip, two_channels().T[::-1].astype(np.float32))


@pytest.mark.parametrize(
    ("times", "code"),
    [
        ({"question_end_s": ""}, "field_missing"),
        ({"question_end_s": "soon"}, "field_invalid"),
        ({"question_end_s": "nan"}, "field_invalid"),
        ({"question_end_s": "0"}, "time_out_of_range"),
        ({"question_end_s": "99"}, "time_out_of_range"),
        ({"answer_start_s": "-99"}, "time_out_of_range"),
        ({"answer_start_s": "99"}, "time_out_of_range"),
        ({"context_end_s": "-1"}, "time_out_of_range"),
        ({"context_end_s": "50"}, "time_out_of_range"),
        ({"file": ""}, "field_missing"),
        ({"file": "nowhere.wav"}, "audio_missing"),
        ({"file": "../a.wav"}, "path_outside_data"),
        ({"file": "/etc/hostname"}, "path_outside_data"),
        ({"file": "s3://bucket/a.wav"}, "path_outside_data"),
    ],
)
def test_row_that_cannot_be_read_says_why_and_its_neighbour_is_read(folder, times, code):
    recordings(folder, line("a", **times), line("b"), columns=COLUMNS)
    bad, good = read(folder)
    assert (bad.dialogue_id, bad.problem.code, bad.clip) == ("a", code, None)
    assert "recordings.csv row 2" in bad.problem.message
    assert good.problem is None


def test_mono_recording_has_no_two_sides(folder):
    write_audio(folder / "a.wav", two_channels()[:, 0])
    assert read(folder)[0].problem.code == "audio_channels"


def test_filters_and_limit_keep_the_first_rows_that_they_name(folder):
    assert [dialogue.dialogue_id for dialogue in read(folder, "data.systems=[two]")] == ["c"]
    assert [dialogue.dialogue_id for dialogue in read(folder, "data.limit=2", "data.rows_per_shard=1")] == ["a", "b"]


def test_shard_id_changes_with_a_row_or_a_file_and_only_where_it_lies(folder):
    def ids() -> list[str]:
        return [shard.shard_id for shard in opened(folder, "data.rows_per_shard=1").shards()]

    before = ids()
    assert ids() == before
    os.utime(folder / "b.wav", (1, 1))
    after_file = ids()
    assert [one == other for one, other in zip(before, after_file, strict=True)] == [True, False, True]
    recordings(folder, line("a", system="one"), line("b", system="one"), line("c", system="three"))
    assert [one == other for one, other in zip(after_file, ids(), strict=True)] == [True, True, False]


def test_what_a_row_says_of_the_speakers_is_kept(folder):
    told = {"relationship": "stranger", "speaker_a_role": "clerk", "mood": "grey"}
    recordings(folder, line("a", **told), columns=(*COLUMNS, *told))
    (dialogue,) = read(folder)
    assert dialogue.roles == {"relationship": "stranger", "speaker_a_role": "clerk"}
