"""Run `ulr report` under spark-submit.

spark-submit --master yarn jobs/report.py --conf conf/cluster.yaml 2026-01-03
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["report", *sys.argv[1:]]))
