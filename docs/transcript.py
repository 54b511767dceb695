"""Writes `first-hour.md`: what a new user types and sees, timed, from a clean clone on.

python .readme/transcript.py [FOLDER]        # an empty one; by default a temporary one
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
    ("A clean clone, a week of clicks, seven nights, a comparison of the methods.", "make demo"),
    ("The page of the last night; `--open` shows it in a browser.", f"ulr report {CONF}"),
    ("Other methods and other settings on the same week, in a folder of their own.",
     f"ulr rerun {CONF} --from 2026-01-01 --to {LAST} --methods joint,ips-all --name first "
     "--variant small:lightgbm.num_leaves=15"),
    ("The last night again with another method; what has not changed is not done again.",
     f"ulr nightly {CONF} --date {LAST} --set pairs.method=ips-all"),
    ("Whatever the gate said, its model shall be champion.",
     f"ulr promote {CONF} --date {LAST} --set pairs.method=ips-all --force 'a trial'"),
    ("And back.", f"ulr promote {CONF} --rollback 'the trial is over'"),
    ("What is in the registry now.", f"ulr registry list {CONF}"),
    ("Every document of every query by the champion.", f"ulr score {CONF}"),
)  # fmt: skip
PREFACE = """# The first hour

What a new user types and what comes back, on a machine with {cores} cores, as `make transcript`
wrote it down. `make demo` includes the installation of everything.
"""


def main(folder: str) -> None:
    """Clone what is committed, run every step there, and write it all down."""
    clone = Path(folder) / "ulr"
    subprocess.run(["git", "clone", "-q", str(HERE.parent), str(clone)], check=True)
    environ = os.environ | {"PATH": f"{clone / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for name in ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL"):  # of whoever runs this
        environ.pop(name, None)
    text, total = PREFACE.format(cores=os.cpu_count()), 0.0
    for why, command in STEPS:
        start = time.monotonic()
        ran = subprocess.run(
            command, shell=True, cwd=clone, env=environ, capture_output=True, text=True, check=False
        )  # fmt: skip
        seconds = time.monotonic() - start
        total += seconds
        if ran.returncode:
            raise SystemExit(f"{command}: exit code {ran.returncode}\n{ran.stderr[-3000:]}")
        said = _plain(ran.stdout, clone)
        text += f"\n{why}\n\n```\n$ {command}\n{said}\n```\n\n{seconds:.0f} s\n"
        print(f"{seconds:6.1f} s  {command}", file=sys.stderr)
    text += f"\nAll of it: {total / 60:.1f} minutes.\n"
    (HERE / "first-hour.md").write_text(text)


def _plain(output: str, clone: Path) -> str:
    """Without colours, and without the place of the clone."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output).replace(f"{clone}/", "")
    return "\n".join(line.rstrip() for line in output.strip().splitlines())


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as empty:
            main(empty)
