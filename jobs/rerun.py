"""Run `ulr rerun` under spark-submit.

spark-submit --master yarn jobs/rerun.py --conf conf/cluster.yaml --from 2026-01-01 --to 2026-01-07
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["rerun", *sys.argv[1:]]))
