"""Run `ulr score` under spark-submit.

spark-submit --master yarn jobs/score.py --conf conf/cluster.yaml --model models:/NAME@champion
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["score", *sys.argv[1:]]))
