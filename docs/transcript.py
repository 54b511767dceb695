"""Write `first-hour.md`: the commands and output of a new user's first hour, in a clean clone.

python docs/transcript.py [FOLDER]        # an empty folder; default: a temporary one
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONF = "--conf conf/demo.yaml"
LAST = "2026-01-07"
STEPS = (
    ("Simulate a week of clicks, run seven nights, compare the methods.", "make demo"),
    ("Write the page of the last night. `--open` shows it in a browser.", f"ulr report {CONF}"),
    ("Train other methods and settings on the same week, in a separate folder.",
     f"ulr rerun {CONF} --from 2026-01-01 --to {LAST} --methods auto,ips-all --name first "
     "--variant small:lightgbm.num_leaves=15"),
    ("Re-run the last night with another method. Unchanged stages are skipped.",
     f"ulr nightly {CONF} --date {LAST} --set pairs.method=ips-all"),
    ("Promote its model regardless of the gate.",
     f"ulr promote {CONF} --date {LAST} --set pairs.method=ips-all --force 'a trial'"),
    ("Roll back to the previous champion.", f"ulr promote {CONF} --rollback 'the trial is over'"),
    ("List the registered versions.", f"ulr registry list {CONF}"),
    ("Score all documents of all queries with the champion.", f"ulr score {CONF}"),
)  # fmt: skip
PREFACE = """# The first hour

Commands and their output on a machine with {cores} cores, recorded by `make transcript`.
`make demo` includes the installation of all dependencies.
"""


def main(folder: str) -> None:
    """Clone the committed state, run every step in the clone, and write the transcript."""
    clone = Path(folder) / "ulr"
    subprocess.run(["git", "clone", "-q", str(HERE.parent), str(clone)], check=True)
    environ = os.environ | {"PATH": f"{clone / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for name in ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL"):  # set by the calling make
        environ.pop(name, None)
    text, total = PREFACE.format(cores=os.cpu_count()), 0.0
    for purpose, command in STEPS:
        start = time.monotonic()
        process = subprocess.run(
            command, shell=True, cwd=clone, env=environ, capture_output=True, text=True, check=False
        )  # fmt: skip
        seconds = time.monotonic() - start
        total += seconds
        if process.returncode:
            raise SystemExit(f"{command}: exit code {process.returncode}\n{process.stderr[-3000:]}")
        output = _plain(process.stdout, clone)
        text += f"\n{purpose}\n\n```\n$ {command}\n{output}\n```\n\n{seconds:.0f} s\n"
        print(f"{seconds:6.1f} s  {command}", file=sys.stderr)
    text += f"\nTotal: {total / 60:.1f} minutes.\n"
    (HERE / "first-hour.md").write_text(text)


def _plain(output: str, clone: Path) -> str:
    """Return the output without colours and without the path of the clone."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output).replace(f"{clone}/", "")
    return "\n".join(line.rstrip() for line in output.strip().splitlines())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as empty:
            main(empty)
