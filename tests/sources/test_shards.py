"""Tar shards, as `spear-ray pack` writes them, give what the folder gives."""

import hashlib
import json
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import bundled
import numpy as np
import pytest
from bundled import read_all, vad
from datasets import Row, audio_bytes, spearbench, speech

from spear_ray.config import load
from spear_ray.dialogue import Dialogue
from spear_ray.errors import ConfigError, DataLayoutError
from spear_ray.packing import PART_ROWS, pack
from spear_ray.sources import Shard, Source, open_source
from spear_ray.sources.shards import key_of
from spear_ray.store import Store

SMALL = 400_000
"""Bytes of a shard: a few dialogues of the sample."""


def packed(target: Path, uri: object = "sample", most: int = 1 << 30) -> dict:
    """Pack a data set and return the index."""
    pack(load([f"data.uri={uri}", f"pack.uri={target}", f"pack.shard_bytes={most}"]))
    return json.loads((target / "index.json").read_text())


def opened(folder: Path, *words: str) -> Source:
    return open_source(load([f"data.uri={folder}", *words]))


def ids(shards: list[Shard]) -> list[str]:
    return [shard.shard_id for shard in shards]


def assert_same(one: Dialogue, other: Dialogue, *but: str) -> None:
    for item in fields(Dialogue):
        a, b = getattr(one, item.name), getattr(other, item.name)
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        elif item.name not in but:
            assert a == b, item.name


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """The sample in one tar."""
    folder = tmp_path_factory.mktemp("large")
    packed(folder)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """The sample in many tars."""
    folder = tmp_path_factory.mktemp("small")
    packed(folder, most=SMALL)
    return folder


def index_of(folder: Path) -> dict:
    return json.loads((folder / "index.json").read_text())


def test_packed_dialogues_are_those_of_the_folder(small):
    read = read_all(opened(small))
    for one, other in zip(bundled.dialogues(), read, strict=True):
        assert_same(one, other)


def test_packed_dialogues_have_the_scores_of_the_folder(small):
    chosen = slice(None, None, 7)
    assert vad().score(read_all(opened(small))[chosen]) == vad().score(bundled.dialogues()[chosen])


def test_size_of_a_shard_does_not_change_what_is_read(large, small):
    assert len(index_of(small)["shards"]) > 5
    assert len(index_of(large)["shards"]) == 1
    for one, other in zip(read_all(opened(large)), read_all(opened(small)), strict=True):
        assert_same(one, other)


def test_no_shard_is_larger_than_was_asked_for_and_none_was_closed_too_early(small):
    shards = index_of(small)["shards"]
    first = [dialogue_bytes(small / entry["name"]) for entry in shards]
    for entry, following in zip(shards, first[1:], strict=False):
        assert entry["bytes"] <= SMALL
        assert entry["bytes"] + following > SMALL
    assert shards[-1]["bytes"] <= SMALL


def dialogue_bytes(path: Path) -> int:
    """What the first dialogue of a tar takes."""
    return ends_of(path)[0]


def ends_of(path: Path) -> list[int]:
    """Where each dialogue of a tar ends."""
    ends: dict[str, int] = {}
    with tarfile.open(path) as tar:
        for member in tar:
            ends[member.name.split(".")[0]] = member.offset_data + -(-member.size // 512) * 512
    return list(ends.values())


@pytest.mark.parametrize("name", ["a" * 130, "größer-als-" + "ü" * 40])
def test_long_and_foreign_names_fit_into_a_shard_too(tmp_path, name):
    short = audio_bytes(speech().answer[:4000], kind="FLAC")
    rows = [Row(f"{name}-{number:02d}", clip=short, answer=short, extension="flac") for number in range(40)]
    most = 100_000
    index = packed(tmp_path / "shards", spearbench(tmp_path / "data", *rows), most)
    assert sum(entry["rows"] for entry in index["shards"]) == 40
    assert max((tmp_path / "shards" / entry["name"]).stat().st_size for entry in index["shards"]) <= most


def test_dialogue_larger_than_a_shard_is_an_error_that_names_it(tmp_path):
    with pytest.raises(
        DataLayoutError, match=r"early/test/improvised/\S+ alone needs \d+ bytes; pack.shard_bytes is 20000"
    ):
        packed(tmp_path, most=20_000)
    assert not (tmp_path / "index.json").exists()


def test_packing_needs_a_place(tmp_path):
    with pytest.raises(ConfigError, match=r"pack\.uri"):
        pack(load([]))


def test_shards_are_not_packed_again(small, tmp_path):
    with pytest.raises(DataLayoutError, match="SPEARBench"):
        packed(tmp_path, uri=small)


def test_index_tells_the_truth_about_each_tar(small):
    index = index_of(small)
    assert {entry["name"] for entry in index["shards"]} == {path.name for path in small.glob("*.tar")}
    for entry in index["shards"]:
        data = (small / entry["name"]).read_bytes()
        assert entry["bytes"] == len(data)
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
        assert entry["rows"] == sum(len(part["dialogues"]) for part in entry["parts"])
    assert index["rows"] == sum(entry["rows"] for entry in index["shards"]) == len(bundled.dialogues())
    assert index["bytes"] == sum(entry["bytes"] for entry in index["shards"])


def test_index_lists_the_dialogues_in_their_order(small):
    listed = [item for entry in index_of(small)["shards"] for part in entry["parts"] for item in part["dialogues"]]
    assert listed == [[d.dialogue_id, d.conversation_id, d.system, d.split, d.subset] for d in bundled.dialogues()]


def test_a_tar_can_be_read_from_each_offset_that_the_index_lists(large):
    (entry,) = index_of(large)["shards"]
    source = opened(large)
    assert [len(part["dialogues"]) for part in entry["parts"]] == [PART_ROWS, 48 - PART_ROWS]
    for part, shard in zip(entry["parts"], source.shards(), strict=True):
        with (large / entry["name"]).open("rb") as file:
            file.seek(part["offset"])
            with tarfile.open(fileobj=file, mode="r|") as tar:
                first = tar.next()
        assert first.name == f"{key_of(source.items(shard)[0])}.json"


def test_checksums_of_the_members_are_those_of_their_bytes(small):
    with tarfile.open(small / "shard-000000.tar") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}
    metas = {name: json.loads(data) for name, data in members.items() if name.endswith(".json")}
    assert metas
    for name, meta in metas.items():
        key = name.removesuffix(".json")
        assert len(meta["members"]) == 2
        assert meta["id"] == key
        for extension, digest in meta["members"].items():
            assert hashlib.sha256(members[f"{key}.{extension}"]).hexdigest() == digest


def test_packing_twice_gives_the_same_bytes(small, tmp_path):
    packed(tmp_path, most=SMALL)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in small.iterdir()
    }


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "PCM_32", "FLOAT", "PCM_U8"])
@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_packing_is_lossless_for_every_coding(tmp_path, subtype, rate_hz):
    clip, answer = (
        audio_bytes(samples[:30_000], rate_hz, subtype=subtype) for samples in (speech().clip, speech().answer)
    )
    times = {"question_end_time": "0.6", "context_end_time": "0.1", "answer_start_time": "0.1"}
    data = spearbench(tmp_path / "data", Row("a", clip=clip, answer=answer, fields=times))
    packed(tmp_path / "shards", data)
    (before,), (after,) = read_all(opened(data)), read_all(opened(tmp_path / "shards"))
    assert before.problem is None
    assert_same(before, after, "facts")
    for role in ("question", "answer"):
        one, other = ({k: v for k, v in d.facts[role].items() if k != "format"} for d in (before, after))
        assert one == other
    stored_as = "FLAC" if subtype in ("PCM_16", "PCM_24") else "WAV"
    assert after.facts["answer"]["format"] == f"{stored_as}/{subtype}"


def test_names_with_dots_and_percent_signs_come_back(tmp_path):
    names = ["a.b", "a%2Eb", "a", "a.question"]
    data = spearbench(tmp_path / "data", *(Row(name) for name in names))
    packed(tmp_path / "shards", data)
    read = read_all(opened(tmp_path / "shards"))
    assert [dialogue.dialogue_id for dialogue in read] == [f"human/test/improvised/{name}" for name in names]
    assert [dialogue.problem for dialogue in read] == [None] * 4


def test_asking_channel_and_mix_are_chosen_when_shards_are_read(small):
    for words in (["data.asking_channel=1"], ["data.answer_channels=both"]):
        folder = read_all(open_source(load([*words, "data.limit=2"])))
        for one, other in zip(folder, read_all(opened(small, *words, "data.limit=2")), strict=True):
            assert_same(one, other)
            np.testing.assert_array_equal(one.audio, other.audio)


def names(folder: Path, *words: str) -> list[str]:
    source = opened(folder, *words)
    return [item.dialogue_id for shard in source.shards() for item in source.items(shard)]


@pytest.mark.parametrize(
    "words",
    [
        ["data.systems=[slow]"],
        ["data.subsets=[naturalistic]"],
        ["data.systems=[human,slow]", "data.subsets=[improvised]"],
    ],
)
def test_filters_keep_what_they_keep_of_the_folder(small, large, words):
    expected = [item.dialogue_id for item in items_of_the_sample(words)]
    assert 0 < len(expected) < 48
    assert names(small, *words) == names(large, *words) == expected


@pytest.mark.parametrize("limit", [1, 7, 32, 33, 47])
def test_limit_keeps_the_first_rows(small, large, limit):
    expected = [dialogue.dialogue_id for dialogue in bundled.dialogues()[:limit]]
    assert names(small, f"data.limit={limit}") == names(large, f"data.limit={limit}") == expected


def items_of_the_sample(words: list[str]) -> list:
    source = open_source(load(words))
    return [item for shard in source.shards() for item in source.items(shard)]


def test_filtered_rows_are_the_same_dialogues(large):
    expected = [dialogue for dialogue in bundled.dialogues() if dialogue.system == "slow"]
    for one, other in zip(expected, read_all(opened(large, "data.systems=[slow]")), strict=True):
        assert_same(one, other)


def test_only_wanted_rows_are_decoded(large):
    source = opened(large)
    shard = source.shards()[1]
    read = dict(source.read(shard, {3, 11}))
    assert list(read) == [3, 11]
    for row, dialogue in read.items():
        assert_same(bundled.dialogues()[PART_ROWS + row], dialogue)


def test_shard_ids_are_stable_and_change_with_a_tar(small, tmp_path):
    before = opened(small).shards()
    assert ids(before) == ids(opened(small).shards())
    assert len(set(ids(before))) == len(before)
    entries = index_of(small)
    entries["shards"][1]["sha256"] = "0" * 64
    for path in small.glob("*.tar"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "index.json").write_text(json.dumps(entries))
    after = opened(tmp_path).shards()
    assert [one == other for one, other in zip(ids(before), ids(after), strict=True)] == [
        shard.payload["name"] != entries["shards"][1]["name"] for shard in before
    ]


def test_moved_shards_have_the_same_ids(small, tmp_path):
    for path in small.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert ids(opened(tmp_path).shards()) == ids(opened(small).shards())


class Watched(Store):
    """A store that knows how far its stream was read."""

    at = 0

    @contextmanager
    def open(self, name: str, offset: int = 0) -> Iterator["Watched"]:
        with super().open(name, offset) as file:
            self.file, self.at = file, offset
            yield self

    def read(self, size: int = -1, *_: int) -> bytes:
        data = self.file.read(size) if isinstance(size, int) else super().read(size, *_)
        if isinstance(size, int):
            self.at += len(data)
        return data


def test_reading_never_runs_ahead_of_the_dialogue_in_use(large):
    source = opened(large)
    shard = source.shards()[0]
    ends = ends_of(large / "shard-000000.tar")
    watched = Watched(str(large))
    source.store = watched
    seen = 0
    for row, _ in source.read(shard, range(shard.rows)):
        # tarfile fetches whole records.
        assert ends[row] <= watched.at <= ends[row] + tarfile.RECORDSIZE
        seen += 1
    assert seen == PART_ROWS


def test_reading_one_row_ends_there(large):
    source = opened(large)
    source.store = Watched(str(large))
    list(source.read(source.shards()[0], {2}))
    assert source.store.at <= ends_of(large / "shard-000000.tar")[2] + tarfile.RECORDSIZE
