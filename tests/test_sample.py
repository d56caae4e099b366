"""The bundled sample is what it says it is; needs no flite."""

import csv
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from spear_ray.sample import SAMPLE_DIR

ON_DISK = {"human": "original", "early": "early", "slow": "slow", "sometimes-silent": "sometimes-silent"}
PUBLISHED_ROOT = "data/seamless_2t_2s_questions/"
RATE_HZ = 16_000


def read_tables(pattern: str) -> list[dict[str, str]]:
    rows = []
    for path in sorted(SAMPLE_DIR.glob(pattern)):
        with path.open(newline="", encoding="utf-8") as file:
            rows += csv.DictReader(file)
    return rows


def answers(system: str) -> list[dict[str, str]]:
    return read_tables(f"outputs/{ON_DISK[system]}/test/*/metadata.csv")


def clips() -> list[dict[str, str]]:
    return read_tables("inputs/test/*/metadata.csv")


def on_disk(published: str) -> Path:
    return SAMPLE_DIR / published.removeprefix(PUBLISHED_ROOT)


def asking_channel(row: dict[str, str]) -> int:
    speakers = row["speakers"].split("|")
    return speakers.index([word[:-1] for word in row["transcript_question"].split() if word[:-1] in speakers][-1])


def true_latencies_s(system: str) -> list[float]:
    return [
        float(row["answer_speech_start_s"]) - float(row["question_speech_end_s"])
        for row in read_tables("truth.csv")
        if row["system"] == system and row["answer_speech_start_s"]
    ]


def test_sample_is_under_four_megabytes():
    assert sum(path.stat().st_size for path in SAMPLE_DIR.rglob("*") if path.is_file()) < 4_000_000


def test_sample_imports_without_numpy_and_soundfile():
    code = "import sys, spear_ray.sample; sys.exit(bool({'numpy', 'soundfile'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("system", ON_DISK)
def test_every_system_answers_the_same_twelve_items_of_seven_conversations(system):
    rows = answers(system)
    assert [row["audio_path"] for row in rows] == [row["audio_path"] for row in clips()]
    assert len({row["audio_path"] for row in rows}) == 12
    assert len({row["conversation_id"] for row in rows}) == 7


def test_every_path_resolves_to_16_khz_flac():
    paths = {row["audio_path"] for row in clips()}
    paths |= {row["answer_audio_path"] for system in ON_DISK for row in answers(system)}
    assert len(paths) == 12 * 5
    for path in paths:
        info = soundfile.info(on_disk(path))
        assert (info.format, info.subtype, info.samplerate) == ("FLAC", "PCM_16", RATE_HZ)


def test_question_clip_has_two_channels_and_ends_with_the_question():
    for row in clips():
        info = soundfile.info(on_disk(row["audio_path"]))
        assert info.channels == 2
        assert info.frames / RATE_HZ == pytest.approx(float(row["question_end_time"]), abs=0.001)
        assert 5 <= info.duration <= 9


def test_the_asker_is_on_either_channel():
    channels = [asking_channel(row) for row in clips()]
    assert min(channels.count(0), channels.count(1)) >= 4


def test_the_question_is_on_the_channel_of_its_asker():
    for row in clips():
        audio, _ = soundfile.read(on_disk(row["audio_path"]))
        question = audio[round(float(row["context_end_time"]) * RATE_HZ) :]
        loudness = np.mean(question**2, axis=0)
        assert np.argmax(loudness) == asking_channel(row)


def test_early_human_answer_is_also_heard_in_the_clip():
    early = [row for row in answers("human") if float(row["answer_start_time"]) < 0]
    assert len(early) == 2
    for row in early:
        clip, _ = soundfile.read(on_disk(row["audio_path"]), dtype="int16")
        answer, _ = soundfile.read(on_disk(row["answer_audio_path"]), dtype="int16")
        count = round(-float(row["answer_start_time"]) * RATE_HZ)
        np.testing.assert_array_equal(clip[-count:, 1 - asking_channel(row)], answer[:count, 0])


def test_human_answer_has_two_equal_channels():
    for row in answers("human"):
        audio, _ = soundfile.read(on_disk(row["answer_audio_path"]), dtype="int16")
        np.testing.assert_array_equal(audio[:, 0], audio[:, 1])


def test_human_latencies_are_those_of_people():
    latencies_s = true_latencies_s("human")
    assert -0.2 < min(latencies_s) < 0 < max(latencies_s) < 0.7
    assert statistics.median(latencies_s) == pytest.approx(0.2, abs=0.1)


def test_early_system_always_speaks_before_the_question_ends():
    latencies_s = true_latencies_s("early")
    assert len(latencies_s) == 12
    assert max(latencies_s) < -0.3


def test_slow_system_waits_more_than_a_second_and_a_half():
    latencies_s = true_latencies_s("slow")
    assert len(latencies_s) == 12
    assert min(latencies_s) > 1.5


def test_sometimes_silent_system_says_nothing_in_four_items():
    peaks = [np.abs(soundfile.read(on_disk(row["answer_audio_path"]))[0]).max() for row in answers("sometimes-silent")]
    assert len(true_latencies_s("sometimes-silent")) == 8
    assert sum(peak < 0.002 for peak in peaks) == 4
    assert sum(peak == 0 for peak in peaks) == 2


def test_truth_agrees_with_the_tables():
    truth = {(row["system"], row["id"]): row for row in read_tables("truth.csv")}
    assert len(truth) == 12 * 4
    for system in ON_DISK:
        for row in answers(system):
            times = truth[system, Path(row["audio_path"]).stem]
            assert float(times["question_speech_end_s"]) == pytest.approx(float(row["question_end_time"]), abs=0.001)
            if times["answer_speech_start_s"]:
                start_s = float(row["question_end_time"]) + float(row["answer_start_time"])
                assert 0 <= float(times["answer_speech_start_s"]) - start_s <= 0.1501
                assert float(times["answer_speech_end_s"]) <= start_s + float(row["answer_duration"]) + 0.001
