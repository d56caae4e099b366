"""Exchanges with known scores, to check a judge with.

`python jobs/make_triples.py data.uri=… triples.out=… [triples.limit=300] [triples.seed=0]`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spear_ray.cli import guarded, make_triples

if __name__ == "__main__":
    sys.exit(guarded(make_triples, sys.argv[1:]))
