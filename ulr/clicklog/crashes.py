"""Find the Parquet file whose metadata ends the process that reads it.

Arrow ends the process by a signal for some damaged footers (pyarrow 25). In a task this is a lost
worker, and the engine's error names no file. After such an error the driver looks at every footer
in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys

import pyarrow.parquet as pq

from ulr.clicklog.files import LogFiles
from ulr.errors import InvalidData
from ulr.redact import redact_text
from ulr.warehouse.filesystem import open_filesystem

_LOST_WORKER = ("exited unexpectedly", "a worker process of the local engine")


def crash_of(error: Exception, log: LogFiles, form: str) -> InvalidData | None:
    """Return an error that names the file, if a worker was lost and a footer is the cause."""
    if form != "parquet" or not any(text in str(error) for text in _LOST_WORKER):
        return None
    child = subprocess.run(
        [sys.executable, "-m", "ulr.clicklog.crashes", log.storage.url],
        input="\n".join(log.paths), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        check=False,
    )  # fmt: skip
    read = child.stdout.splitlines()
    if child.returncode >= 0 or not read:
        return None
    return InvalidData(
        f"{redact_text(read[-1])} is not a readable Parquet file: its metadata ends the process "
        f"that reads it (signal {-child.returncode}); replace it, or remove it"
    )


def _read_footers(url: str, paths: list[str]) -> None:
    """Print each path, then read all metadata of the file."""
    fs, _ = open_filesystem(url)
    for path in paths:
        print(path, flush=True)
        try:
            with fs.open_input_file(path) as stream:
                pq.ParquetFile(stream).metadata.to_dict()
        except (OSError, ValueError):  # an error that a task reports, with the file
            continue


if __name__ == "__main__":
    _read_footers(sys.argv[1], sys.stdin.read().splitlines())
