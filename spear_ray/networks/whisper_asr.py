"""Whisper as a recogniser: text, language, and when each token was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig, GenerationMixin, WhisperForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from spear_ray.dialogue import SAMPLE_RATE_HZ, Samples
from spear_ray.errors import PrerequisiteError
from spear_ray.networks.batching import padded
from spear_ray.networks.log_mel import HOP, LogMel
from spear_ray.networks.memo import Outputs
from spear_ray.networks.recogniser import CUT, TOKENS, Recogniser, ended, loaded, read_json, read_tokenizer
from spear_ray.networks.tensors import existing
from spear_ray.transcripts.alignment import token_starts
from spear_ray.transcripts.words import Heard, Word

GENERATION = "generation_config.json"
STARTS, LANGUAGES = "starts", "languages"
"""Further outputs: seconds at which tokens begin (one more than tokens: the last one's end), and probabilities."""

ENGLISH = "en"
UNSPACED = frozenset({"zh", "yue", "ja", "th", "lo", "my"})
"""Languages that are written without spaces: tokens there are no words."""

WORD_MARK = "Ġ"
"""A space, in byte-level BPE."""


@dataclass(frozen=True)
class WhisperTokens:
    """What generation_config.json says.

    Args:
        start: `<|startoftranscript|>`.
        end: `<|endoftext|>`; tokens of text are below it.
        plain: `<|notimestamps|>`.
        transcribe: the task; a model without languages has none.
        languages: code to token; empty in an English-only model.
        suppressed: tokens that are never written.
        suppressed_first: tokens with which no text begins.
        heads: (layer, head) whose attention follows the audio; empty where they are not known.
    """

    start: int
    end: int
    plain: int
    transcribe: int | None
    languages: Mapping[str, int]
    suppressed: tuple[int, ...]
    suppressed_first: tuple[int, ...]
    heads: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> WhisperTokens:
        """From the file's content.

        Raises:
            KeyError, TypeError, ValueError: a field is not there or of another kind.
        """
        task = (content.get("task_to_id") or {}).get("transcribe")
        languages = {str(name).strip("<|>"): int(token) for name, token in (content.get("lang_to_id") or {}).items()}
        if languages and (task is None or ENGLISH not in languages):
            raise ValueError("a multilingual Whisper needs task_to_id.transcribe and English in lang_to_id")
        end = content["eos_token_id"]
        return cls(
            start=int(content["decoder_start_token_id"]),
            end=int(end[0] if isinstance(end, list) else end),
            plain=int(content["no_timestamps_token_id"]),
            transcribe=None if task is None else int(task),
            languages=languages,
            suppressed=tuple(map(int, content.get("suppress_tokens") or ())),
            suppressed_first=tuple(map(int, content.get("begin_suppress_tokens") or ())),
            heads=tuple((int(layer), int(head)) for layer, head in content.get("alignment_heads") or ()),
        )

    def prompt(self, language: str) -> list[int]:
        """What the decoder is told before the text."""
        spoken = [self.languages[language], self.transcribe or 0] if self.languages else []
        return [self.start, *spoken, self.plain]


class WhisperRecogniser(Recogniser):
    """Greedy decoding without timestamps in the language of the clip, then one pass for the times of the tokens.

    Each clip is aligned by itself, over its own tokens only: in transformers' own alignment of a batch, the padding of
    shorter texts moves the times.

    Source: Radford et al. 2022, section 2.3 and 4.5 and their reference code.

    Args:
        model: a WhisperForConditionalGeneration of any size.
        tokens: of its generation_config.json.
        tokenizer: of the checkpoint.
    """

    def __init__(self, model: Any, tokens: WhisperTokens, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self.model = model
        self.marks = tokens
        self.longest_s = 2 * model.config.max_source_positions * HOP / SAMPLE_RATE_HZ
        self.log_mel = LogMel(model.config.num_mel_bins)
        self._most = model.config.max_target_positions
        settings: Any = GenerationConfig
        model.generation_config = settings(
            do_sample=False, num_beams=1, max_length=self._most, eos_token_id=tokens.end, pad_token_id=tokens.end,
            decoder_start_token_id=tokens.start, suppress_tokens=list(tokens.suppressed) or None,
            begin_suppress_tokens=list(tokens.suppressed_first) or None,
        )  # fmt: skip

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch; each clip is continued with silence to Whisper's 30 s."""
        mels = self.log_mel(padded(clips, round(self.longest_s * SAMPLE_RATE_HZ), self.device))
        encoded = self.model.get_encoder()(mels).last_hidden_state
        likely = self._languages(encoded)
        prompts = [self.marks.prompt(self._spoken(row)[0]) for row in likely]
        written = self._written(encoded, prompts)
        return [
            self._outputs(row, row_tokens, prompt, encoded[place : place + 1], clips[place].size)
            for place, (row, row_tokens, prompt) in enumerate(zip(likely, written, prompts, strict=True))
        ]

    def heard(self, outputs: Outputs) -> Heard:
        """Text, language where it is sure, and words where the checkpoint says which heads to follow."""
        ids = outputs[TOKENS].tolist()
        text = self.tokenizer.decode(ids, skip_special_tokens=True).strip()
        language, sure = self._spoken(outputs[LANGUAGES])
        words = self._words(ids, outputs[STARTS]) if STARTS in outputs and language not in UNSPACED else None
        return Heard(text, language if sure else None, words, bool(outputs[CUT]))

    def _languages(self, encoded: torch.Tensor) -> np.ndarray:
        """Probabilities [clips, languages], from the decoder's first step; no column for an English-only model."""
        if not self.marks.languages:
            return np.zeros((len(encoded), 0), dtype=np.float32)
        start = torch.full((len(encoded), 1), self.marks.start, device=self.device)
        logits = self.model(encoder_outputs=(encoded,), decoder_input_ids=start, use_cache=False).logits[:, -1]
        tokens = list(self.marks.languages.values())
        return np.asarray(logits[:, tokens].float().softmax(-1).cpu().numpy())

    def _spoken(self, likely: np.ndarray) -> tuple[str, bool]:
        """The language in which a clip is written, and whether it is sure."""
        if not likely.size:
            return ENGLISH, False
        best = int(likely.argmax())
        sure = float(likely[best]) >= self.min_confidence
        return (list(self.marks.languages)[best] if sure else ENGLISH), sure

    def _written(self, encoded: torch.Tensor, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        # The general method, not Whisper's own: that one adds rules of its own from the checkpoint's files.
        rows = GenerationMixin.generate(
            self.model,
            encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
            decoder_input_ids=torch.tensor(prompts, device=self.device),
        )
        return [row[len(prompt) :] for row, prompt in zip(rows.tolist(), prompts, strict=True)]

    def _outputs(
        self, likely: np.ndarray, written: Sequence[int], prompt: Sequence[int], encoded: torch.Tensor, samples: int
    ) -> Outputs:
        kept = ended(written, [self.marks.end])
        text = [token for token in kept if token < self.marks.end]
        cut = len(prompt) + len(kept) >= self._most
        found = {TOKENS: np.asarray(text, dtype=np.int64), LANGUAGES: likely, CUT: np.asarray(cut)}
        if text and self.marks.heads:
            attention = self._attention([*prompt, *text], encoded)
            frames = max(1, samples // HOP // 2)
            found[STARTS] = token_starts(
                attention[:, len(prompt) - 1 :, :frames], int(self.model.config.median_filter_width)
            )
        return found

    def _attention(self, tokens: Sequence[int], encoded: torch.Tensor) -> np.ndarray:
        """Of the chosen heads: [heads, tokens, frames], each row sums to 1 over all frames."""
        ids = torch.tensor([tokens], device=self.device)
        with self._watched() as seen:
            self.model(encoder_outputs=(encoded,), decoder_input_ids=ids, use_cache=False)
        rows = []
        for layer, head in self.marks.heads:
            inner = self._cross(layer)
            queries, keys = (
                seen[layer, name][0].float()[:, head * inner.head_dim : (head + 1) * inner.head_dim]
                for name in ("q", "k")
            )
            rows.append((queries * inner.scaling @ keys.T).float().softmax(-1).cpu())
        return torch.stack(rows).numpy()

    def _cross(self, layer: int) -> Any:
        return self.model.get_decoder().layers[layer].encoder_attn

    @contextmanager
    def _watched(self) -> Iterator[dict[tuple[int, str], torch.Tensor]]:
        """Queries and keys of the chosen layers: a fraction of all attention, and no slower kernel for it."""
        seen: dict[tuple[int, str], torch.Tensor] = {}
        hooks = [
            getattr(self._cross(layer), f"{name}_proj").register_forward_hook(
                lambda _module, _inputs, output, key=(layer, name): seen.__setitem__(key, output)
            )
            for layer in {layer for layer, _ in self.marks.heads}
            for name in ("q", "k")
        ]
        try:
            yield seen
        finally:
            for hook in hooks:
                hook.remove()

    def _words(self, ids: Sequence[int], starts: np.ndarray) -> tuple[Word, ...]:
        """Tokens joined to words: a word begins with a space, and ends before punctuation behind it."""
        groups: list[list[int]] = []
        for place, token in enumerate(ids):
            begins = (self.tokenizer.id_to_token(token) or "").startswith(WORD_MARK)
            if begins or not groups:
                groups.append([])
            groups[-1].append(place)
        found = []
        for group in groups:
            spoken = [place for place in group if any(map(str.isalnum, self.tokenizer.decode([ids[place]])))]
            text = self.tokenizer.decode([ids[place] for place in group]).strip()
            if spoken:
                found.append(Word(text, float(starts[group[0]]), float(starts[spoken[-1] + 1])))
        return tuple(found)


def load_whisper(folder: Path, fetch: str) -> WhisperRecogniser:
    """Whisper from its folder.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: damaged, or a tensor is missing, unknown or misshapen.
    """
    path = existing(folder / GENERATION, fetch)
    try:
        tokens = WhisperTokens.of(read_json(path, fetch))
    except (KeyError, TypeError, ValueError) as error:
        raise PrerequisiteError(
            f"{path} is not that of a Whisper ({type(error).__name__}: {error}): {fetch}"
        ) from error
    tokenizer = read_tokenizer(folder, fetch)
    model = loaded(WhisperForConditionalGeneration, folder, fetch)
    decoder = model.config
    if any(layer >= decoder.decoder_layers or head >= decoder.decoder_attention_heads for layer, head in tokens.heads):
        raise PrerequisiteError(f"{path}: alignment_heads names heads that the model does not have: {fetch}")
    return WhisperRecogniser(model, tokens, tokenizer)
