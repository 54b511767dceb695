"""Kernels on several threads: each takes a range of queries, and releases the interpreter's lock.

Threads of Python call the same compiled function, since numba's `parallel=True` takes several times
as long to compile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np

MIN_COST = 2.0**17  # of a range, in units of `query_ranges`: about a millisecond
_local = threading.local()


def use_threads(count: int, callers: int = 1) -> None:
    """Let kernels called by this thread use `count` threads; 0 or too many: all of the process.

    callers: threads that call kernels at the same time; they share `count`.
    """
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined] # set on import
    _local.count = max(1, (min(count, most) if count > 0 else most) // callers)


def thread_count() -> int:
    """Return the number of threads for kernels that this thread calls."""
    if not hasattr(_local, "count"):
        use_threads(0)
    return int(_local.count)


def query_ranges(cost: np.ndarray) -> np.ndarray:
    """Return query offsets (int64) that divide the work evenly: one range per thread, or fewer.

    cost: numeric, queries + 1, the cost of all queries before each; ascending from 0.
    """
    ranges = int(min(max(cost[-1] // MIN_COST, 1), thread_count()))
    cuts = np.searchsorted(cost, cost[-1] * np.arange(1, ranges) / ranges)
    return np.concatenate([[0], cuts, [cost.size - 1]]).astype(np.int64)


def run_ranges(kernel: Callable[[int, int, int], None], ranges: np.ndarray) -> None:
    """Call kernel(number, first, last) for every range, each on a thread; the first on this one."""
    bounds = [int(bound) for bound in ranges]
    first, *others = zip(range(ranges.size - 1), bounds[:-1], bounds[1:], strict=True)
    if not others:
        kernel(*first)
        return
    with ThreadPoolExecutor(len(others)) as pool:
        futures = [pool.submit(kernel, *call) for call in others]
        kernel(*first)
        for future in futures:
            future.result()
