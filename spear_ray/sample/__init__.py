"""The bundled sample: twelve short dialogues, answered by four systems, in SPEARBench's folder layout.

The speech is synthetic, made by `python -m spear_ray.sample.make` from the texts in `script.py`. Timing is
the point of it: `human` (on disk `original`) answers like a person, `early` interrupts, `slow` keeps one
waiting and `sometimes-silent` says nothing in four dialogues. `data/truth.csv` has the times known from the
synthesis.
"""

from pathlib import Path

SAMPLE_DIR: Path = Path(__file__).resolve().parent / "data"
"""The folder that holds `inputs/`, `outputs/` and truth.csv."""
