"""Equal numbers of pages from two groups of unequal size, drawn without replacement."""

from __future__ import annotations

import numpy as np

from ulr.kernels.jit import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@kernel()
def draw_successes(
    pages: np.ndarray, successes: np.ndarray, drawn: np.ndarray, seeds: np.ndarray
) -> np.ndarray:
    """Draw `drawn` of `pages` pages without replacement; return the successes among them.

    All are int64, one per query; 0 <= drawn <= pages. seeds: uint64; a result depends on the
    values of its query only.
    """
    out = np.zeros(pages.size, np.int64)
    for i in range(pages.size):
        if drawn[i] == pages[i]:
            out[i] = successes[i]
            continue
        left, good = pages[i], successes[i]
        state = seeds[i]
        for _ in range(drawn[i]):
            if good == 0:
                break
            if good == left:
                out[i] += drawn[i] - (pages[i] - left)
                break
            state += _STEP
            word = (state ^ (state >> np.uint64(30))) * _MIX_1
            word = (word ^ (word >> np.uint64(27))) * _MIX_2
            word ^= word >> np.uint64(31)
            if np.float64(word >> np.uint64(11)) * 2.0**-53 * left < good:
                out[i] += 1
                good -= 1
            left -= 1
    return out
