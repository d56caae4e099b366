"""Qwen3-ASR in transformers' layout."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig

from spear_ray.dialogue import Samples
from spear_ray.networks.log_mel import LogMel
from spear_ray.networks.memo import Outputs
from spear_ray.networks.recogniser import CUT, TOKENS, Recogniser, ended, loaded, read_tokenizer
from spear_ray.transcripts.words import Heard, language_code

PROMPT = (
    "<|im_start|>system\n<|im_end|>\n<|im_start|>user\n<|audio_start|>",
    "<|audio_end|><|im_end|>\n<|im_start|>assistant\n",
)
"""Before and behind the audio (Qwen3-ASR, arXiv 2601.21337, and its chat template); the language is left to it."""

TEXT = "<asr_text>"
"""Between `language NAME` and the text."""

NAMED = re.compile(r"language ([A-Za-z ]+)$")
"""What stands before it."""

MOST_TOKENS = 512
"""Of a text (default of the published inference code)."""

SHORTEST = 8000
"""Samples; shorter clips are continued with silence (Qwen3ASRFeatureExtractor)."""


class QwenRecogniser(Recogniser):
    """Qwen3-ASR: an audio encoder before a language model; it gives no word times.

    Source: arXiv 2601.21337; transformers' models/qwen3_asr.

    Args:
        model: as transformers loads it.
        tokenizer: of the checkpoint.
        most_tokens: of a text.
    """

    def __init__(self, model: Any, tokenizer: Tokenizer, most_tokens: int = MOST_TOKENS) -> None:
        super().__init__(tokenizer)
        self.model = model
        self.most_tokens = most_tokens
        self.log_mel = LogMel(model.config.audio_config.num_mel_bins)
        self._chunk = 2 * model.config.audio_config.n_window
        self._before, self._behind = (tokenizer.encode(part, add_special_tokens=False).ids for part in PROMPT)
        ends = model.config.eos_token_id
        self._ends = [ends] if isinstance(ends, int) else list(ends)
        settings: Any = GenerationConfig
        model.generation_config = settings(
            do_sample=False, num_beams=1, eos_token_id=self._ends, pad_token_id=self._ends[-1]
        )  # fmt: skip

    def encode(self, clips: Sequence[Samples]) -> list[Outputs]:
        """Outputs of one batch; the padding is masked on both sides, in the audio and before the prompt."""
        mels = [self._mel(clip) for clip in clips]
        frames = [mel.shape[-1] for mel in mels]
        width = -(-max(frames) // self._chunk) * self._chunk
        features = torch.stack([torch.nn.functional.pad(mel, (0, width - mel.shape[-1])) for mel in mels])
        mask = (torch.arange(width)[None] < torch.tensor(frames)[:, None]).long().to(self.device)
        prompts = [
            [*self._before, *[self.model.config.audio_token_id] * self._places(n), *self._behind] for n in frames
        ]
        ids, attended = self._left_padded(prompts)
        written = self.model.generate(
            input_ids=ids, attention_mask=attended, input_features=features, input_features_mask=mask,
            max_new_tokens=self.most_tokens,
        )  # fmt: skip
        return [self._outputs(row) for row in written[:, ids.shape[1] :].tolist()]

    def heard(self, outputs: Outputs) -> Heard:
        """The text behind the language that the model names first; `None` there means that nothing is said."""
        written = self.tokenizer.decode(outputs[TOKENS].tolist(), skip_special_tokens=True)
        head, mark, text = written.partition(TEXT)
        if not mark:
            head, text = "", written
        found = NAMED.match(head.strip())
        name = found[1] if found and found[1] != "None" else None
        return Heard(text.strip(), language_code(name), cut=bool(outputs[CUT]))

    def _mel(self, clip: Samples) -> torch.Tensor:
        """Of one clip by itself, so that silence behind it never depends on its neighbours."""
        wave = torch.from_numpy(np.pad(clip, (0, max(0, SHORTEST - clip.size)))).to(self.device)
        mel: torch.Tensor = self.log_mel(wave[None])[0]
        return mel

    def _places(self, frames: int) -> int:
        """How many vectors the encoder makes: each chunk is halved three times, rounding up."""
        lengths = np.full(-(-frames // self._chunk), self._chunk)
        lengths[-1] = frames - self._chunk * (lengths.size - 1)
        for _ in range(3):
            lengths = (lengths + 1) // 2
        return int(lengths.sum())

    def _left_padded(self, prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, prompts))
        ids = torch.full((len(prompts), width), self._ends[-1])
        attended = torch.zeros_like(ids)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            attended[row, width - len(prompt) :] = 1
        return ids.to(self.device), attended.to(self.device)

    def _outputs(self, row: Sequence[int]) -> Outputs:
        kept = ended(row, self._ends)
        return {TOKENS: np.asarray(kept, dtype=np.int64), CUT: np.asarray(len(kept) >= self.most_tokens)}


def load_qwen(folder: Path, fetch: str) -> QwenRecogniser:
    """Qwen3-ASR from its folder.

    Raises:
        CheckpointMissing: a file is not there.
        PrerequisiteError: damaged, or a tensor is missing, unknown or misshapen.
    """
    from transformers import Qwen3ASRForConditionalGeneration

    return QwenRecogniser(loaded(Qwen3ASRForConditionalGeneration, folder, fetch), read_tokenizer(folder, fetch))
