"""SPEARBench folders to tar shards: `python jobs/pack_shards.py data.uri=… pack.uri=… [pack.shard_bytes=…]`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spear_ray.cli import guarded, pack

if __name__ == "__main__":
    sys.exit(guarded(pack, sys.argv[1:]))
