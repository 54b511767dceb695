"""The checks of `ulr doctor` on a cluster: its slots, its warehouse, its clocks.

spark-submit --master spark://HOST:7077 jobs/doctor.py --conf conf/cluster.yaml
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["doctor", *sys.argv[1:]]))
