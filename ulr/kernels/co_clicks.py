"""How far the relevance of two documents is from independent, by the likelihood of co-clicks.

Given how often each of two documents was clicked, their co-clicks are Poisson with mean m g (see
`kernels.pair_counts`), and g has mean 1 and variance v over the pairs. So C is negative binomial,
and up to terms without v its log likelihood is

    sum over k < C of log(1 + v k)  -  (C + 1 / v) log(1 + v m),      -m for v = 0.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ulr.kernels.pair_counts import clicked_slots, count_group, independent_co_clicks


@njit(cache=True, nogil=True)
def _gain(co_clicks: float, m: float, v: float) -> float:
    """Log likelihood at v > 0 less that at 0."""
    size = 1.0 / v
    rising = co_clicks * math.log(v) + math.lgamma(co_clicks + size) - math.lgamma(size)
    return rising - (co_clicks + size) * math.log1p(v * m) + m


@njit(cache=True, nogil=True)
def co_click_evidence(
    group_docs: np.ndarray, word_offsets: np.ndarray, words: np.ndarray,
    count_offsets: np.ndarray, counts: np.ndarray, table_of: np.ndarray, psi: np.ndarray,
    clicked: np.ndarray, variances: np.ndarray, gains: np.ndarray,
) -> None:  # fmt: skip
    """Add to `gains` what each of `variances` (> 0) gains over 0, over all pairs of all groups."""
    longest = 0
    for g in range(group_docs.size - 1):
        longest = max(longest, group_docs[g + 1] - group_docs[g])
    each = np.ones(longest + 1)  # every session counts once, whatever its weight in training
    for g in range(group_docs.size - 1):
        slot, m = clicked_slots(clicked, group_docs[g], group_docs[g + 1])
        if m < 2:
            continue
        n = slot.size
        single, both, total = np.empty((2, m)), np.empty((2, m, m)), np.empty(2)
        count_group(n, words, word_offsets[g], counts, count_offsets[g], count_offsets[g + 1],
                    each, slot, np.empty(n, np.int64), single, both, total)  # fmt: skip
        table = psi[table_of[g]]
        for a in range(n):
            for b in range(a + 1, n):
                if slot[a] >= 0 and slot[b] >= 0:
                    x, y = slot[a], slot[b]
                    mean = independent_co_clicks(a, b, single[0, x], single[0, y], total[0], table)
                    for t in range(variances.size):
                        gains[t] += _gain(both[0, x, y], mean, variances[t])
