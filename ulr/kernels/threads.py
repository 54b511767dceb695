"""How many threads the parallel kernels of this process use."""

from __future__ import annotations

import threading

import numba

KERNELS = threading.Lock()  # not every threading layer of numba bears two callers at once


def use_threads(count: int) -> None:
    """At most `count`, and at most what the process may have; 0: all of these."""
    most = numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(min(count, most) if count > 0 else most)
