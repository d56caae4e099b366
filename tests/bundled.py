"""The bundled sample, read once by the real source, and the vad scorer, loaded once."""

from functools import cache

from spear_ray.config import load
from spear_ray.dialogue import Dialogue
from spear_ray.scorers.vad import VadConfig, VadScorer
from spear_ray.sources import Source, open_source


def read_all(source: Source) -> list[Dialogue]:
    return [dialogue for shard in source.shards() for _, dialogue in source.read(shard, range(shard.rows))]


@cache
def dialogues() -> tuple[Dialogue, ...]:
    return tuple(read_all(open_source(load([]))))


@cache
def vad() -> VadScorer:
    scorer = VadScorer(VadConfig())
    scorer.setup()
    return scorer
