import os
import pickle
import shutil
from dataclasses import replace

import numpy as np
import pytest
from bundled import read_all
from datasets import Row, answer_bytes, audio_bytes, clip_bytes, spearbench, speech

import spear_ray.sample
from spear_ray.config import load
from spear_ray.dialogue import SAMPLE_RATE_HZ, Dialogue
from spear_ray.errors import DataLayoutError
from spear_ray.sources import Shard, Source, open_source


def opened(folder, *words: str) -> Source:
    return open_source(load([f"data.uri={folder}", *words]))


def read(folder, *words: str) -> list[Dialogue]:
    return read_all(opened(folder, *words))


def ids(shards: list[Shard]) -> list[str]:
    return [shard.shard_id for shard in shards]


def names(folder, *words: str) -> list[str]:
    """The ids of all rows, without reading audio."""
    source = opened(folder, *words)
    return [item.dialogue_id for shard in source.shards() for item in source.items(shard)]


def asker(fields: dict) -> int:
    return fields["speakers"].split("|").index(fields["transcript_question"].rpartition(":")[0].split()[-1])


def int16(samples: np.ndarray) -> np.ndarray:
    """As decoded from a 16 bit file: float32 [channels, samples]."""
    return np.atleast_2d(np.float32(np.rint(np.asarray(samples).T * 32768) / 32768))


@pytest.fixture
def folder(tmp_path):
    times = {key: value for key, value in speech(1).fields.items() if not key.endswith("_path")}
    return spearbench(tmp_path, Row("a"), Row("b", clip=clip_bytes(1), answer=answer_bytes(1), fields=times))


@pytest.fixture
def three(tmp_path):
    """Three systems, two splits, two subsets."""
    spearbench(tmp_path, Row("a"), Row("b"), Row("c"))
    spearbench(tmp_path, Row("a"), Row("b"), system="second")
    spearbench(tmp_path, Row("a"), system="second", subset="naturalistic")
    spearbench(tmp_path, Row("d"), system="third", split="dev")
    return tmp_path


def test_a_row_becomes_a_dialogue(tmp_path):
    (dialogue,) = read(spearbench(tmp_path, Row("a", fields={"conversation_id": "V00_S0001"}), system="second"))
    item = speech()
    assert dialogue.problem is None
    assert (dialogue.dialogue_id, dialogue.conversation_id) == ("second/test/improvised/a", "V00_S0001")
    assert (dialogue.system, dialogue.split, dialogue.subset) == ("second", "test", "improvised")
    assert (dialogue.question_end_s, dialogue.answer_start_s) == (item.question_end_s, item.answer_start_s)
    assert dialogue.context_end_s == float(item.fields["context_end_time"])
    assert dialogue.question_text == item.fields["transcript_question"]
    assert dialogue.answer_text == item.fields["transcript_answer"]
    assert dialogue.roles == {"speakers": item.fields["speakers"]}
    assert dialogue.facts["question"]["source_rate_hz"] == SAMPLE_RATE_HZ
    assert dialogue.facts["answer"]["channels"] == 1
    asking = asker(item.fields)
    np.testing.assert_array_equal(dialogue.clip, int16(item.clip)[[asking, 1 - asking]])
    np.testing.assert_array_equal(dialogue.answer, int16(item.answer)[0])


def test_the_folder_original_is_the_human_system(three):
    assert {dialogue.system for dialogue in read(three)} == {"human", "second", "third"}
    assert read(three)[0].dialogue_id == "human/test/improvised/a"


def test_items_are_known_without_reading_audio(three):
    for path in three.rglob("*.wav"):
        path.write_bytes(b"")
    assert names(three) == [dialogue.dialogue_id for dialogue in read(three)]
    assert len(names(three)) == 7


@pytest.mark.parametrize(
    "prefix", ["", "data/seamless_2t_2s_questions/", "/export/home/someone/data/x/", "./", "C:\\data\\x\\"]
)
def test_a_path_is_resolved_by_its_tail_from_inputs_or_outputs_on(folder, prefix):
    table = folder / "outputs/original/test/improvised/metadata.csv"
    table.write_text(table.read_text().replace("data/protocol/", prefix))
    assert [dialogue.problem for dialogue in read(folder)] == [None, None]


def test_backslashes_separate_folders_too(tmp_path):
    fields = {"audio_path": "data\\protocol\\inputs\\test\\improvised\\audios\\a.wav"}
    (dialogue,) = read(spearbench(tmp_path, Row("a", fields=fields)))
    assert dialogue.problem is None
    assert dialogue.dialogue_id == "human/test/improvised/a"


@pytest.mark.parametrize("place", ["audio", "audios"])
def test_answer_whose_folder_was_renamed_is_found_by_its_name(tmp_path, place):
    spearbench(tmp_path, Row("a", answer=None, fields={"answer_audio_path": "data/p/outputs/old-name/a/answer_a.wav"}))
    path = tmp_path / "outputs/original/test/improvised" / place / "answer_a.wav"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(answer_bytes())
    (dialogue,) = read(tmp_path)
    assert dialogue.problem is None


def test_human_answers_are_named_answer_id_and_lie_in_audios(folder):
    assert (folder / "outputs/original/test/improvised/audios/answer_a.wav").is_file()
    assert [dialogue.dialogue_id for dialogue in read(folder)] == ["human/test/improvised/a", "human/test/improvised/b"]


@pytest.mark.parametrize("tag", [0, 1])
def test_the_last_speaker_of_the_question_asks(tmp_path, tag):
    speakers = ["P0001", "P0002A"]
    fields = {
        "speakers": "|".join(speakers),
        "transcript_question": f"{speakers[1 - tag]}: Yes. {speakers[tag]}: Are you sure?",
    }
    (dialogue,) = read(spearbench(tmp_path, Row("a", fields=fields)))
    np.testing.assert_array_equal(dialogue.clip, int16(speech().clip)[[tag, 1 - tag]])
    quieter = tag != asker(speech().fields)
    assert dialogue.notes == (("asking_channel_quieter",) if quieter else ())


def test_published_id_tells_the_channels_before_the_speakers_column_does(tmp_path):
    fields = {"speakers": "P0002|P0001", "transcript_question": "P0002: Yes. P0001: Are you sure?"}
    named, other = read(spearbench(tmp_path, Row("V00_S1_I2_P0001_P0002_3", fields=fields), Row("b", fields=fields)))
    np.testing.assert_array_equal(named.clip, int16(speech().clip))
    np.testing.assert_array_equal(other.clip, int16(speech().clip)[::-1])


@pytest.mark.parametrize("channel", [0, 1])
@pytest.mark.parametrize(
    "fields",
    [
        {"speakers": None, "transcript_question": None},
        {"speakers": "P0001|P0002", "transcript_question": "Are you sure?"},
        {"speakers": "P0001|P0002", "transcript_question": "P0003: Are you sure?"},
        {"speakers": "P0001", "transcript_question": "P0001: Are you sure?"},
    ],
)
def test_without_a_speaker_the_louder_side_of_the_questions_turn_asks_and_a_note_says_so(tmp_path, channel, fields):
    item = speech()
    clip = item.clip if asker(item.fields) == channel else item.clip[:, ::-1]
    (dialogue,) = read(spearbench(tmp_path, Row("a", clip=audio_bytes(clip), fields=fields)))
    np.testing.assert_array_equal(dialogue.clip, int16(clip)[[channel, 1 - channel]])
    assert dialogue.notes == ("asking_channel_by_loudness",)


def test_only_the_questions_own_turn_tells_who_is_louder(tmp_path):
    item = speech()
    clip = item.clip.copy()
    before = round(float(item.fields["context_end_time"]) * SAMPLE_RATE_HZ)
    asking = asker(item.fields)
    clip[:before, 1 - asking] = 0.25 * np.sign(np.random.default_rng(0).normal(size=before))
    fields = {"speakers": None, "transcript_question": None}
    (dialogue,) = read(spearbench(tmp_path, Row("a", clip=audio_bytes(clip), fields=fields)))
    np.testing.assert_array_equal(dialogue.clip, int16(clip)[[asking, 1 - asking]])


@pytest.mark.parametrize("channel", [0, 1])
def test_the_configured_channel_asks_whatever_the_tags_say(folder, channel):
    dialogue = read(folder, f"data.asking_channel={channel}")[0]
    np.testing.assert_array_equal(dialogue.clip, int16(speech().clip)[[channel, 1 - channel]])
    assert dialogue.notes == ()


def test_mono_clip_is_the_asking_sides_and_a_note_says_so(tmp_path):
    mono = speech().clip[:, 0]
    (dialogue,) = read(spearbench(tmp_path, Row("a", clip=audio_bytes(mono))), "data.asking_channel=1")
    np.testing.assert_array_equal(dialogue.clip[0], int16(mono)[0])
    np.testing.assert_array_equal(dialogue.clip[1], 0)
    assert dialogue.notes == ("question_mono",)


def test_the_channel_mean_of_a_two_channel_answer_is_the_answer(tmp_path):
    stereo = np.stack([speech().answer, np.zeros_like(speech().answer)], axis=1)
    (dialogue,) = read(spearbench(tmp_path, Row("a", answer=audio_bytes(stereo))))
    np.testing.assert_array_equal(dialogue.answer, int16(speech().answer)[0] / 2)


def test_mix_is_chosen_by_configuration(folder):
    assert {dialogue.answer_channels for dialogue in read(folder)} == {"own"}
    assert {dialogue.answer_channels for dialogue in read(folder, "data.answer_channels=both")} == {"both"}


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["data.systems=[second]"], 3),
        (["data.systems=[human,third]"], 4),
        (["data.splits=[dev]"], 1),
        (["data.subsets=[naturalistic]"], 1),
        (["data.systems=[second]", "data.subsets=[improvised]", "data.splits=[test]"], 2),
    ],
)
def test_filters_keep_what_they_name(three, words, count):
    kept = names(three, *words)
    assert len(kept) == count < len(names(three))
    assert set(kept) < set(names(three))


def test_filter_that_keeps_nothing_is_an_error(three):
    with pytest.raises(DataLayoutError, match=r"data\.systems"):
        opened(three, "data.systems=[original]").shards()


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 6])
def test_limit_keeps_the_first_rows(three, limit):
    assert names(three, f"data.limit={limit}", "data.rows_per_shard=2") == names(three)[:limit]


def test_shards_hold_at_most_the_configured_number_of_rows(three):
    shards = opened(three, "data.rows_per_shard=2").shards()
    assert [shard.rows for shard in shards] == [2, 1, 2, 1, 1]
    assert len(set(ids(shards))) == 5


def test_only_wanted_rows_are_read(three):
    for path in three.rglob("*b.wav"):
        path.unlink()
    source = opened(three)
    shard = source.shards()[0]
    assert [(row, d.problem) for row, d in source.read(shard, {0, 2})] == [(0, None), (2, None)]
    assert [row for row, _ in source.read(shard, {1})] == [1]
    assert list(source.read(shard, ())) == []


def test_shard_ids_are_stable(three):
    assert ids(opened(three).shards()) == ids(opened(three).shards())


def test_shard_ids_are_safe_as_file_names(tmp_path):
    spearbench(tmp_path, Row("a"), system="größer & höher", subset="a b")
    (shard,) = opened(tmp_path).shards()
    assert shard.shard_id.isascii()
    assert shard.shard_id.replace("-", "").replace("_", "").isalnum()


def table_of(folder):
    return folder / "outputs/original/test/improvised/metadata.csv"


def change_a_row(folder):
    table_of(folder).write_text(table_of(folder).read_text().replace(",0.22", ",0.23"))


def swap_rows(folder):
    head, first, second, *rest = table_of(folder).read_text().splitlines(keepends=True)
    table_of(folder).write_text("".join([head, second, first, *rest]))


def rewrite_a_file(folder):
    # Of the same size, at another moment.
    path = folder / "inputs/test/improvised/audios/a.wav"
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, (1, 1))


def lengthen_a_file(folder):
    path = folder / "outputs/original/test/improvised/audios/answer_a.wav"
    stat = path.stat()
    path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, (stat.st_atime, stat.st_mtime))


def remove_a_file(folder):
    (folder / "inputs/test/improvised/audios/a.wav").unlink()


CHANGES = [change_a_row, swap_rows, rewrite_a_file, lengthen_a_file, remove_a_file]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_shard_id_changes_when_its_data_change_and_others_do_not(three, change):
    before = opened(three).shards()
    change(three)
    after = opened(three).shards()
    assert ids(after)[0] != ids(before)[0]
    # A question clip belongs to all systems of its split and subset.
    shared = change in (rewrite_a_file, remove_a_file)
    untouched = [name for name in ids(before)[1:] if not (shared and "second-test-improvised" in name)]
    assert len(untouched) >= 2
    assert set(untouched) <= set(ids(after))


def test_content_is_the_same_for_the_same_data_elsewhere(tmp_path):
    shards = [opened(spearbench(tmp_path / name, Row("a"), Row("b"))).shards() for name in ("x", "y")]
    os.utime(tmp_path / "y/inputs/test/improvised/audios/a.wav", (1, 1))
    moved = opened(tmp_path / "y").shards()
    assert [shard.content for shard in shards[0]] == [shard.content for shard in moved]
    assert ids(moved) != ids(shards[1])


@pytest.mark.parametrize("word", ["audio.max_seconds=60", "data.answer_channels=both", "data.asking_channel=1"])
def test_shard_ids_change_with_the_reading_options(folder, word):
    assert ids(opened(folder, word).shards()) != ids(opened(folder).shards())


def test_shard_ids_do_not_change_with_what_reading_does_not_depend_on(folder):
    assert ids(opened(folder, "run.uri=x", "pipeline.block_bytes=1").shards()) == ids(opened(folder).shards())


def test_limit_changes_only_the_shard_that_it_cuts(three):
    everything = ids(opened(three, "data.rows_per_shard=2").shards())
    kept = ids(opened(three, "data.rows_per_shard=2", "data.limit=4").shards())
    assert kept[:2] == everything[:2]
    assert kept[2] not in everything


def test_second_use_of_an_id_is_an_error_row_under_a_name_of_its_own(tmp_path):
    first, second = read(spearbench(tmp_path, Row("a"), Row("a")))
    assert (first.dialogue_id, first.problem) == ("human/test/improvised/a", None)
    assert (second.dialogue_id, second.problem.code) == ("human/test/improvised/a#2", "duplicate_id")


def test_source_is_the_same_after_it_travelled(three):
    source = opened(three)
    shards = source.shards()
    there = pickle.loads(pickle.dumps(source))
    for one, other in zip(read_all(source), [d for s in shards for _, d in there.read(s, range(s.rows))], strict=True):
        assert replace(one, clip=None, answer=None).__dict__ == replace(other, clip=None, answer=None).__dict__
        np.testing.assert_array_equal(one.audio, other.audio)


def test_bundled_sample_is_the_same_wherever_it_was_unpacked(tmp_path, monkeypatch):
    before = [shard.shard_id for shard in open_source(load([])).shards()]
    copy = shutil.copytree(spear_ray.sample.SAMPLE_DIR, tmp_path / "data", copy_function=shutil.copyfile)
    monkeypatch.setattr(spear_ray.sample, "SAMPLE_DIR", copy)
    assert [shard.shard_id for shard in open_source(load([])).shards()] == before


def test_what_the_metadata_says_of_the_speakers_is_kept(tmp_path):
    told = {"relationship_detail": "friends", "participant_a_prompt_text": "be warm", "interaction_type": " "}
    (dialogue,) = read(spearbench(tmp_path, Row("a", fields=told), system="second"))
    assert dialogue.roles == {
        "speakers": speech().fields["speakers"],
        "relationship_detail": "friends",
        "participant_a_prompt_text": "be warm",
    }
