"""The score stage under spark-submit.

spark-submit --master spark://HOST:7077 jobs/score.py --model models:/NAME@champion
"""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["score", *sys.argv[1:]]))
