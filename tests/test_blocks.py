from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest

from spear_ray.blocks import AUDIO_COLUMNS, block_of, dialogues_of, score_column, scores_of, with_scores
from spear_ray.dialogue import Dialogue, Problem, Score, Status

RANDOM = np.random.default_rng(0)
ITEM = {"conversation_id": "c", "system": "größer", "split": "test", "subset": "improvised"}


def audio(*shape: int) -> np.ndarray:
    return RANDOM.normal(0, 0.3, shape).astype(np.float32)


FULL = Dialogue(
    dialogue_id="a",
    **ITEM,
    clip=audio(2, 1001),
    answer=audio(777),
    question_end_s=1 / 3,
    context_end_s=0.1,
    answer_start_s=-1e-9,
    answer_channels="both",
    question_text='P0001: "What, then?"\n',
    answer_text="",
    roles={"speakers": "P0001|P0002"},
    facts={"question": {"source_rate_hz": 44100, "peak": 0.1 + 0.2, "length_unknown": False}},
    notes=("question_mono", "b"),
)
RECORDING = Dialogue(dialogue_id="b", **ITEM, clip=audio(2, 64), question_end_s=0.5)
UNREADABLE = Dialogue(dialogue_id="c", **ITEM, problem=Problem("audio_format", "not audio: b'\\x00'"))
DIALOGUES = [FULL, RECORDING, UNREADABLE]
TODO = {3: ("vad", "emotion"), 5: ("vad",), 9: ("emotion",)}


@pytest.fixture
def block() -> pa.Table:
    return block_of("shard-1", list(zip(TODO, DIALOGUES, strict=True)), TODO)


def score(dialogue: Dialogue, **rest) -> Score:
    values = {"scorer": "vad", "version": "1", "fingerprint": "0" * 16, "status": Status.OK}
    return Score(dialogue_id=dialogue.dialogue_id, **ITEM, **{**values, **rest})


def assert_same(a: Dialogue, b: Dialogue) -> None:
    for item in fields(Dialogue):
        one, other = getattr(a, item.name), getattr(b, item.name)
        if isinstance(one, np.ndarray):
            assert one.dtype == other.dtype == np.float32
            assert one.shape == other.shape
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other, item.name
            assert type(one) is type(other), item.name


def test_dialogues_travel_unchanged(block):
    for sent, received in zip(DIALOGUES, dialogues_of(block), strict=True):
        assert_same(sent, received)


def test_dialogues_survive_the_store_between_processes(block):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema) as writer:
        writer.write_table(block)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        received = dialogues_of(reader.read_all())
    for a, b in zip(DIALOGUES, received, strict=True):
        assert_same(a, b)


def test_part_of_a_block_holds_its_own_dialogues(block):
    (received,) = dialogues_of(block.slice(1, 1))
    assert_same(RECORDING, received)
    for a, b in zip(DIALOGUES, dialogues_of(pa.concat_tables([block.slice(0, 1), block.slice(1)])), strict=True):
        assert_same(a, b)


def test_audio_points_into_the_block_and_is_not_copied(block):
    clip = dialogues_of(block)[0].clip
    assert not clip.flags.owndata
    assert not clip.flags.writeable
    begin = block.column("clip").chunk(0).buffers()[2].address
    assert begin <= clip.__array_interface__["data"][0] < begin + 2 * 1001 * 4


def test_swapped_channels_travel_in_their_new_order():
    swapped = replace(FULL, clip=FULL.clip[::-1])
    (received,) = dialogues_of(block_of("s", [(0, swapped)], {0: ("vad",)}))
    np.testing.assert_array_equal(received.clip, FULL.clip[::-1])


def test_a_block_says_where_its_rows_are_from_and_who_needs_them(block):
    assert block.column("shard").to_pylist() == ["shard-1"] * 3
    assert block.column("row").to_pylist() == [3, 5, 9]
    assert block.column("todo").to_pylist() == ["vad,emotion", "vad", "emotion"]
    assert block.column("seconds").to_pylist() == [d.seconds for d in DIALOGUES]


def test_scores_travel_unchanged(block):
    scores = [
        score(FULL, metrics={"latency_ms": 0.1 + 0.2, "answered": 1.0}, details={"notes": ["ü"], "x": [[0.1, 2.0]]}),
        None,
        score(UNREADABLE, status=Status.ERROR, code="audio_format", message="not audio"),
    ]
    scored = with_scores(block, "vad", scores, {"cpu_s": 0.5})
    received = scores_of(scored, "vad")
    assert received == scores
    assert type(received[0].status) is Status


def test_scores_of_several_scorers_stand_side_by_side(block):
    first, second = [score(FULL), None, None], [None, None, score(UNREADABLE, scorer="emotion")]
    scored = with_scores(with_scores(block, "vad", first, {}), "emotion", second, {})
    assert (scores_of(scored, "vad"), scores_of(scored, "emotion")) == (first, second)


def test_time_spent_stands_once_in_a_block(block):
    scored = with_scores(block, "vad", [None] * 3, {"cpu_s": 0.5})
    assert scored.column(score_column("vad", "spent")).to_pylist() == ['{"cpu_s": 0.5}', None, None]


def test_dropping_the_audio_keeps_the_scores(block):
    scored = with_scores(block, "vad", [score(FULL), None, None], {}).drop_columns(AUDIO_COLUMNS)
    assert scored.nbytes < FULL.clip.nbytes
    assert scores_of(scored, "vad")[0] == score(FULL)


def test_value_that_is_no_number_cannot_travel(block):
    with pytest.raises(ValueError, match="JSON compliant"):
        with_scores(block, "vad", [score(FULL, metrics={"x": float("nan")}), None, None], {})
