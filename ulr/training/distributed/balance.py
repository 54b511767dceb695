"""Which worker gets which query: even in pairs, for gradients, and in rows, for trees.

A hash would do for many small queries; a handful of huge ones is what it gets wrong.
"""

from __future__ import annotations

import heapq

import numpy as np

SHORT = 4096  # so many of the largest are placed one by one; the rest are dealt out in turn


def balance(rows: np.ndarray, pairs: np.ndarray, workers: int) -> np.ndarray:
    """A worker (int32, from 0) for every query: the largest first, each to the least loaded.

    None goes empty if there are as many queries as workers.
    """
    load = rows / max(rows.sum(), 1) + pairs / max(pairs.sum(), 1)
    order = np.lexsort((np.arange(load.size), -load))
    part = np.empty(load.size, np.int32)
    heap = [(0.0, worker) for worker in range(workers)]
    head = max(SHORT, workers)
    for query in order[:head]:
        before, worker = heap[0]
        part[query] = worker
        heapq.heapreplace(heap, (before + load[query], worker))
    assign_round_robin(order[head:], load, heap, part)
    return part


def assign_round_robin(order: np.ndarray, load: np.ndarray, heap: list, part: np.ndarray) -> None:
    """Many alike: a hand of one query a worker at a time, the largest to the least loaded."""
    workers = len(heap)
    total = np.zeros(workers)
    for before, worker in heap:
        total[worker] = before
    for start in range(0, order.size, workers):
        hand = order[start : start + workers]
        takers = np.argsort(total, kind="stable")[: hand.size]
        part[hand] = takers
        total[takers] += load[hand]
