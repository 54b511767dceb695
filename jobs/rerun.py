"""The rerun stage under spark-submit.

spark-submit --master spark://HOST:7077 jobs/rerun.py --conf conf/cluster.yaml --from D1 --to D2
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["rerun", *sys.argv[1:]]))
