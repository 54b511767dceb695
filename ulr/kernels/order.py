"""Ranking by score: descending, equal scores in their given order (as LightGBM does)."""

from __future__ import annotations

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.lanes import LANES, before, load, splat, store

RUN = 24  # insertion sort is faster below this length
SORT = 512  # sorting is faster than counting eight ranks at a time from this length
COUNT = 64  # counting ranks is faster than a sort up to this length


@kernel()
def _insertion(scores: np.ndarray, order: np.ndarray, lo: int, hi: int) -> None:
    for k in range(lo + 1, hi):
        index = order[k]
        score = scores[index]
        at = k
        while at > lo and scores[order[at - 1]] < score:
            order[at] = order[at - 1]
            at -= 1
        order[at] = index


@kernel()
def rank_descending(scores: np.ndarray, n: int, order: np.ndarray, spare: np.ndarray) -> None:
    """Fill order[:n] with indices of scores[:n], best first, stable.

    scores: float64; order, spare: int32, at least n long. Nothing is allocated.
    """
    for k in range(n):
        order[k] = k
    for lo in range(0, n, RUN):
        _insertion(scores, order, lo, min(lo + RUN, n))
    width = RUN
    while width < n:
        for lo in range(0, n, 2 * width):
            _merge(scores, order, spare, lo, min(lo + width, n), min(lo + 2 * width, n))
        for k in range(n):
            order[k] = spare[k]
        width *= 2


@kernel()
def _merge(
    scores: np.ndarray, order: np.ndarray, spare: np.ndarray, lo: int, mid: int, hi: int
) -> None:
    left, right = lo, mid
    for k in range(lo, hi):
        take_left = right >= hi or (left < mid and scores[order[left]] >= scores[order[right]])
        if take_left:
            spare[k] = order[left]
            left += 1
        else:
            spare[k] = order[right]
            right += 1


@kernel()
def count_ranks(scores: np.ndarray, n: int, rank: np.ndarray) -> None:
    """Fill rank[:n] (int32, from 0) with how many of scores[:n] come before each.

    n^2 comparisons without a branch run several at a time in a vector register.
    """
    for a in range(n):
        score = scores[a]
        before = np.int64(0)
        for b in range(a):
            before += np.int64(scores[b] >= score)
        for b in range(a + 1, n):
            before += np.int64(scores[b] > score)
        rank[a] = before


@kernel()
def ranks_of(
    scores: np.ndarray, n: int, order: np.ndarray, spare: np.ndarray, rank: np.ndarray
) -> None:
    """Fill rank[:n] (int32, from 0) for scores[:n] (float64); order and spare are work space."""
    if n <= COUNT:
        count_ranks(scores, n, rank)
        return
    rank_descending(scores, n, order, spare)
    for r in range(n):
        rank[order[r]] = r


@kernel()
def _sort_ranks(
    scores: np.ndarray, index: np.ndarray, n: int, rank: np.ndarray, work: np.ndarray,
    order: np.ndarray,
) -> None:  # fmt: skip
    for d in range(n):
        work[int(index[d])] = scores[d]
    rank_descending(work, n, order[0], order[1])
    for r in range(n):
        work[order[0, r]] = r
    for d in range(n):
        rank[d] = work[int(index[d])]


@kernel(forceinline=True)
def rank_lanes(
    scores: np.ndarray, index: np.ndarray, n: int, rank: np.ndarray, work: np.ndarray,
    order: np.ndarray,
) -> None:  # fmt: skip
    """Fill rank[:n] (from 0) for scores[:n]; of equal scores, the lower index is first.

    scores, index, rank: float64, with room for eight more than n; index[:n] is a permutation of 0
    to n - 1. work (float64, n) and order (int32, 2 x n) are work space.
    """
    if n > SORT:
        _sort_ranks(scores, index, n, rank, work, order)
        return
    for lo in range(0, n, LANES):
        own, places, ranks = load(scores, lo), load(index, lo), splat(0.0)
        for b in range(n):
            ranks = ranks + before(splat(scores[b]), splat(index[b]), own, places)
        store(rank, lo, ranks)
