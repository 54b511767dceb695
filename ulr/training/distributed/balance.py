"""Which rank gets which query: even in pairs (gradients) and in rows (trees).

A worker reads the row groups that contain its queries. Row groups are therefore kept whole as far
as that leaves the ranks even; the others are distributed query by query. A hash would suffice for
many small queries, but not for a few huge ones. The model does not depend on the result.
"""

from __future__ import annotations

import heapq

import numpy as np

LARGEST = 4096  # queries placed one by one; the others are placed round robin
_ROUNDING = 1e-9


def assign_queries(
    rows: np.ndarray, pairs: np.ndarray, validation: np.ndarray, group: np.ndarray, ranks: int
) -> np.ndarray:
    """Return a rank (int32, from 0) for every query.

    rows, pairs: integers; validation: bool; group: int64, number of the query's row group, from 0.
    Training and validation are balanced separately. No rank is without training queries if there
    are at least as many of them as ranks.
    """
    rank = _assign(rows, pairs, validation, group, ranks)
    if np.bincount(rank[~validation], minlength=ranks).min() == 0:  # a few large row groups: as one
        rank = _assign(rows, pairs, validation, np.zeros(rows.size, np.int64), ranks)
    return rank


def _assign(
    rows: np.ndarray, pairs: np.ndarray, validation: np.ndarray, group: np.ndarray, ranks: int
) -> np.ndarray:
    rank = np.full(rows.size, -1, np.int32)
    for chosen in (~validation, validation):
        load = _load(np.where(chosen, rows, 0), np.where(chosen, pairs, 0))
        totals = _totals(rank, load, ranks)
        owner = _pack(np.bincount(group, np.where(rank < 0, load, 0.0)), totals)
        # The validation queries of a row group follow its training queries.
        follows = (rank < 0) & (owner[group] >= 0)
        rank[follows] = owner[group[follows]]
        left = chosen & (rank < 0)
        rank[left] = _spread(load[left], _totals(rank, load, ranks))
    return rank


def _load(rows: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    load: np.ndarray = rows / max(rows.sum(), 1) + pairs / max(pairs.sum(), 1)
    return load


def _totals(rank: np.ndarray, load: np.ndarray, ranks: int) -> np.ndarray:
    known = rank >= 0
    return np.bincount(rank[known], load[known], ranks)


def _pack(load: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the rank of each row group, or -1 if no rank has room for all of it.

    totals: load of each rank so far.
    """
    room = (load.sum() + totals.sum()) / totals.size + _ROUNDING
    owner = np.full(load.size, -1, np.int32)
    heap = [(total, rank) for rank, total in enumerate(totals.tolist())]
    heapq.heapify(heap)
    for group in np.argsort(-load, kind="stable").tolist():
        total, rank = heap[0]
        if load[group] > 0 and total + load[group] <= room:
            owner[group] = rank
            heapq.heapreplace(heap, (total + load[group], rank))
    return owner


def _spread(load: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return a rank for each query. totals: load of each rank so far; changed."""
    order = np.lexsort((np.arange(load.size), -load))
    assigned = np.empty(load.size, np.int32)
    heap = [(total, rank) for rank, total in enumerate(totals.tolist())]
    heapq.heapify(heap)
    largest = max(LARGEST, totals.size)
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
