"""How far the relevance of two documents is from independent, by the spread of their co-clicks.

Given how often each of two documents was clicked, their co-clicks C have mean m g (see
`kernels.pair_counts`), and g has mean 1 and variance v over the pairs. With c the rarer one's
clicks, C counts successes among c draws without replacement, so that

    E[(C - m)^2] = s + v m^2 (1 - 1 / c),    s = m (1 - m / c) (N - c) / (N - 1).

A pair with c = 1 says nothing of v, however often that happens. Dividing by s and adding up gives
v by moments: sums that add up over pairs, groups and partitions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ulr.kernels.pair_counts import clicked_slots, count_group, independent_co_clicks

PAIRS, SPREAD, REACH = range(3)  # pairs, sum of (C - m)^2 / s, sum of m^2 (1 - 1 / c) / s


@njit(cache=True, nogil=True)
def _add_pair(
    co_clicks: float, m: float, rarer: float, sessions: float, sums: np.ndarray
) -> None:  # fmt: skip
    s = m * (1.0 - m / rarer) * (sessions - rarer) / max(sessions - 1.0, 1.0)
    if rarer > 1.0 and s > 1e-9 * m:
        sums[PAIRS] += 1.0
        sums[SPREAD] += (co_clicks - m) ** 2 / s
        sums[REACH] += m * m * (1.0 - 1.0 / rarer) / s


@njit(cache=True, nogil=True)
def co_click_spread(
    group_docs: np.ndarray, word_offsets: np.ndarray, words: np.ndarray,
    count_offsets: np.ndarray, counts: np.ndarray, table_of: np.ndarray, psi: np.ndarray,
    clicked: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """Add the three sums of all pairs of all groups to `sums`."""
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
                    mean = independent_co_clicks(a, b, single[0, x], single[0, y], total, table)
                    rarer = min(single[0, x], single[0, y])
                    _add_pair(both[0, x, y], mean, rarer, total[0], sums)
