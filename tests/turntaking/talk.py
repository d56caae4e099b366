"""Time lines for tests: by hand, and random talk of two people."""

import numpy as np

from spear_ray.turntaking.populations import Conversation
from spear_ray.turntaking.timeline import Timeline


def line(asking, answering, seconds: float) -> Timeline:
    return Timeline.of(asking, answering, seconds)


def talk(seed: int, seconds: float = 120.0, gap_s: float = 0.3) -> Timeline:
    """Turns of units and pauses; gaps around a typical one, sometimes overlaps and backchannels."""
    rng = np.random.default_rng(seed)
    sides: tuple[list, list] = ([], [])
    now, holder = 0.3, 0
    while now < seconds - 10:
        for _ in range(int(rng.integers(1, 4))):
            length = float(rng.lognormal(0.3, 0.6))
            sides[holder].append([now, now + length])
            if length > 2 and rng.random() < 0.4:
                sides[1 - holder].append([now + 1.0, now + 1.3])
            now += length + float(rng.lognormal(-0.8, 0.5))
        now += gap_s * float(rng.lognormal(0.0, 0.6)) - 0.35
        holder = 1 - holder
    return Timeline.of(*sides, seconds).as_units()


def conversations(count: int, gap_s: float = 0.3, seconds: float = 120.0) -> list[Conversation]:
    return [Conversation(f"c{seed}", talk(seed, seconds, gap_s)) for seed in range(count)]
