"""Memory and processor time of a process tree, for benchmarks of a JVM and its workers."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from pathlib import Path


class PeakMemory:
    """Samples the resident memory of this process and its descendants, and keeps the maximum."""

    def __init__(self) -> None:
        self.peak, self.running = 0.0, True
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self) -> None:
        while self.running:
            self.peak = max(self.peak, _tree_bytes())
            time.sleep(0.05)

    def stop(self) -> float:
        self.running = False
        self.thread.join()
        return self.peak


def cpu_seconds() -> float:
    """Return the processor time of this process and its descendants, also of those that ended."""
    ticks = sum(sum(int(field) for field in fields[11:15]) for fields in _tree())
    return ticks / os.sysconf("SC_CLK_TCK")


def _tree_bytes() -> float:
    return float(sum(int(fields[21]) * resource.getpagesize() for fields in _tree()))


def _tree() -> list[list[str]]:
    """Return the fields of /proc/PID/stat after the name, of this process and its descendants."""
    stat: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
    tree = {os.getpid()}
    while children := {p for p, fields in stat.items() if int(fields[1]) in tree} - tree:
        tree |= children
    return [stat[p] for p in tree if p in stat]
