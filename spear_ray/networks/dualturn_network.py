"""DualTurn's network: a causal language model that hears both channels of a conversation and predicts its turns.

Source: arXiv 2603.08216 (DualTurn); TurnNat adds the head of 256 classes over the VAP grid. Each channel's Mimi
features, side by side, are projected into Qwen2.5-0.5B as embeddings; each task reads a weighted sum of its hidden
states. Frames are 80 ms (12.5 Hz); channel 0 and channel 1 are treated alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from transformers import Qwen2Config
from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer, Qwen2RMSNorm, Qwen2RotaryEmbedding

from spear_ray.errors import PrerequisiteError

CHANNEL_TASKS = ("vad", "eot", "bot", "hold", "bc")  # one logit for each channel
FUTURE = "fvad"  # voice activity of the next 2 s, both channels together
TASKS = (*CHANNEL_TASKS, FUTURE)

NATIVE_BITS = 8  # 4 bins of each channel, ending 240, 480, 960 and 2000 ms ahead (DualTurn)
VAP_CLASSES = 256  # all states of 2 channels x 4 bins (TurnNat)

_HEAD_DROPOUT = 0.1  # DualTurn; only its place in the sequence matters here


@dataclass(frozen=True, kw_only=True)
class DualTurnParts:
    """What a checkpoint has beyond Qwen2's configuration.

    Args:
        feature_width: of one channel's Mimi features.
        head_widths: hidden width of each of CHANNEL_TASKS' heads that is an MLP; the others are linear.
        layer_weights: whether tasks weigh hidden states; else all read the last one.
        classes: whether there is the head of 256 classes.
        source: the checkpoint, for messages.
    """

    feature_width: int
    head_widths: Mapping[str, int] = field(default_factory=dict)
    layer_weights: bool = True
    classes: bool = True
    source: str = "this checkpoint"


class Decoder(nn.Module):
    """Qwen2 without its vocabulary: embeddings in, hidden states out.

    Raises:
        PrerequisiteError: the configuration asks for sliding windows, which Qwen2.5-0.5B does not use.
    """

    def __init__(self, config: Qwen2Config) -> None:
        super().__init__()
        if "sliding_attention" in (config.layer_types or ()):
            raise PrerequisiteError("Qwen2's config.json: use_sliding_window is true, DualTurn's backbone has none")
        config._attn_implementation = "sdpa"
        self.layers = nn.ModuleList(Qwen2DecoderLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = Qwen2RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = Qwen2RotaryEmbedding(config)

    def forward(self, hidden: torch.Tensor) -> Iterator[torch.Tensor]:
        """One hidden state after the other: the embeddings, each layer's output, the last one normalised.

        Without a mask sdpa is causal in a fused kernel, so that memory grows linearly with the length.
        """
        positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
        rotations = self.rotary_emb(hidden, positions)
        for layer in self.layers:
            yield hidden
            hidden = layer(hidden, attention_mask=None, position_ids=positions, position_embeddings=rotations)
        yield self.norm(hidden)


class DualTurnNetwork(nn.Module):
    """From Mimi features to logits. Parameters bear the names of the published checkpoint, without `model.`.

    All methods take features, float32 [B, T, 2D] (channel 0, then channel 1), and are causal: frames after a
    dialogue's end, of a padded batch, change nothing before it.

    Args:
        config: of the Qwen2 backbone.
        parts: what else the checkpoint has.
    """

    def __init__(self, config: Qwen2Config, parts: DualTurnParts) -> None:
        super().__init__()
        width = config.hidden_size
        states = config.num_hidden_layers + 1
        self.parts = parts
        self.mimi_projection = _projection(2 * parts.feature_width, width)
        self.backbone = Decoder(config)
        for task in CHANNEL_TASKS:
            for name in _channel_heads(task):
                self.add_module(name, _head(width, parts.head_widths.get(task)))
        self.fvad_head = nn.Linear(width, NATIVE_BITS)
        if parts.classes:
            self.fvad_head_256 = nn.Linear(width, VAP_CLASSES)
        if parts.layer_weights:
            self.task_layer_weights = nn.ParameterDict({task: torch.zeros(states) for task in TASKS})

    @torch.inference_mode()
    def hidden_states(self, features: torch.Tensor) -> list[torch.Tensor]:
        """All hidden states, each [B, T, H]: as many as layers, and one."""
        return list(self._states(features))

    @torch.inference_mode()
    def fvad_logits(self, features: torch.Tensor, native: bool = False, bf16: bool = False) -> torch.Tensor:
        """Logits of the next 2 s of voice activity.

        Args:
            features: float32 [B, T, 2D].
            native: DualTurn's own 8 bits (channel 0's four bins, then channel 1's), each with its sigmoid; else the
                256 classes of the VAP grid, with one softmax.
            bf16: run the backbone under bfloat16 autocast; sums and heads stay in float32.

        Returns:
            float32 [B, T, 256], or [B, T, 8].

        Raises:
            PrerequisiteError: the checkpoint has no head of 256 classes.
        """
        head = self._future_head(native)
        logits: torch.Tensor = head(self._task_features(features, (FUTURE,), bf16)[FUTURE])
        return logits

    @torch.inference_mode()
    def all_logits(self, features: torch.Tensor, native: bool = False) -> dict[str, torch.Tensor]:
        """Logits of all heads.

        Returns:
            `fvad` as `fvad_logits`; `vad`, `eot`, `bot`, `hold`, `bc`, each [B, T, 2] by channel.

        Raises:
            PrerequisiteError: the checkpoint has no head of 256 classes.
        """
        head = self._future_head(native)
        hidden = self._task_features(features, TASKS)
        return {FUTURE: head(hidden[FUTURE])} | {task: self._by_channel(task, hidden[task]) for task in CHANNEL_TASKS}

    @torch.inference_mode()
    def wrapper_probabilities(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the public DualTurn wrapper returns: every head on the last hidden state, layer weights ignored.

        Returns:
            `fvad_probs` [B, T, 8]; `vad_probs`, `eot_probs`, `bot_probs`, `hold_probs`, `bc_probs`, each [B, T, 2].
        """
        last = self._weighted(features, {FUTURE: self._last_only()})[FUTURE]
        channels = {f"{task}_probs": self._by_channel(task, last).sigmoid() for task in CHANNEL_TASKS}
        return {"fvad_probs": self.fvad_head(last).sigmoid()} | channels

    def _future_head(self, native: bool) -> nn.Module:
        if native:
            return self.fvad_head
        if not self.parts.classes:
            raise PrerequisiteError(
                f"{self.parts.source} has no head of 256 classes (fvad_head_256): ask for DualTurn's native 8 bits, or "
                "use TurnNat's turnnat-dualturn-fvad256.pt"
            )
        return self.fvad_head_256

    def _by_channel(self, task: str, hidden: torch.Tensor) -> torch.Tensor:
        return torch.cat([self.get_submodule(name)(hidden) for name in _channel_heads(task)], dim=-1)

    def _last_only(self) -> list[float]:
        return [0.0] * len(self.backbone.layers) + [1.0]

    def _task_features(
        self, features: torch.Tensor, tasks: Sequence[str], bf16: bool = False
    ) -> dict[str, torch.Tensor]:
        if not self.parts.layer_weights:
            return self._weighted(features, dict.fromkeys(tasks, self._last_only()), bf16)
        shares = {task: self.task_layer_weights[task].softmax(dim=0).tolist() for task in tasks}
        return self._weighted(features, shares, bf16)

    def _weighted(
        self, features: torch.Tensor, shares: Mapping[str, Sequence[float]], bf16: bool = False
    ) -> dict[str, torch.Tensor]:
        """Each task's sum over hidden states, gathered as they pass: 25 of a long dialogue are not kept."""
        shape = (*features.shape[:2], self.fvad_head.in_features)
        sums = {task: features.new_zeros(shape) for task in shares}
        with torch.autocast(features.device.type, torch.bfloat16, enabled=bf16):
            for index, state in enumerate(self._states(features)):
                for task, weights in shares.items():
                    sums[task].add_(state, alpha=weights[index])
        return sums

    def _states(self, features: torch.Tensor) -> Iterator[torch.Tensor]:
        # In float32 also under autocast, so that the residual stream is.
        states: Iterator[torch.Tensor] = self.backbone(self.mimi_projection["proj"](features).float())
        return states


def _projection(features: int, width: int) -> nn.ModuleDict:
    layers = nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width))
    return nn.ModuleDict({"proj": layers})


def _channel_heads(task: str) -> tuple[str, str]:
    return f"{task}_head_ch0", f"{task}_head_ch1"


def _head(width: int, hidden: int | None) -> nn.Module:
    if hidden is None:
        return nn.Linear(width, 1)
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Dropout(_HEAD_DROPOUT), nn.Linear(hidden, 1))
