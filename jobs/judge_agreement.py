"""How a judge's scores agree with people's.

`python jobs/judge_agreement.py data.uri=exchanges.csv run.uri=… [judge.checkpoint=…]`
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from spear_ray.cli import guarded, judge_agreement

if __name__ == "__main__":
    sys.exit(guarded(judge_agreement, sys.argv[1:]))
