"""Recognisers on small random checkpoints in the published formats, against transformers' own ways."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import Qwen3ASRFeatureExtractor, Qwen3ASRForConditionalGeneration, WhisperForConditionalGeneration

from spear_ray.dialogue import Problem
from spear_ray.errors import CheckpointMissing, PrerequisiteError
from spear_ray.networks.asr import load_recogniser
from spear_ray.networks.batching import padded
from spear_ray.networks.qwen_asr import QwenRecogniser
from spear_ray.networks.recogniser import CUT, TOKENS, Recogniser, read_spellings
from spear_ray.networks.whisper_asr import LANGUAGES, STARTS, WhisperRecogniser
from tests import tiny_asr
from tests.clips import silence, speech

FETCH = "fetch it"
CLIPS = [speech(seconds) for seconds in (0.3, 4.5, 12.3)]
QWEN_TOKENS = 12


@pytest.fixture(scope="module", autouse=True)
def light() -> Iterator[None]:
    with tiny_asr.one_thread():
        yield


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_asr.whisper(tmp_path_factory.mktemp("whisper"))


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_asr.qwen(tmp_path_factory.mktemp("qwen"))


@pytest.fixture
def copied(whisper: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whisper, tmp_path / "copy")


def ours(folder: Path) -> Recogniser:
    made = load_recogniser(folder, FETCH)
    if isinstance(made, QwenRecogniser):
        made.most_tokens = QWEN_TOKENS
    return made


def theirs(folder: Path) -> WhisperForConditionalGeneration:
    model = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    # transformers keeps keys of a generation_config.json that it does not know only in its own hub models
    for key, value in json.loads((folder / "generation_config.json").read_text()).items():
        setattr(model.generation_config, key, value)
    return model


def mels_of(made: WhisperRecogniser, clip: np.ndarray) -> torch.Tensor:
    return made.log_mel(padded([clip], 480_000, "cpu"))


def test_whisper_writes_what_transformers_own_generation_writes(whisper):
    made, reference = ours(whisper), theirs(whisper)
    assert isinstance(made, WhisperRecogniser)
    assert made.longest_s == 30.0
    made.min_confidence = 0.0
    texts = set()
    for clip, found in zip(CLIPS, made.read(CLIPS), strict=True):
        with torch.inference_mode():
            ids = reference.generate(mels_of(made, clip), task="transcribe", num_beams=1)[0].tolist()
        assert [token for token in ids if token < made.marks.end] == found[TOKENS].tolist()
        texts.add(made.heard(found).text)
    assert len(texts) > 1, "a recogniser that writes the same of all clips shows nothing"


def test_whisper_hears_the_language_that_transformers_detects(whisper):
    made, reference = ours(whisper), theirs(whisper)
    for clip, found in zip(CLIPS, made.read(CLIPS), strict=True):
        with torch.inference_mode():
            token = int(reference.detect_language(input_features=mels_of(made, clip))[0])
        best = list(made.marks.languages.values())[int(found[LANGUAGES].argmax())]
        assert best == token


def test_tokens_begin_where_transformers_says_of_the_same_attention(whisper):
    made, reference = ours(whisper), theirs(whisper)
    made.min_confidence = 0.0
    for clip, found in zip(CLIPS, made.read(CLIPS), strict=True):
        language = list(made.marks.languages)[int(found[LANGUAGES].argmax())]
        prompt = made.marks.prompt(language)
        ids = torch.tensor([[*prompt, *found[TOKENS].tolist()]])
        with torch.inference_mode():
            seen = reference(mels_of(made, clip), decoder_input_ids=ids, output_attentions=True)
            # As if each of them had been written by generate(), the prompt's last token as the first.
            outputs = _Generated(cross_attentions=[seen.cross_attentions], sequences=ids)
            heads = reference.generation_config.alignment_heads
            expected = reference._extract_token_timestamps(
                outputs, heads, num_frames=clip.size // 160, num_input_ids=len(prompt) - 1
            )[0, len(prompt) - 1 : -1]
        np.testing.assert_allclose(found[STARTS], expected.numpy(), atol=1e-6)


class _Generated(dict):
    """What transformers' method looks at of a generation."""

    def __getattr__(self, name):
        return self[name]


@pytest.mark.parametrize("kind", ["whisper", "qwen"])
def test_a_clip_in_a_batch_gives_what_it_gives_alone(kind, request):
    made = ours(request.getfixturevalue(kind))
    with torch.inference_mode():
        together = made.encode([*CLIPS, speech(29.9)])
    for clip, outputs in zip([*CLIPS, speech(29.9)], together, strict=True):
        alone = made.read([clip])[0]
        assert outputs.keys() == alone.keys()
        assert outputs[TOKENS].tolist() == alone[TOKENS].tolist()
        for key in outputs.keys() - {TOKENS, CUT}:
            np.testing.assert_allclose(outputs[key], alone[key], atol=1e-4)


@pytest.mark.parametrize("kind", ["whisper", "qwen"])
def test_bf16_hears_without_a_fault(kind, request):
    made = ours(request.getfixturevalue(kind))
    made.precision = "bf16"
    for found in made.transcribe(CLIPS):
        assert not isinstance(found, Problem)
        assert found.text


def test_words_have_times_within_the_clip_and_make_up_the_text(whisper):
    made = ours(whisper)
    made.min_confidence = 0.0
    timed = 0
    for clip, found in zip(CLIPS, made.transcribe(CLIPS), strict=True):
        if found.words is None:
            assert found.language == "zh"
            continue
        timed += 1
        assert all(0 <= one.start_s <= one.end_s <= clip.size / 16_000 for one in found.words)
        assert all(one.start_s <= other.start_s for one, other in pairwise(found.words))
        assert " ".join(one.text for one in found.words) == found.text
    assert timed


def tokens_of(made: WhisperRecogniser, *words: str) -> list[int]:
    return [made.tokenizer.token_to_id(word) for word in words]


def test_tokens_join_to_words_that_end_before_their_punctuation(whisper):
    made = ours(whisper)
    ids = tokens_of(made, "Ġokay", ",", "Ġtalk", "ing", "Ġ", "Ġyes", "?")
    starts = np.arange(8) * 0.5
    words = made._words(ids, starts)
    assert [tuple(one) for one in words] == [("okay,", 0.0, 0.5), ("talking", 1.0, 2.0), ("yes?", 2.5, 3.0)]


def test_a_letter_of_several_bytes_stays_whole(whisper):
    made = ours(whisper)
    ids = made.tokenizer.encode(" été").ids
    assert [one.text for one in made._words(ids, np.arange(len(ids) + 1) * 0.1)] == ["été"]


def test_what_sounds_like_no_language_is_written_as_english_without_saying_so(whisper):
    made = ours(whisper)
    made.min_confidence = 1.0
    found = made.transcribe(CLIPS[1:2])[0]
    assert found.language is None
    assert found.words


def test_a_whisper_that_is_sure_of_another_language_says_so(tmp_path):
    made = ours(tiny_asr.whisper(tmp_path / "german", sure_of="de"))
    assert {one.language for one in made.transcribe(CLIPS)} == {"de"}


def test_an_english_only_whisper_has_no_language_to_tell(tmp_path):
    made = ours(tiny_asr.whisper(tmp_path / "en", english_only=True))
    assert made.marks.prompt("en") == [made.marks.start, made.marks.plain]
    found = made.transcribe(CLIPS[1:2])[0]
    assert (found.language, bool(found.words)) == (None, True)


def test_without_alignment_heads_there_are_no_words(tmp_path):
    made = ours(tiny_asr.whisper(tmp_path / "plain", heads=False))
    assert [one.words for one in made.transcribe(CLIPS)] == [None] * len(CLIPS)


def test_a_text_that_grows_too_long_is_cut_and_says_so(whisper):
    made = ours(whisper)
    found = made.transcribe(CLIPS)
    assert [one.cut for one in found] == [len(outputs[TOKENS]) == 16 for outputs in made.read(CLIPS)]
    assert any(one.cut for one in found)


def test_silence_is_heard_without_a_fault(whisper):
    assert not isinstance(ours(whisper).transcribe([silence(2.0)])[0], Problem)


def test_spellings_come_with_the_checkpoint(whisper, qwen):
    assert read_spellings(whisper, FETCH) == {"colour": "color"}
    assert read_spellings(qwen, FETCH) == {}


def test_qwen_writes_what_transformers_own_front_end_and_model_write(qwen):
    made = ours(qwen)
    reference = Qwen3ASRForConditionalGeneration.from_pretrained(qwen).eval()
    extractor = Qwen3ASRFeatureExtractor()
    vocabulary = Tokenizer.from_file(str(qwen / "tokenizer.json"))
    texts = set()
    for clip, found in zip(CLIPS, made.read(CLIPS), strict=True):
        inputs = extractor(clip, sampling_rate=16_000, padding=True, return_attention_mask=True)
        with torch.inference_mode():
            audio = {"input_features": inputs.input_features, "input_features_mask": inputs.attention_mask}
            places = len(reference.get_audio_features(**audio, return_dict=True).pooler_output)
            prompt = (
                "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|audio_start|>" + "<|audio_pad|>" * places
                + "<|audio_end|><|im_end|>\n<|im_start|>assistant\n"
            )  # fmt: skip
            ids = torch.tensor([vocabulary.encode(prompt).ids])
            written = reference.generate(input_ids=ids, **audio, max_new_tokens=QWEN_TOKENS, do_sample=False)
        assert written[0, ids.shape[1] :].tolist() == found[TOKENS].tolist()
        texts.add(tuple(found[TOKENS].tolist()))
    assert len(texts) > 1


@pytest.mark.parametrize(
    ("written", "text", "language"),
    [("language English<asr_text>Yes. ", "Yes.", "en"), ("language German<asr_text>Ja.", "Ja.", "german"),
     ("language None<asr_text>", "", None), ("Yes.", "Yes.", None), ("rubbish\n!<asr_text>Yes.", "Yes.", None)],
)  # fmt: skip
def test_qwen_names_the_language_before_the_text(qwen, written, text, language):
    made = ours(qwen)
    heard = made.heard({TOKENS: np.array(made.tokenizer.encode(written).ids), CUT: np.array(False)})
    assert (heard.text, heard.language, heard.words) == (text, language, None)


def test_qwens_own_layout_is_refused_with_what_to_do(qwen, tmp_path):
    folder = shutil.copytree(qwen, tmp_path / "own")
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen3_asr", "thinker_config": {}}))
    with pytest.raises(PrerequisiteError, match=r"pull Qwen3-ASR-0\.6B-hf"):
        load_recogniser(folder, FETCH)


@pytest.mark.parametrize(("kind", "tensor"), [("whisper", "model.decoder.layer_norm.weight"),
                                              ("qwen", "model.multi_modal_projector.linear_1.bias")])  # fmt: skip
def test_every_tensor_is_accounted_for(kind, tensor, request, tmp_path):
    folder = shutil.copytree(request.getfixturevalue(kind), tmp_path / "copy")
    whole = load_file(folder / "model.safetensors")
    for changed, message in (
        ({key: value for key, value in whole.items() if key != tensor}, f"lacks {tensor}"),
        (whole | {"surprise": torch.zeros(3)}, "has unknown surprise"),
        (whole | {tensor: torch.zeros(5)}, "cannot be loaded|wrong shape"),
    ):
        save_file(changed, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(PrerequisiteError, match=message):
            load_recogniser(folder, FETCH)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_a_file_that_is_not_there_names_the_command(copied, name):
    (copied / name).unlink()
    with pytest.raises(CheckpointMissing, match=rf"{name} does not exist: {FETCH}"):
        load_recogniser(copied, FETCH)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
@pytest.mark.parametrize("content", ["{", "[1]", '"x"', "{}"])
def test_a_damaged_file_is_refused_by_name(copied, name, content):
    (copied / name).write_text(content)
    with pytest.raises(PrerequisiteError, match=name):
        load_recogniser(copied, FETCH)


@pytest.mark.parametrize(
    "change",
    [{"alignment_heads": [[7, 0]]}, {"alignment_heads": [[0, 9]]}, {"alignment_heads": 3}, {"task_to_id": None},
     {"lang_to_id": {"<|de|>": 5}}, {"eos_token_id": None}],
    ids=str,
)  # fmt: skip
def test_a_generation_config_that_fits_no_whisper_is_refused(copied, change):
    path = copied / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(PrerequisiteError, match=r"generation_config\.json"):
        load_recogniser(copied, FETCH)


def test_pickled_weights_are_not_read(copied):
    (copied / "model.safetensors").unlink()
    torch.save({"a": torch.zeros(1)}, copied / "pytorch_model.bin")
    with pytest.raises(PrerequisiteError, match="cannot be loaded"):
        load_recogniser(copied, FETCH)


def test_code_in_a_checkpoint_is_never_run(copied):
    (copied / "evil.py").write_text("raise SystemExit('ran')\n")
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(
        json.dumps(config | {"model_type": "evil", "auto_map": {"AutoModel": "evil.E"}})
    )
    with pytest.raises(PrerequisiteError, match="must be one of whisper, qwen3_asr"):
        load_recogniser(copied, FETCH)
