"""Processes and mounts that faults leave behind, found through /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process that is not a zombie."""

    pid: int
    parent: int
    session: int
    command: str
    seconds: float  # since it was started or forked


def session_processes(session: int) -> list[Process]:
    """Return the processes of a session, in all its process groups."""
    return [process for process in _all_processes() if process.session == session]


def kill_session(session: int, spare: Collection[int] = ()) -> None:
    """Kill the processes of a session but those to spare, also those that they start meanwhile."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        left = [process for process in session_processes(session) if process.pid not in spare]
        if not left:
            return
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        time.sleep(0.02)


def unmount_below(folder: Path) -> None:
    """Unmount the filesystems below a folder; a loop device is released with its filesystem."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    mounted = [line.split()[1].replace("\\040", " ") for line in lines]
    for path in reversed([p for p in mounted if p.startswith(f"{folder}/")]):
        for options in ([], ["--lazy"]):
            if (
                subprocess.run(
                    ["umount", *options, path], capture_output=True, check=False
                ).returncode
                == 0
            ):
                break


def _all_processes() -> Iterator[Process]:
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if state[0] == "Z":
                continue
            command = (folder / "cmdline").read_text().replace("\0", " ")
            seconds = uptime - int(state[19]) / os.sysconf("SC_CLK_TCK")
            yield Process(int(folder.name), int(state[1]), int(state[3]), command, seconds)
