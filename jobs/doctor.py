"""Run `ulr doctor` under spark-submit.

spark-submit --master yarn jobs/doctor.py --conf conf/cluster.yaml
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
