"""Sums within displayed rankings, for kappa and for users who stop (docs/methods.md section 3).

In one ranking of N sessions with C_k clicks at k and C_kl co-clicks, the clicks of two different
sessions are independent: E[C_k C_l - C_kl] = N (N - 1) p_k p_l. So (N - 1) C_kl and C_k C_l - C_kl
have the ratio kappa_kl in expectation for any number of sessions, both divided by N. Sums are
integers in units of 1 / UNITS, so they do not depend on the order of the rankings.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.layout import Patterns
from ulr.kernels.patterns import clicked_indices

UNITS = 1 << 20
TOGETHER, APART, CO_CLICKS = range(3)  # (N - 1) C_kl / N, (C_k C_l - C_kl) / N, C_kl if N > 1
AFTER_CLICK, OTHERWISE = range(2)  # C_1k (N - C_1) / N, (C_k - C_1k) C_1 / N
ABOVE = 16  # numbers of clicks above a click that are distinguished; the last one holds all others


class RankingSums(NamedTuple):
    """Sums over the rankings of each block of queries, int64, the first two in UNITS.

    pairs     blocks x K x K x 3         TOGETHER, APART and CO_CLICKS (not in UNITS) of k < l
    stops     blocks x K x 2             AFTER_CLICK and OTHERWISE, for the click at position 1
    sessions  arms x blocks              pages of an arm of a swap bucket
    clicks    arms x blocks x S x ABOVE  clicks at the positions that the bucket moves, by the
                                         number of clicks above
    """

    pairs: np.ndarray
    stops: np.ndarray
    sessions: np.ndarray
    clicks: np.ndarray


@kernel()
def _add_ranking(single: np.ndarray, both: np.ndarray, n: int, size: int, pairs: np.ndarray,
                 stops: np.ndarray) -> None:  # fmt: skip
    """Add one ranking of n sessions to the sums of its block, and clear its counts."""
    for k in range(1, size):
        if n > 1:
            after = both[0, k]
            stops[k, AFTER_CLICK] += np.int64(round(UNITS * after * (n - single[0]) / n))
            stops[k, OTHERWISE] += np.int64(round(UNITS * (single[k] - after) * single[0] / n))
    for k in range(size):
        c_k = single[k]
        for v in range(k + 1, size):
            if n > 1 and c_k > 0.0 and single[v] > 0.0:
                c_kv = both[k, v]
                pairs[k, v, TOGETHER] += np.int64(round(UNITS * (n - 1) * c_kv / n))
                pairs[k, v, APART] += np.int64(round(UNITS * (c_k * single[v] - c_kv) / n))
                pairs[k, v, CO_CLICKS] += np.int64(c_kv)
            both[k, v] = 0.0
    single[:size] = 0.0


@kernel()
def add_rankings(
    patterns: Patterns, block: np.ndarray, arm: np.ndarray, moved: np.ndarray, sums: RankingSums
) -> None:
    """Add groups to the sums, which are changed in place. Positions below K are ignored.

    block: int64 per group. arm: int64 per group, a row of `moved`, or -1. moved: int64, arms x S,
    indices that the arm's bucket moves, or -1.
    """
    depth = sums.stops.shape[1]
    single, both = np.zeros(depth), np.zeros((depth, depth))
    clicked = np.empty(depth, np.int64)
    for g in range(block.size):
        first, end = patterns.count_offsets[g], patterns.count_offsets[g + 1]
        start = patterns.word_offsets[g]
        width = (patterns.word_offsets[g + 1] - start) // max(end - first, 1)
        n, size = 0, 0
        for p in range(first, end):
            count = patterns.counts[p]
            n += count
            clicks = clicked_indices(patterns.words, start + (p - first) * width, width, clicked)
            for x in range(clicks):
                size = max(size, clicked[x] + 1)
                single[clicked[x]] += count
                for y in range(x + 1, clicks):
                    both[clicked[x], clicked[y]] += count
                if arm[g] >= 0:
                    for s in range(moved.shape[1]):
                        if moved[arm[g], s] == clicked[x]:
                            sums.clicks[arm[g], block[g], s, min(x, ABOVE - 1)] += count
        if arm[g] >= 0:
            sums.sessions[arm[g], block[g]] += n
        _add_ranking(single, both, n, size, sums.pairs[block[g]], sums.stops[block[g]])
