"""Run the command as `python -m ulr.cli`."""

import sys

from ulr.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
