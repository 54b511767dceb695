"""The weighted logistic loss of pairs in blocks of queries, and its derivatives by a score scale.

With a scale a the loss of a pair is u_ij log(1 + exp(-a sigma (f_i - f_j))) plus the reverse.
The sums of blocks give standard errors. Each query's sums are rounded to integers in units of
2^-20, so that totals are equal on any number of threads or workers.
"""

from __future__ import annotations

import math

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.lambdas import LIMIT
from ulr.kernels.layout import PairLists
from ulr.kernels.losses import UNITS
from ulr.kernels.threads import query_ranges, run_ranges


@kernel()
def _query_sums(
    scores: np.ndarray, pairs: PairLists, sigma: float, scale: float, q: int, sums: np.ndarray
) -> None:
    """Fill sums (3) with the loss of a query and its first two derivatives by the scale."""
    sums[:] = 0.0
    for group in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
        lo = pairs.group_docs[group]
        for p in range(pairs.group_pairs[group], pairs.group_pairs[group + 1]):
            a = scores[pairs.query_rows[q] + pairs.doc_row[lo + pairs.i[p]]]
            b = scores[pairs.query_rows[q] + pairs.doc_row[lo + pairs.j[p]]]
            gap = sigma * (a - b)
            x = min(max(scale * gap, -LIMIT), LIMIT)
            u, v = pairs.u_ij[p], pairs.u_ji[p]
            tail = math.exp(-abs(x))
            reverse = max(x, 0.0) + math.log1p(tail)  # log(1 + exp(x))
            wrong = tail / (1.0 + tail) if x >= 0.0 else 1.0 / (1.0 + tail)
            sums[0] += u * (reverse - x) + v * reverse
            sums[1] += gap * (v * (1.0 - wrong) - u * wrong)
            sums[2] += gap * gap * (u + v) * wrong * (1.0 - wrong)


@kernel()
def _add_queries(
    scores: np.ndarray, pairs: PairLists, block: np.ndarray, sigma: float, scale: float,
    first_query: int, last_query: int, totals: np.ndarray,
) -> None:  # fmt: skip
    sums = np.empty(3)
    for q in range(first_query, last_query):
        _query_sums(scores, pairs, sigma, scale, q, sums)
        for k in range(3):
            totals[k, block[q]] += np.int64(np.rint(sums[k] * UNITS))


def pair_losses(
    scores: np.ndarray,
    pairs: PairLists,
    block: np.ndarray,
    blocks: int,
    *,
    sigmoid: float = 1.0,
    scale: float = 1.0,
) -> np.ndarray:
    """Return loss, slope and curvature of each block of queries: int64, 3 x blocks, by 2^-20.

    scores: float64, one per row. block: int64 per query. The loss may be negative. Slope and
    curvature are the derivatives by the scale, at `scale`.
    """
    groups = pairs.query_groups
    cost = 8 * pairs.group_pairs[groups] + 4 * pairs.group_docs[groups]
    ranges = query_ranges(cost)
    totals = np.zeros((ranges.size - 1, 3, blocks), np.int64)

    def add(number: int, first_query: int, last_query: int) -> None:
        _add_queries(scores, pairs, block, sigmoid, scale, first_query, last_query, totals[number])

    run_ranges(add, ranges)
    sums: np.ndarray = totals.sum(axis=0)
    return sums
