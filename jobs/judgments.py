"""Run `ulr judgments` under spark-submit.

spark-submit --master yarn jobs/judgments.py --conf conf/cluster.yaml --date D1..D2 --out FILE
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["judgments", *sys.argv[1:]]))
