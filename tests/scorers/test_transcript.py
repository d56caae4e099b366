"""The transcript scorer: small random recognisers, a stub that says what it is told, and a server on loopback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asr_server import running

from spear_ray.dialogue import Problem, Samples, Status
from spear_ray.errors import CheckpointMissing, ConfigError, OutOfGpuMemory, PrerequisiteError
from spear_ray.scorers.transcript import TranscriptConfig, TranscriptScorer
from spear_ray.transcripts.endpoint import EndpointSettings
from spear_ray.transcripts.words import Heard, Word
from tests import tiny_asr
from tests.bundled import dialogues
from tests.clips import dialogue_of, noise, silence, speech

RATES = {"spear_wer", "spear_cer", "wer", "cer"}
KEY = "key-of-nobody-7261"


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    with tiny_asr.one_thread():
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("checkpoints")
    tiny_asr.whisper(where / "whisper")
    tiny_asr.whisper(where / "german", sure_of="de")
    tiny_asr.qwen(where / "qwen")
    return where


def scorer(folder: Path, model: str = "whisper", **settings: Any) -> TranscriptScorer:
    made = TranscriptScorer(TranscriptConfig(model=str(folder / model), **{"language": "any"} | settings))
    assert made.missing() is None
    made.setup()
    return made


class Stub:
    """Says the same of every clip, and keeps what it heard."""

    def __init__(self, *found: Heard | Problem) -> None:
        self.found, self.clips = found, []

    def transcribe(self, clips: Sequence[Samples]) -> list[Heard | Problem]:
        self.clips += clips
        return [self.found[min(place, len(self.found) - 1)] for place in range(len(clips))]


def told(folder: Path, *found: Heard | Problem, **settings: Any) -> TranscriptScorer:
    made = scorer(folder, **settings)
    made._recogniser = Stub(*found)
    return made


def saying(text: str | None, **rest: Any) -> Any:
    return replace(dialogue_of(answer=speech(3.0), **rest), answer_text=text)


def test_bundled_answers_have_text_words_and_both_kinds_of_rates(folder: Path) -> None:
    for row in scorer(folder).score(dialogues()[:3]):
        assert row.status == Status.OK
        assert row.metrics.keys() == RATES | {"words"}
        assert row.metrics["words"] == len(row.details["text"].split()) > 0
        json.dumps(row.details, allow_nan=False)
        assert row.details.keys() == {"text", "words", "language", "notes"}


def test_the_rates_are_those_of_the_text_that_was_meant(folder: Path) -> None:
    row = told(folder, Heard("Well, I don't know", "en")).score([saying("P1234: Well I don't know.")])[0]
    assert row.metrics == {"spear_wer": 0.25, "spear_cer": pytest.approx(1 / 17), "wer": 0.0, "cer": 0.0, "words": 4.0}
    assert row.details == {"text": "Well, I don't know", "words": None, "language": "en", "notes": []}


def test_a_checkpoints_spellings_reach_the_normaliser(folder: Path) -> None:
    row = told(folder, Heard("a color", "en")).score([saying("a colour")])[0]
    assert (row.metrics["wer"], row.metrics["spear_wer"]) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("reference", "note"), [(None, "reference_missing"), ("...", "reference_empty"), ("a   ", "reference_empty")]
)
def test_without_a_reference_the_transcript_stays_and_no_rate_is_made_up(
    folder: Path, reference: str | None, note: str
) -> None:
    row = told(folder, Heard("hello there", "en")).score([saying(reference)])[0]
    assert (row.status, row.metrics, row.details["notes"]) == (Status.OK, {"words": 2.0}, [note])


@pytest.mark.parametrize(
    ("answer", "code"),
    [(speech(0.2), "too_short"), (silence(3.0), "no_speech"), (noise(3.0), "no_speech"), (silence(0.0), "too_short")],
    ids=["short", "silent", "noise", "nothing"],
)
def test_answers_that_cannot_be_heard_have_a_code(folder: Path, answer: Any, code: str) -> None:
    made = told(folder, Heard("made up"))
    row = made.score([dialogue_of(answer=answer)])[0]
    assert (row.status, row.code, row.metrics) == (Status.SKIPPED, code, {})
    assert made._recogniser.clips == []


def test_everything_is_heard_where_that_is_wanted(folder: Path) -> None:
    row = told(folder, Heard("you", "en"), min_speech_s=0.0).score([dialogue_of(answer=silence(3.0))])[0]
    assert (row.status, row.details["text"]) == (Status.OK, "you")


def test_an_answer_in_which_no_words_are_heard_has_a_code(folder: Path) -> None:
    row = told(folder, Heard("", None, ())).score([saying("Yes.")])[0]
    assert (row.status, row.code, row.metrics) == (Status.SKIPPED, "asr_empty", {})


def test_an_answer_in_another_language_keeps_its_transcript_and_has_no_rates(folder: Path) -> None:
    made = told(folder, Heard("guten Tag", "de", (Word("guten", 0.1, 0.5), Word("Tag", 0.5, 0.9))), language="en")
    row = made.score([saying("Hello.")])[0]
    assert (row.status, row.code, row.metrics) == (Status.SKIPPED, "not_english", {})
    assert (row.details["text"], row.details["language"], len(row.details["words"])) == ("guten Tag", "de", 2)


def test_a_recogniser_that_tells_no_language_is_believed(folder: Path) -> None:
    assert told(folder, Heard("Hello", None), language="en").score([saying("Hello.")])[0].status == Status.OK


def test_whisper_itself_tells_the_language(folder: Path) -> None:
    row = scorer(folder, "german", language="en").score([saying("Hello.")])[0]
    assert (row.status, row.code, row.details["language"]) == (Status.SKIPPED, "not_english", "de")


def test_a_confidence_that_nothing_reaches_makes_all_english(folder: Path) -> None:
    row = scorer(folder, language="en", min_confidence=1.0).score([saying("Hello.")])[0]
    assert (row.status, row.details["language"]) == (Status.OK, None)


def test_word_times_lie_in_speech_and_count_from_the_answers_beginning(folder: Path) -> None:
    answer = np.concatenate([silence(1.0), speech(2.0), silence(1.5)])
    made = told(folder, Heard("all of it", "en", (Word("all", 0.0, 1.5), Word("of", 1.5, 2.0), Word("it", 2.0, 4.5))))
    words = made.score([dialogue_of(answer=answer)])[0].details["words"]
    assert [word[0] for word in words] == ["all", "of", "it"]
    assert 0.8 <= words[0][1] <= 1.3
    assert 2.5 <= words[-1][2] <= 3.3


def test_a_long_answer_is_heard_in_pieces_that_join_to_one_transcript(folder: Path) -> None:
    answer = np.concatenate([speech(20.0), silence(3.0), speech(18.0, voice=1), silence(2.0)])
    made = told(folder, Heard("one", "en", (Word("one", 1.0, 2.0),)), Heard("two", "en", (Word("two", 1.0, 2.0),)))
    row = made.score([replace(dialogue_of(answer=answer), answer_text="one two")])[0]
    assert [clip.size <= 30 * 16_000 for clip in made._recogniser.clips] == [True, True]
    assert (row.details["text"], row.metrics["wer"]) == ("one two", 0.0)
    first, second = (word[1] for word in row.details["words"])
    assert 0.5 < first < 2.0
    assert 23.0 < second < 25.0


def test_one_piece_that_fails_is_an_error_of_its_answer_only(folder: Path) -> None:
    long = np.concatenate([speech(20.0), silence(3.0), speech(18.0, voice=1)])
    made = told(
        folder, Heard("a", "en"), Heard("b", "en"), Problem("asr_endpoint_failed", "HTTP 503"), Heard("d", "en")
    )
    rows = made.score([saying("a"), dialogue_of(answer=long), saying("d")])
    assert [(row.status, row.code) for row in rows] == [
        (Status.OK, None), (Status.ERROR, "asr_endpoint_failed"), (Status.OK, None),
    ]  # fmt: skip
    assert [row.details["text"] for row in rows if row.details] == ["a", "d"]


def test_a_text_that_was_cut_is_noted(folder: Path) -> None:
    row = told(folder, Heard("on and on", "en", cut=True)).score([saying("on and on")])[0]
    assert row.details["notes"] == ["asr_cut"]


@pytest.mark.parametrize("model", ["whisper", "qwen"])
def test_a_score_does_not_depend_on_its_batch(folder: Path, model: str) -> None:
    batch = [
        replace(dialogue_of(name=f"d{n}", answer=speech(s, voice=n % 2)), answer_text="yes, that is fine")
        for n, s in enumerate([1.1, 34.0, 4.2, 0.2])
    ]
    made, other = scorer(folder, model), scorer(folder, model)
    for one in (made, other):
        one._recogniser.most_tokens = 10
    for dialogue, row in zip(batch, made.score(batch), strict=True):
        alone = other.score([dialogue])[0]
        assert (row.status, row.code, row.details) == (alone.status, alone.code, alone.details)
        assert row.metrics == pytest.approx(alone.metrics, abs=1e-4)


def test_a_clip_that_does_not_fit_the_gpu_is_one_error_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scorer(folder)
    read = made._recogniser.read

    def full(clips: list[Any]) -> list[Any]:
        pairs = zip(clips, read(clips), strict=True)
        return [OutOfGpuMemory("no room") if clip.size > 100_000 else one for clip, one in pairs]

    monkeypatch.setattr(made._recogniser, "read", full)
    rows = made.score([dialogue_of(name="a", answer=speech(3.0)), dialogue_of(name="b", answer=speech(9.0))])
    assert [(row.status, row.code) for row in rows] == [(Status.OK, None), (Status.ERROR, "gpu_out_of_memory")]


def test_unreadable_dialogues_are_errors(folder: Path) -> None:
    broken = replace(saying("x"), clip=None, answer=None, problem=Problem("audio_decode", "broken"))
    rows = told(folder, Heard("Yes", "en")).score([broken, saying("Yes.")])
    assert [row.code for row in rows] == ["audio_decode", None]


def remote(url: str, **endpoint: Any) -> TranscriptScorer:
    settings = EndpointSettings(**{"base_url": url, "retries": 0, "backoff_s": 0.0} | endpoint)
    config = TranscriptConfig(engine="endpoint", endpoint=settings)
    config.check()
    made = TranscriptScorer(config)
    assert made.missing() is None
    made.setup()
    return made


def test_a_server_hears_in_place_of_a_checkpoint() -> None:
    words = [{"word": "Well", "start": 0.1, "end": 0.5}]
    with running({"text": "Well", "language": "english", "words": words}) as server:
        row = remote(server.url).score([saying("Well.")])[0]
    assert (row.status, row.metrics["spear_wer"]) == (Status.OK, 0.0)
    assert row.details["words"][0][0] == "Well"


def test_a_server_that_fails_costs_no_row_and_tells_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", KEY)
    deeds = ({"text": "one"}, 401, b"no json", {"text": "four"})
    with running(*deeds) as server:
        made = remote(server.url, key_variable="SOME_KEY", concurrency=1)
        rows = made.score([saying("one", name=str(n)) for n in range(4)])
    assert [row.code for row in rows] == [None, "asr_endpoint_refused", "asr_endpoint_answer", None]
    assert server.asked[0].authorization == f"Bearer {KEY}"
    assert KEY not in repr(rows) + json.dumps(made.identity) + repr(made.config)


def test_a_key_that_is_not_set_is_missed_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    settings = EndpointSettings(base_url="http://asr:8000", key_variable="SOME_KEY")
    reason = TranscriptScorer(TranscriptConfig(engine="endpoint", endpoint=settings)).missing()
    assert isinstance(reason, PrerequisiteError)
    assert "SOME_KEY" in str(reason)


def test_without_a_checkpoint_the_command_is_named() -> None:
    reason = TranscriptScorer(TranscriptConfig()).missing()
    assert isinstance(reason, CheckpointMissing)
    assert "spear-ray checkpoints pull whisper-large-v3 " in f"{reason} "
    other = TranscriptScorer(TranscriptConfig(model="hf://Qwen/Qwen3-ASR-0.6B-hf")).missing()
    assert "spear-ray checkpoints pull Qwen3-ASR-0.6B-hf" in str(other)


def test_a_whisper_that_was_fetched_for_languages_only_is_missed_too(folder: Path, tmp_path: Path) -> None:
    where = shutil.copytree(folder / "whisper", tmp_path / "whisper")
    (where / "tokenizer.json").unlink()
    reason = TranscriptScorer(TranscriptConfig(model=str(where))).missing()
    assert isinstance(reason, CheckpointMissing)
    assert "tokenizer.json" in str(reason)


def test_no_recogniser_at_all_is_refused() -> None:
    assert isinstance(TranscriptScorer(TranscriptConfig(model="none")).missing(), PrerequisiteError)


def test_jiwer_is_asked_for_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spear_ray.transcripts.errors_of.find_spec", lambda name: None)
    made = TranscriptScorer(TranscriptConfig(model=str(folder / "whisper")))
    assert "pip install jiwer" in str(made.missing())
    assert made.fingerprint


def test_the_fingerprint_follows_content_and_settings_and_not_batches(folder: Path, tmp_path: Path) -> None:
    def fingerprint(**settings: Any) -> str:
        return TranscriptScorer(TranscriptConfig(**{"model": str(folder / "whisper")} | settings)).fingerprint

    base = fingerprint()
    assert fingerprint(batch_clips=3, batch_seconds=9.0) == base
    for change in ({"language": "any"}, {"precision": "bf16"}, {"min_confidence": 0.1}, {"min_speech_s": 0.0}):
        assert fingerprint(**change) != base
    same = shutil.copytree(folder / "whisper", tmp_path / "same")
    assert fingerprint(model=str(same)) == base
    (same / "normalizer.json").write_text("{}")
    assert fingerprint(model=str(same)) != base


def test_the_fingerprint_of_a_server_follows_its_names_and_not_how_it_is_asked() -> None:
    def fingerprint(**endpoint: Any) -> str:
        settings = EndpointSettings(**{"base_url": "http://asr:8000"} | endpoint)
        return TranscriptScorer(TranscriptConfig(engine="endpoint", endpoint=settings)).fingerprint

    base = fingerprint()
    assert fingerprint(timeout_s=3, retries=9, concurrency=8, backoff_s=1, key_variable="SOME_KEY") == base
    assert base not in (fingerprint(model="other"), fingerprint(base_url="http://b:8000"), fingerprint(words=False))


@pytest.mark.parametrize(
    "settings",
    [{"engine": "kaldi"}, {"language": "de"}, {"precision": "fp16"}, {"min_confidence": 1.5}, {"batch_clips": 0},
     {"min_seconds": -1.0}, {"min_speech_s": -1.0}, {"engine": "endpoint"}],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        TranscriptConfig(**settings).check()
