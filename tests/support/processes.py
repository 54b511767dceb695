"""Scripts in a session of their own, and the processes of that session."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def script(
    text: str, *args: str, folder: Path, before: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[str]]:
    """Run a script as a file, in a session of its own; kill what is left of it at the end."""
    path = folder / "script.py"
    path.write_text(text)
    process = subprocess.Popen(
        [*before, sys.executable, str(path), *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        for pid in processes_of(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def processes_of(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if _session(pid) == session]  # fmt: skip


def _session(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[3])
