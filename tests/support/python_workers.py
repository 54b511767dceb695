"""The Python workers of a Spark session on this machine, to stop or kill them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from pyspark.sql import SparkSession


def python_workers(spark: SparkSession) -> list[int]:
    """Return the process ids of the session's Python workers, busy or idle."""
    parents = {int(entry.name): _parent(entry) for entry in Path("/proc").glob("[0-9]*")}
    root = spark.sparkContext._gateway.proc.pid
    daemons = [pid for pid in parents if _is_daemon(pid)]
    forks = [pid for pid in daemons if parents[pid] in daemons]
    return [pid for pid in forks if root in _ancestors(pid, parents)]


def stop_workers(spark: SparkSession) -> list[int]:
    """Stop all Python workers while a task runs; return their ids, or none if no task runs."""
    tracker = spark.sparkContext.statusTracker()
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None and info.numActiveTasks:
            workers = python_workers(spark)
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            return workers
    return []


def has_ended(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


def kill_all(pids: list[int]) -> None:
    """Kill processes that a failed test left behind."""
    for pid in pids:
        if not has_ended(pid):
            os.kill(pid, signal.SIGKILL)


def _is_daemon(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"pyspark.daemon" in words


def _parent(entry: Path) -> int:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    found: set[int] = set()
    while pid := parents.get(pid, 0):
        found.add(pid)
    return found
