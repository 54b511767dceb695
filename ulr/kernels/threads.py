"""The number of threads of the parallel kernels, and whether two callers may run at once."""

from __future__ import annotations

import threading

import numba

_CONCURRENT_LAYERS = {"tbb", "omp"}  # numba's `workqueue` aborts the process on a second caller


def use_threads(count: int, callers: int = 1) -> None:
    """Let kernels of this thread use `count` threads, or all of the process's if 0 or too many.

    callers: threads that call kernels at the same time. They share `count` if they need not take
    turns.
    """
    most: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined] # set on import
    count = min(count, most) if count > 0 else most
    numba.set_num_threads(count)  # starts the threading layer
    if callers > 1 and _is_concurrent():
        numba.set_num_threads(max(1, count // callers))


def _is_concurrent() -> bool:
    try:
        return numba.threading_layer() in _CONCURRENT_LAYERS
    except ValueError:  # no kernel has run yet
        return False


class _Turns(threading.local):
    """Context manager: callers of parallel kernels take turns where the layer requires it."""

    lock = threading.Lock()
    held = False

    def __enter__(self) -> None:
        if not _is_concurrent():
            self.held = self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        if self.held:
            self.held = False
            self.lock.release()


KERNELS = _Turns()
