"""Run `ulr export` under spark-submit.

spark-submit --master yarn jobs/export.py --conf conf/cluster.yaml --format opensearch --out FILE
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["export", *sys.argv[1:]]))
