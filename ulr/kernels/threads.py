"""How many threads the parallel kernels of this process use."""

from __future__ import annotations

import numba


def use_threads(count: int) -> None:
    """At most `count`, and at most what the process may have; 0: all of these."""
    most = numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(min(count, most) if count > 0 else most)
