"""Run `ulr ab` under spark-submit.

spark-submit --master yarn jobs/ab.py --conf conf/cluster.yaml --date 2026-01-01..2026-01-14
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["ab", *sys.argv[1:]]))
