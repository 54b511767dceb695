"""Run `ulr propensities` under spark-submit.

spark-submit --master yarn jobs/propensities.py --conf conf/cluster.yaml --date 2026-01-31
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["propensities", *sys.argv[1:]]))
