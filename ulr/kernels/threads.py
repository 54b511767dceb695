"""How many threads the parallel kernels use."""

from __future__ import annotations

import numba


def use_threads(wanted: int) -> None:
    """As many as wanted, or as there are; 0 leaves it as it is."""
    if wanted > 0:
        numba.set_num_threads(min(wanted, numba.config.NUMBA_NUM_THREADS))
