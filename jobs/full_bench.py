"""The benchmark as a Ray job: `python jobs/full_bench.py [key=value ...]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spear_ray.cli import bench, guarded

if __name__ == "__main__":
    sys.exit(guarded(bench, sys.argv[1:]))
