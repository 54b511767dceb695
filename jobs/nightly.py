"""Run `ulr nightly` under spark-submit.

spark-submit --master yarn jobs/nightly.py --conf conf/cluster.yaml --date 2026-01-03
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["nightly", *sys.argv[1:]]))
