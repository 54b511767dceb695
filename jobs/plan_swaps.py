"""Run `ulr plan-swaps` under spark-submit.

spark-submit --master yarn jobs/plan_swaps.py --conf conf/cluster.yaml --date 2026-01-31
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["plan-swaps", *sys.argv[1:]]))
