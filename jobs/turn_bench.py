"""How well a turn-taking predictor tells natural from edited timing.

`python jobs/turn_bench.py data.uri=… run.uri=… [predictor=timing] [limit=1000] [seed=0]`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spear_ray.cli import guarded, turn_bench

if __name__ == "__main__":
    sys.exit(guarded(turn_bench, sys.argv[1:]))
