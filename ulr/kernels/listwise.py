"""Softmax losses of lists of clicked documents (Ai 2018; docs/methods.md section 6.1).

For a list of documents with scores f, clicks C and positions with logits x,

    s = softmax(f)   g = softmax(x)   w_i = g_1 / g_i   v_i = s_1 / s_i

where 1 is the top position, the loss of the ranker is -sum w_i C_i log s_i, and the loss of the
positions is -sum v_i C_i log g_i. With W = sum w_i C_i and V = sum v_i C_i, their gradients are
s_i W - w_i C_i and g_i V - v_i C_i, and their diagonal Hessians s_i (1 - s_i) W and
g_i (1 - g_i) V. Both are linear in the clicks, so that the sum over sessions of one ranking needs
only the clicks of each document.

Each query's sums are rounded to a grid, so that totals are equal on any number of threads or
workers.
"""

from __future__ import annotations

import math

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.layout import PairLists
from ulr.kernels.losses import UNITS
from ulr.kernels.threads import query_ranges, run_ranges

MAX_RATIO = 10.0  # of s_1 / s_i: a few documents with very low scores must not decide


@kernel()
def _softmax(values: np.ndarray, n: int, out: np.ndarray) -> None:
    """Fill out[:n] with the softmax of values[:n], any finite numbers."""
    best = values[0]
    for d in range(1, n):
        best = max(best, values[d])
    total = 0.0
    for d in range(n):
        out[d] = math.exp(values[d] - best)
        total += out[d]
    for d in range(n):
        out[d] /= total


@kernel()
def _fill_queries(
    scores: np.ndarray, pairs: PairLists, weights: np.ndarray, grid: float, longest: int,
    first_query: int, last_query: int, gradients: np.ndarray, hessians: np.ndarray,
) -> None:  # fmt: skip
    f, s, last = np.empty(longest), np.empty(longest), weights.size - 1
    for q in range(first_query, last_query):
        start, rows = pairs.query_rows[q], pairs.query_rows[q + 1] - pairs.query_rows[q]
        sums = np.zeros((2, rows))
        for group in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
            lo, n = pairs.group_docs[group], pairs.group_docs[group + 1] - pairs.group_docs[group]
            whole = 0.0
            for d in range(n):
                f[d] = scores[start + pairs.doc_row[lo + d]]
                whole += weights[min(pairs.position[lo + d] - 1, last)] * pairs.clicks[lo + d]
            if whole == 0.0:
                continue
            _softmax(f, n, s)
            for d in range(n):
                row = pairs.doc_row[lo + d]
                own = weights[min(pairs.position[lo + d] - 1, last)] * pairs.clicks[lo + d]
                sums[0, row] += s[d] * whole - own
                sums[1, row] += s[d] * (1.0 - s[d]) * whole
        for row in range(rows):
            gradients[start + row] = np.rint(sums[0, row] / grid) * grid
            hessians[start + row] = np.rint(sums[1, row] / grid) * grid


def list_gradients(
    scores: np.ndarray, pairs: PairLists, weights: np.ndarray, gradients: np.ndarray,
    hessians: np.ndarray, *, grid: float,
) -> None:  # fmt: skip
    """Fill gradient and Hessian of the ranker's loss (float32 or float64, one per row).

    scores: float64, one per row. weights: float64, w of every position bin; positions past the
    last bin count in it. Values are multiples of grid, a power of two.
    """
    longest = _longest(pairs)

    def fill(_: int, first_query: int, last_query: int) -> None:
        _fill_queries(scores, pairs, weights, grid, longest, first_query, last_query, gradients,
                      hessians)  # fmt: skip

    run_ranges(fill, query_ranges(_cost(pairs)))


@kernel()
def _loss_of_queries(
    scores: np.ndarray, pairs: PairLists, weights: np.ndarray, unit: float, longest: int,
    first_query: int, last_query: int,
) -> int:  # fmt: skip
    f, last, total = np.empty(longest), weights.size - 1, np.int64(0)
    for q in range(first_query, last_query):
        loss = 0.0
        for group in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
            lo, n = pairs.group_docs[group], pairs.group_docs[group + 1] - pairs.group_docs[group]
            best, exponentials = -np.inf, 0.0
            for d in range(n):
                f[d] = scores[pairs.query_rows[q] + pairs.doc_row[lo + d]]
                best = max(best, f[d])
            for d in range(n):
                exponentials += math.exp(f[d] - best)
            for d in range(n):
                own = weights[min(pairs.position[lo + d] - 1, last)] * pairs.clicks[lo + d]
                loss += own * (best - f[d] + math.log(exponentials))
        total += np.int64(np.rint(loss / unit))
    return int(total)


def list_loss(scores: np.ndarray, pairs: PairLists, weights: np.ndarray, *, unit: float) -> int:
    """Return the ranker's loss in multiples of unit, a power of two. Arguments as above."""
    ranges, longest = query_ranges(_cost(pairs)), _longest(pairs)
    totals = np.zeros(ranges.size - 1, np.int64)

    def add(number: int, first_query: int, last_query: int) -> None:
        totals[number] = _loss_of_queries(scores, pairs, weights, unit, longest, first_query,
                                          last_query)  # fmt: skip

    run_ranges(add, ranges)
    return int(totals.sum())


@kernel()
def _sum_queries(
    scores: np.ndarray, pairs: PairLists, logits: np.ndarray, longest: int,
    first_query: int, last_query: int, totals: np.ndarray,
) -> None:  # fmt: skip
    x, g, v, last = np.empty(longest), np.empty(longest), np.empty(longest), logits.size - 1
    sums = np.empty((2, logits.size))
    for q in range(first_query, last_query):
        start = pairs.query_rows[q]
        sums[:, :] = 0.0
        for group in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
            lo, n = pairs.group_docs[group], pairs.group_docs[group + 1] - pairs.group_docs[group]
            top = 0
            for d in range(n):
                x[d] = logits[min(pairs.position[lo + d] - 1, last)]
                if pairs.position[lo + d] < pairs.position[lo + top]:
                    top = d
            best, whole = scores[start + pairs.doc_row[lo + top]], 0.0
            for d in range(n):
                apart = best - scores[start + pairs.doc_row[lo + d]]
                v[d] = math.exp(min(apart, math.log(MAX_RATIO))) * pairs.clicks[lo + d]
                whole += v[d]
            _softmax(x, n, g)
            for d in range(n):
                k = min(pairs.position[lo + d] - 1, last)
                sums[0, k] += g[d] * whole - v[d]
                sums[1, k] += g[d] * (1.0 - g[d]) * whole
        for side in range(2):
            for k in range(logits.size):
                totals[side, k] += np.int64(np.rint(sums[side, k] * UNITS))


def position_gradients(scores: np.ndarray, pairs: PairLists, logits: np.ndarray) -> np.ndarray:
    """Return gradient and Hessian of the loss of the positions: int64, 2 x bins, in units of 2^-20.

    scores: float64, one per row. logits: float64, one per position bin; positions past the last
    bin count in it. v is at most MAX_RATIO.
    """
    ranges, longest = query_ranges(_cost(pairs)), _longest(pairs)
    totals = np.zeros((ranges.size - 1, 2, logits.size), np.int64)

    def add(number: int, first_query: int, last_query: int) -> None:
        _sum_queries(scores, pairs, logits, longest, first_query, last_query, totals[number])

    run_ranges(add, ranges)
    sums: np.ndarray = totals.sum(axis=0)
    return sums


def _longest(pairs: PairLists) -> int:
    return int(np.diff(pairs.group_docs).max(initial=1))


def _cost(pairs: PairLists) -> np.ndarray:
    """Return the cost of the queries before each: a document 32. int64, queries + 1."""
    cost: np.ndarray = 32 * pairs.group_docs[pairs.query_groups]
    return cost
