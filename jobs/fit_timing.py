"""Timing statistics of a population, from a table of intervals or the human side of a run.

`python jobs/fit_timing.py data.uri=… fit.name=… fit.out=… [fit.compare=…] [fit.ablation=true]`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spear_ray.cli import fit_timing, guarded

if __name__ == "__main__":
    sys.exit(guarded(fit_timing, sys.argv[1:]))
