"""The number of threads of the parallel kernels."""

from __future__ import annotations

import threading

import numba

KERNELS = threading.Lock()  # not every threading layer of numba allows two callers at once


def use_threads(count: int) -> None:
    """Let kernels of this process use `count` threads, or all of the process's if 0 or too many."""
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined] # set on import
    numba.set_num_threads(min(count, most) if count > 0 else most)
