"""The deployment that holds a scorer: the same object as the batch job's actors."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from ray import serve
from ray.util.metrics import Histogram

from spear_ray.config import load
from spear_ray.dialogue import Dialogue, Score
from spear_ray.scorers import Scorer, scorer_type
from spear_ray.stages import score_safely


class ScorerReplica:
    """Scores dialogues of several requests together; several scorers where they share what is costly.

    A replica is ready when its models are loaded.

    Args:
        names: of the scorers.
        words: the configuration.
    """

    def __init__(self, names: Sequence[str], words: Sequence[str]) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        self.names = list(names)
        self.words = list(words)
        self.scorers = self._made(self.words)
        self._turn = asyncio.Lock()
        self._sizes = Histogram(
            "spear_batch_size",
            description="Dialogues that were scored together.",
            boundaries=[1, 2, 4, 8, 16, 32, 64],
            tag_keys=("scorer",),
        )
        serving = self.scorers[self.names[0]].config.serving
        self._batched.set_max_batch_size(serving.batch_size)  # type: ignore[attr-defined]
        self._batched.set_batch_wait_timeout_s(serving.batch_wait_s)  # type: ignore[attr-defined]

    async def reconfigure(self, user_config: dict[str, Any]) -> None:
        """Take other settings without a new process: `words` are laid over those of the start."""
        words = [*self.words, *user_config.get("words", ())]
        if not user_config.get("words"):
            return
        made = await asyncio.to_thread(self._made, words)
        async with self._turn:
            self.scorers = made

    async def score(self, name: str, dialogue: Dialogue) -> Score:
        """One scorer's row of one dialogue."""
        score: Score = await self._batched((name, dialogue))
        return score

    async def describe(self) -> dict[str, tuple[str, str]]:
        """Version and fingerprint of each scorer."""
        return {name: (scorer.version, scorer.fingerprint) for name, scorer in self.scorers.items()}

    @serve.batch
    async def _batched(self, asked: list[tuple[str, Dialogue]]) -> list[Score]:
        async with self._turn:
            return await asyncio.to_thread(self._scored, asked)

    def _scored(self, asked: Sequence[tuple[str, Dialogue]]) -> list[Score]:
        found: dict[int, Score] = {}
        for name, scorer in self.scorers.items():
            places = [place for place, (wanted, _) in enumerate(asked) if wanted == name]
            if places:
                self._sizes.observe(len(places), tags={"scorer": name})
                rows = score_safely(scorer, [asked[place][1] for place in places])
                found |= dict(zip(places, rows, strict=True))
        return [found[place] for place in range(len(asked))]

    def _made(self, words: Sequence[str]) -> dict[str, Scorer[Any]]:
        config = load(list(words))
        made = {name: scorer_type(name)(getattr(config.scorer, name)) for name in self.names}
        for scorer in made.values():
            scorer.setup()
        return made
