"""The engine on one machine: tasks in a pool of processes, blocks exchanged through files.

Work of a few megabytes runs in the calling process, where a pool costs more than it saves. Results
do not depend on the number of processes.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from ulr.engine.here import map_here, size_of
from ulr.engine.interface import (
    SMALL_BYTES,
    Batches,
    Blocks,
    Items,
    Rank,
    Rows,
    Source,
)
from ulr.engine.local.pool import Pool
from ulr.engine.local.ranks import HOST, LocalRanks
from ulr.engine.local.scratch import BlockFile, Scratch, SharedFile, write_blocks
from ulr.engine.local.server import start_server
from ulr.errors import UserError

T = TypeVar("T")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
Load = Callable[[], Any]  # gives a task's argument


class LocalEngine:
    """Runs functions in processes of this machine.

    processes: None: one for each core. scratch: the folder for blocks; None: the temporary folder.
    memory_fraction: of the machine's memory that the compressed input of a window may have.
    small_bytes: of work that runs in the calling process. preload: modules that worker processes
    are forked with.
    """

    name = "local"

    def __init__(
        self,
        processes: int | None = None,
        scratch: str | None = None,
        memory_fraction: float = 0.4,
        small_bytes: int = SMALL_BYTES,
        preload: Sequence[str] = (),
    ) -> None:
        self._processes = processes or _cores()
        self._memory_fraction, self._small_bytes = memory_fraction, small_bytes
        self._scratch, self._ranks = Scratch(scratch), LocalRanks()
        self._preload = tuple(preload)
        self._pool = Pool(self._processes, max(1, _cores() // self._processes))
        self._running: list[list[int]] = []  # finished tasks and all tasks of every call
        self._counting = threading.Lock()
        # Also at the end of a process that multiprocessing has started, such as joblib's, which
        # would wait for the workers before it runs atexit.
        self._release = Finalize(None, _release, (self._pool, self._scratch), exitpriority=100)

    @property
    def parallelism(self) -> int:
        """Worker processes."""
        return self._processes

    def start(self) -> None:
        """Start the process that workers are forked from, if there is something to preload."""
        if self._preload:
            start_server(self._preload)
            self._preload = ()

    def map(self, source: Source, function: Callable[[Any], Batches]) -> list[pa.RecordBatch]:
        """Run a function in tasks; return its batches in the order of the items or parts."""
        if size_of(source) <= self._small_bytes:
            return map_here(source, function)
        with contextlib.ExitStack() as folders:
            loads = self._tasks(source, folders)
            jobs = [partial(_collect, load, function) for load in loads]
            return [batch for batches in self._run(jobs) for batch in batches]

    def ranks(
        self, count: int, function: Callable[[Rank], bytes], *, timeout: float
    ) -> list[bytes]:
        """Run a function on `count` ranks, each a process, and return their results."""
        self.start()
        return self._ranks.run(count, function, threads=self.threads(count), timeout=timeout)

    def check_ranks(self, count: int) -> None:
        """Do nothing: the system shares the cores among any number of processes."""

    def slots(self) -> int:
        """Return how many ranks can run at the same time with a core each."""
        return self._processes

    def threads(self, ranks: int) -> int:
        """Return the threads of each rank, if so many run at the same time."""
        return max(1, self._processes // ranks)

    def driver_address(self) -> tuple[str, str] | None:
        """Return the loopback address."""
        return HOST, HOST

    def share(self, value: Any) -> SharedFile:
        """Make a value available to tasks."""
        return SharedFile(self._scratch.path, value)

    def admit(self, size: int, what: str) -> None:
        """Raise UserError if data of `size` compressed bytes do not fit into memory."""
        limit = self._memory_fraction * memory_bytes()
        if size > limit:
            raise UserError(
                f"{what} have {size / 1e9:.1f} GB compressed; on one machine at most "
                f"{limit / 1e9:.1f} GB are read (local.memory_fraction = "
                f"{self._memory_fraction:g} of its memory). Run it on a cluster (spark-submit, or "
                "--set engine=spark with spark.master), or on fewer dates "
                "(propensities.window_days)"
            )

    def progress(self) -> tuple[int, int] | None:
        """Return the finished tasks and all tasks of what runs now."""
        with self._counting:
            running = self._running[:1]
        return (running[0][0], running[0][1]) if running else None

    def cancel(self) -> None:
        """End all tasks and ranks."""
        self._pool.kill()
        self._ranks.kill()

    def close(self) -> None:
        """End the workers and remove the scratch folder."""
        self._release()

    def _tasks(self, source: Source, folders: contextlib.ExitStack) -> list[Load]:
        """Return what gives each task its argument."""
        if isinstance(source, Items):
            return [partial(_given, items) for items in source.tasks(self._processes)]
        if isinstance(source, Rows):
            raise UserError(
                "tables of a catalog, SQL and expressions are read by Spark: --set engine=spark "
                "(pip install 'ulr[spark]', and Java)"
            )
        loads = [(load, send) for own, send in source.sends for load in self._tasks(own, folders)]
        folder = folders.enter_context(self._scratch.folder())
        paths = (str(folder / f"{number:05d}.blocks") for number in range(len(loads)))
        jobs = [partial(_write, *load, path) for load, path in zip(loads, paths, strict=False)]
        sent, tasks = self._run(jobs), source.receivers
        used = sorted(set().union(*(own.receivers(tasks) for own in sent)))
        return [partial(_received, sent, tasks, task) for task in used]

    def _run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of the jobs, in their order."""
        count = [0, len(jobs)]

        def on_done() -> None:
            count[0] += 1

        with self._counting:
            self._running.append(count)
        try:
            self.start()
            return self._pool.run(jobs, on_done)
        finally:
            with self._counting:
                self._running.remove(count)


def _release(pool: Pool, scratch: Scratch) -> None:
    pool.kill()
    scratch.remove()


def memory_bytes() -> int:
    """Return the memory of this machine, or of its container."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):
        return min(memory, int(_CGROUP_LIMIT.read_text()))  # "max": no limit
    return memory


def _cores() -> int:
    """Return the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _given(items: list[Any]) -> list[Any]:
    return items


def _received(sent: Sequence[BlockFile], tasks: int, task: int) -> Blocks:
    return (block for own in sent for block in own.blocks(tasks, task))


def _collect(load: Load, function: Callable[[Any], Batches]) -> list[pa.RecordBatch]:
    return list(function(load()))


def _write(load: Load, send: Callable[[Any], Blocks], path: str) -> BlockFile:
    return write_blocks(send(load()), path)
