"""Memory of a process tree, for benchmarks that work in a JVM and its Python workers."""

from __future__ import annotations

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


def _tree_bytes() -> float:
    parents: dict[int, int] = {}
    memory: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            memory[int(entry.name)] = int(fields[21]) * resource.getpagesize()
    tree = {os.getpid()}
    while children := {p for p, parent in parents.items() if parent in tree} - tree:
        tree |= children
    return float(sum(memory.get(p, 0) for p in tree))
