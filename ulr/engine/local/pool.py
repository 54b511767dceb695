"""A pool of worker processes.

A worker ignores Ctrl-C, which this process handles, and ends when this process ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for
from typing import Any, TypeVar

import pyarrow as pa

from ulr.engine.exit_codes import describe_signal
from ulr.engine.local.server import launching, process_context
from ulr.errors import TemporaryFailure
from ulr.kernels.threads import use_threads

T = TypeVar("T")
_POLL_S = 1.0  # so that a signal is handled in time on every system


class Pool:
    """Worker processes, started when they are needed. threads: of Arrow and kernels in a task."""

    def __init__(self, processes: int, threads: int = 1) -> None:
        self._processes, self._threads = processes, threads
        self._executor: ProcessPoolExecutor | None = None
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Callable[[], T]], on_done: Callable[[], None]) -> list[T]:
        """Return the results of the jobs, in their order. on_done: called after each of them.

        After an error, no further job starts, and running ones are waited for.
        """
        executor = self._started()
        try:
            with launching():  # a submission may start a worker
                futures = [executor.submit(job) for job in jobs]
        except BrokenProcessPool:
            raise self._lost(executor) from None
        for future in futures:
            future.add_done_callback(lambda _: on_done())
        workers = list((executor._processes or {}).values())
        try:
            _wait(futures)
            return [future.result() for future in futures]
        except BrokenProcessPool:
            raise self._lost(executor, workers) from None
        except Exception:
            for future in futures:
                future.cancel()
            wait(futures)
            raise
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """End all workers at once."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            _kill(executor)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._executor is not None and self._executor._broken:  # an idle worker was killed
                self._executor.shutdown()
                self._executor = None
            if self._executor is None:
                self._executor = ProcessPoolExecutor(
                    self._processes,
                    mp_context=process_context(),
                    initializer=start_worker,
                    initargs=(dict(os.environ), self._threads),
                )
            return self._executor

    def _lost(self, executor: ProcessPoolExecutor, workers: Sequence[Any] = ()) -> Exception:
        """Drop a pool that has lost a worker, and return the failure."""
        with self._lock:
            if self._executor is executor:
                self._executor = None
        executor.shutdown(cancel_futures=True)
        codes = [worker.exitcode for worker in workers]
        # The pool ends the other workers by SIGTERM.
        own = [code for code in codes if code not in (None, 0, -signal.SIGTERM)]
        text = "was killed" if not own else f"ended with exit code {own[0]}"
        if own and (name := describe_signal(own[0])):
            text = f"was ended by {name}"
        return TemporaryFailure(
            f"a worker process of the local engine {text}; nothing unfinished was published, "
            "run again"
        )


def start_worker(environment: dict[str, str], threads: int) -> None:
    """Prepare a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(environment)
    pa.set_cpu_count(threads)
    use_threads(threads)
    end_with_parent()


def end_with_parent() -> None:
    """Have this process end when the one that started it has ended, also by SIGKILL."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _wait(futures: Sequence[Future[Any]]) -> None:
    """Wait for all results, or for the first error."""
    while True:
        done, running = wait(futures, _POLL_S, FIRST_EXCEPTION)
        if not running or any(future.exception() is not None for future in done):
            return


def _kill(executor: ProcessPoolExecutor) -> None:
    for worker in list((executor._processes or {}).values()):
        worker.kill()
    executor.shutdown(wait=False, cancel_futures=True)
