"""Run `ulr simulate` under spark-submit.

spark-submit --master yarn jobs/simulate.py --conf conf/cluster.yaml
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["simulate", *sys.argv[1:]]))
