"""Record the commands and output of two pages.

python docs/transcript.py [FOLDER]            # both, in a clean clone below an empty folder
python docs/transcript.py --own-log FOLDER    # own-log.md only, with the `ulr` on the PATH

`first-hour.md` is written whole, `own-log.md` between its two marks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONF = "--conf conf/demo.yaml"
LAST = "2026-01-07"
Steps = Sequence[tuple[str, str]]
FIRST_HOUR: Steps = (
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
FIGURE = "examination.svg"
UBI = "--conf ubi --date 2026-01-01..2026-01-02"
OWN_LOG: Steps = (
    ("The simulator writes an export of two days, and features.",
     "ulr simulate --set simulate.layout=ubi --set simulate.days=2 "
     "--set simulate.pages_per_day=50000 --set simulate.queries=500"),
    ("A line of each index.",
     "head -n 1 data/simulated/log/ubi_*/dt=2026-01-01/part-00000.json"),
    ("Check the machine, the log and the features.", f"ulr doctor {UBI}"),
    ("From the log to click patterns.", f"ulr groups {UBI}"),
    ("From click patterns to the examination curve.",
     f"ulr propensities {UBI} --figure {FIGURE}"),
    ("The whole night of the second day, from the log to a registered model and its page.",
     "ulr nightly --conf ubi --date 2026-01-02"),
    ("The page again; `--open` shows it in a browser.", "ulr report --conf ubi"),
)  # fmt: skip
PREFACE = """# The first hour

Commands and their output on a machine with {cores} cores, recorded by `make transcript`.
They need Python 3.11 and make, and no Java: the stages run on the local engine.
`make demo` includes the installation of all dependencies.
"""
BEGIN, END = "<!-- recorded by docs/transcript.py -->\n", "<!-- end of the record -->\n"


def main(folder: str) -> None:
    """Clone the committed state and record both pages in the clone."""
    clone = Path(folder) / "ulr"
    subprocess.run(["git", "clone", "-q", str(HERE.parent), str(clone)], check=True)
    environ = os.environ | {"PATH": f"{clone / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    for name in ("PYTHONPATH", "MAKEFLAGS", "MAKELEVEL"):  # set by the calling make
        environ.pop(name, None)
    text = PREFACE.format(cores=os.cpu_count()) + _record(FIRST_HOUR, clone, environ)
    (HERE / "first-hour.md").write_text(text)
    own_log(Path(folder) / "own-log", environ)


def own_log(folder: Path, environ: Mapping[str, str]) -> None:
    """Record the commands of own-log.md in an empty folder."""
    folder.mkdir(parents=True)
    page = HERE / "own-log.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}{_record(OWN_LOG, folder, environ)}\n{END}{after}")
    shutil.copy(folder / FIGURE, HERE / "own-log.svg")


def _record(steps: Steps, folder: Path, environ: Mapping[str, str]) -> str:
    """Run commands in a folder; return them with their output and times."""
    text, total = "", 0.0
    for purpose, command in steps:
        start = time.monotonic()
        process = subprocess.run(
            command, shell=True, cwd=folder, env=environ, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        seconds = time.monotonic() - start
        total += seconds
        if process.returncode:
            raise SystemExit(f"{command}: exit code {process.returncode}\n{process.stderr[-3000:]}")
        output = _plain(process.stdout, folder)
        text += f"\n{purpose}\n\n```\n$ {command}\n{output}\n```\n\n{seconds:.0f} s\n"
        print(f"{seconds:6.1f} s  {command}", file=sys.stderr)
    return f"{text}\nTotal: {total / 60:.1f} minutes.\n"


def _plain(output: str, folder: Path) -> str:
    """Return the output without colours and without the path of the folder."""
    output = re.sub(r"\x1b\[[0-9;]*m", "", output).replace(f"{folder}/", "")
    return "\n".join(line.rstrip() for line in output.strip().splitlines())


if __name__ == "__main__":
    if sys.argv[1:2] == ["--own-log"]:
        own_log(Path(sys.argv[2]).resolve(), os.environ)
    elif len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as empty:
            main(empty)
