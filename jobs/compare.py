"""Run `ulr compare` under spark-submit.

spark-submit --master yarn jobs/compare.py --conf conf/cluster.yaml --date 2026-01-01
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["compare", *sys.argv[1:]]))
