"""Run `ulr train` under spark-submit.

spark-submit --master yarn jobs/train.py --conf conf/cluster.yaml
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
