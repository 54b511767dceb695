"""Run `ulr groups` under spark-submit.

spark-submit --master yarn jobs/groups.py --conf conf/cluster.yaml --date 2026-01-01
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["groups", *sys.argv[1:]]))
