"""Batches by length, halved where the GPU is full; what was heard before is remembered."""

import numpy as np
import pytest
import torch

from spear_ray.errors import OutOfGpuMemory
from spear_ray.networks.batching import bucketed, padded, run_halving
from spear_ray.networks.memo import Memo, key_of

CLIPS = [np.full(size, 0.1, dtype=np.float32) for size in (5, 900, 40, 41, 7, 300)]


def test_batches_hold_clips_of_like_length_and_each_clip_once():
    lengths = [clip.size for clip in CLIPS]
    batches = list(bucketed(lengths, 200, 10))
    assert sorted(place for batch in batches for place in batch) == list(range(len(CLIPS)))
    assert [[lengths[place] for place in batch] for batch in batches] == [[5, 7, 40, 41], [300], [900]]
    assert all(len(batch) * max(lengths[place] for place in batch) <= 200 or len(batch) == 1 for batch in batches)


def test_batches_hold_a_limited_number_of_clips():
    assert [len(batch) for batch in bucketed([1] * 7, 1000, 3)] == [3, 3, 1]
    assert list(bucketed([], 10, 10)) == []


def test_a_full_gpu_halves_the_batch_until_it_fits():
    tried = []

    def run(batch):
        tried.append(len(batch))
        if len(batch) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return [clip.size for clip in batch]

    assert run_halving(run, CLIPS) == [clip.size for clip in CLIPS]
    assert tried[0] == 6
    assert max(tried[1:]) == 3


def test_only_the_clip_that_does_not_fit_by_itself_is_lost():
    def run(batch):
        if any(clip.size == 900 for clip in batch):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore")
        return [clip.size for clip in batch]

    found = run_halving(run, CLIPS)
    assert [one for one in found if not isinstance(one, OutOfGpuMemory)] == [5, 40, 41, 7, 300]
    assert isinstance(found[1], OutOfGpuMemory)
    assert str(found[1]) == "900 samples do not fit: CUDA out of memory. Tried to allocate 2 GiB"


def test_other_errors_are_not_taken_for_a_full_gpu():
    def run(batch):
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        run_halving(run, CLIPS)


def test_padding_is_zeros_and_what_is_longer_is_cut():
    found = padded(CLIPS, 6, "cpu")
    assert found.shape == (6, 6)
    assert found[0].tolist() == pytest.approx([0.1] * 5 + [0.0])
    assert found[1].tolist() == pytest.approx([0.1] * 6)


def test_a_memo_forgets_what_was_not_used_for_longest():
    memo = Memo(most_bytes=24)
    keys = [key_of("clip", clip) for clip in CLIPS[:4]]
    for key in keys[:3]:
        memo.put(key, {"x": np.zeros(2, dtype=np.float32)})
    assert memo.get(keys[0]) is not None
    memo.put(keys[3], {"x": np.zeros(2, dtype=np.float32)})
    assert [memo.get(key) is not None for key in keys] == [True, False, True, True]


def test_a_clip_heard_in_another_way_is_another_key():
    assert key_of("clip", CLIPS[0]) != key_of("window", CLIPS[0])
    assert key_of("clip", CLIPS[0]) == key_of("clip", CLIPS[0].copy())
    assert key_of("clip", CLIPS[0]) != key_of("clip", CLIPS[4])
