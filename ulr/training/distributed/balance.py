"""Which rank gets which query: even in pairs (gradients) and in rows (trees).

A hash would suffice for many small queries, but not for a few huge ones.
"""

from __future__ import annotations

import heapq

import numpy as np

LARGEST = 4096  # queries placed one by one; the others are placed round robin


def balance(rows: np.ndarray, pairs: np.ndarray, ranks: int) -> np.ndarray:
    """Return a rank (int32, from 0) for every query, given its rows and pairs (int64).

    Largest queries first, each to the least loaded rank. No rank stays empty if there are at
    least as many queries as ranks.
    """
    load = rows / max(rows.sum(), 1) + pairs / max(pairs.sum(), 1)
    order = np.lexsort((np.arange(load.size), -load))
    assigned = np.empty(load.size, np.int32)
    heap = [(0.0, rank) for rank in range(ranks)]
    largest = max(LARGEST, ranks)
    for query in order[:largest]:
        total, rank = heap[0]
        assigned[query] = rank
        heapq.heapreplace(heap, (total + load[query], rank))
    totals = np.array([total for total, _ in sorted(heap, key=lambda entry: entry[1])])
    _assign_round_robin(order[largest:], load, totals, assigned)
    return assigned


def _assign_round_robin(
    order: np.ndarray, load: np.ndarray, totals: np.ndarray, assigned: np.ndarray
) -> None:
    """Small queries: one per rank and turn, the largest of a turn to the least loaded rank."""
    for start in range(0, order.size, totals.size):
        queries = order[start : start + totals.size]
        ranks = np.argsort(totals, kind="stable")[: queries.size]
        assigned[queries] = ranks
        totals[ranks] += load[queries]
