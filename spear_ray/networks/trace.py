"""TRACE: whether the emotions of two speakers in turn are those of people who hear each other.

Source: TRACE's published inference code (github.com/SathvikNapa/NaturalnessPrediction), as used by SPEARBench.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from spear_ray.errors import ScorerError
from spear_ray.networks.trace_layers import (
    Aux,
    CrossAttention,
    PlainEncoder,
    RotaryEncoder,
    TraceSizes,
    masked_mean,
)


class Hidden(NamedTuple):
    """What the network holds of a padded batch.

    Args:
        tokens: float [B, T, width]; at absent frames they have no meaning.
        pooled: float32 [B, width], their mean over the frames that are there.
        aux: float [B, aux width], or None in a model that hears speech only.
        logits: float32 [B].
    """

    tokens: torch.Tensor
    pooled: torch.Tensor
    aux: torch.Tensor | None
    logits: torch.Tensor


class Trace(nn.Module):
    """TRACE-LF (`llama`), TRACE-CE (`crossattn`) or the baseline `base_transformer`, with or without texts.

    Args:
        sizes: of the model; see `trace_checkpoint.load_trace`.
    """

    def __init__(self, sizes: TraceSizes) -> None:
        super().__init__()
        self.kind = sizes.kind
        self.width = sizes.inputs
        self.max_vectors = sizes.max_vectors
        self.context_width = sizes.aux.context_width if sizes.aux else 0
        self.relation_width = sizes.aux.relation_width if sizes.aux else 0
        self._cards = sizes.aux.cards if sizes.aux else ()
        self.aux = Aux(sizes.aux) if sizes.aux else None
        aux_width = sizes.aux.width if sizes.aux else 0
        if sizes.kind == "crossattn":
            self.audio_encoder = RotaryEncoder(sizes)
            self.xattn = CrossAttention(sizes)
            self.head = nn.Sequential(nn.LayerNorm(sizes.width), *_classifier(sizes.width, sizes.hidden, nn.GELU()))
            if sizes.aux:
                self.aux_to_tok = nn.Sequential(nn.LayerNorm(aux_width), nn.Linear(aux_width, sizes.width), nn.GELU())
        else:
            plain = sizes.kind == "base_transformer"
            self.audio = PlainEncoder(sizes) if plain else RotaryEncoder(sizes)
            activation = nn.GELU() if plain else nn.ReLU()
            self.head = nn.Sequential(*_classifier(sizes.width + aux_width, sizes.hidden, activation))

    def forward(
        self,
        x: torch.Tensor,
        lengths: torch.Tensor,
        texts: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None,
        published_padding: bool = False,
    ) -> Hidden:
        """Everything of one padded batch.

        Args:
            x: float32 [B, T, width], zeros behind a sequence's end.
            lengths: integers [B], at least 1.
            texts: integers [B, 3], float32 [B, context_width] and [B, relation_width], for a model that has them.
            published_padding: see `logits`.
        """
        present = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        encoder = self.audio_encoder if self.kind == "crossattn" else self.audio
        tokens = encoder(x, present, published_padding)
        pooled = masked_mean(tokens, present)
        aux = self.aux(*texts) if self.aux is not None and texts is not None else None
        if self.kind == "crossattn":
            joined = self.xattn(pooled if aux is None else self.aux_to_tok(aux), tokens, present)
        else:
            joined = pooled if aux is None else torch.cat([pooled, aux], dim=-1)
        return Hidden(tokens, pooled, aux, self.head(joined)[:, 0].float())

    @torch.inference_mode()
    def logits(
        self,
        sequences: Sequence[np.ndarray],
        context: np.ndarray | None = None,
        relation: np.ndarray | None = None,
        *,
        categories: np.ndarray | None = None,
        published_padding: bool = False,
    ) -> np.ndarray:
        """How much each sequence sounds like emotional entrainment; above 0 it does.

        A sequence's logit does not depend on the others, beyond the rounding of float32.

        Args:
            sequences: float32 [T, width] each, 1 <= T <= max_vectors.
            context: float32 [B, context_width]; a model without texts ignores it, like the next two.
            relation: float32 [B, relation_width].
            categories: integers [B, 3]; by default 0, as in the published inference.
            published_padding: as the published code pads: the frames behind a sequence that is not the longest of
                `sequences` reach its last vector (a defect that published numbers have; see `RotaryEncoder`).

        Returns:
            float64 [B].

        Raises:
            ScorerError: a sequence is empty, too long or of another width, or texts are absent or do not fit.
        """
        if not sequences:
            return np.zeros(0)
        self._check(sequences)
        device = next(self.parameters()).device
        x = nn.utils.rnn.pad_sequence([torch.as_tensor(s, dtype=torch.float32) for s in sequences], batch_first=True)
        lengths = torch.tensor([len(sequence) for sequence in sequences], device=device)
        texts = self._texts(len(sequences), context, relation, categories, device)
        hidden = self(x.to(device), lengths, texts, published_padding)
        found: np.ndarray = hidden.logits.double().cpu().numpy()
        return found

    def _check(self, sequences: Sequence[np.ndarray]) -> None:
        for sequence in sequences:
            if sequence.ndim != 2 or sequence.shape[1] != self.width or not len(sequence):
                raise ScorerError(f"a sequence of shape {sequence.shape}: TRACE takes [1 or more, {self.width}]")
            if len(sequence) > self.max_vectors:
                raise ScorerError(
                    f"a sequence of {len(sequence)} vectors: TRACE takes at most {self.max_vectors}, "
                    f"{self.max_vectors // 2} of each speaker"
                )

    def _texts(
        self,
        count: int,
        context: np.ndarray | None,
        relation: np.ndarray | None,
        categories: np.ndarray | None,
        device: torch.device,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
        if self.aux is None:
            return None
        ids = np.zeros((count, len(self._cards)), dtype=np.int64) if categories is None else categories
        if ids.shape != (count, len(self._cards)) or np.any((ids < 0) | (ids >= self._cards)):
            raise ScorerError(f"categories must be [{count}, {len(self._cards)}], below {self._cards}")
        return (
            torch.as_tensor(ids, device=device),
            _rows("context", context, (count, self.context_width), device),
            _rows("relation", relation, (count, self.relation_width), device),
        )


def _classifier(inputs: int, hidden: int, activation: nn.Module) -> list[nn.Module]:
    return [nn.Linear(inputs, hidden), activation, nn.Identity(), nn.Linear(hidden, 1)]


def _rows(name: str, rows: np.ndarray | None, shape: tuple[int, int], device: torch.device) -> torch.Tensor:
    if rows is None or rows.shape != shape:
        found = "absent" if rows is None else f"of shape {rows.shape}"
        raise ScorerError(f"{name} is {found}: this TRACE model takes {list(shape)}")
    return torch.as_tensor(rows, dtype=torch.float32, device=device)
