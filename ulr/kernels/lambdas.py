"""Gradient and Hessian of the weighted pairwise loss (docs/methods.md section 5).

For a pair {i, j} with weights u_ij, u_ji, scores f and current ranks by f:

    rho    = 1 / (1 + exp(sigma (f_i - f_j)))
    D      = |1 / log2(1 + rank_i) - 1 / log2(1 + rank_j)|, or 1 for plain RankNet
    grad_i += -sigma D ((u_ij + u_ji) rho - u_ji), grad_j the opposite
    hess   += sigma^2 D rho (1 - rho) max(u_ij + u_ji, 0), for both

With e = exp(sigma (f - max f)), rho is e_j / (e_i + e_j): one exponential per document, none per
pair. If the scores of a list spread so far that e underflows, each pair has its own exponential.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import get_num_threads, njit, prange

from ulr.errors import UserError
from ulr.kernels.layout import PairLists
from ulr.kernels.order import ranks_of

OBJECTIVES = ("lambdarank", "ranknet")
SPREAD = 600.0  # exp(-SPREAD) is still a normal float64, with room for a product of two
LIMIT = 700.0  # exp(LIMIT) is finite
NORM_FLOOR = 0.01  # LightGBM's, in |score difference| of lambdarank_norm


class _Options(NamedTuple):
    """Settings of the pass; ndcg: lambdas weighted by D, else plain RankNet."""

    sigma: float
    ndcg: bool
    truncation: int
    norm: bool
    grid: float


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "arcp"})
def _fast_pairs(
    pairs: PairLists, start: int, end: int, sigma: float, truncation: int, scratch: np.ndarray,
    rank: np.ndarray,
) -> None:  # fmt: skip
    """Add NDCG lambdas without norm and underflow: the case of nearly every list.

    Unsigned indices avoid numba's test for negative ones, which costs a third of the time.
    """
    i, j, u_ij, u_ji = pairs.i, pairs.j, pairs.u_ij, pairs.u_ji
    e, disc, g, h = scratch[1], scratch[2], scratch[3], scratch[4]
    at, stop = np.uint64(start), np.uint64(end)
    while at < stop:
        a = np.uint32(i[at])
        e_a, d_a, deep = e[a], disc[a], rank[a] >= truncation
        g_a = h_a = 0.0
        while at < stop and np.uint32(i[at]) == a:
            b = np.uint32(j[at])
            if deep and rank[b] >= truncation:
                at += np.uint64(1)
                continue
            down = np.float64(u_ji[at])
            total = np.float64(u_ij[at]) + down
            rho = e[b] / (e_a + e[b])
            d = sigma * abs(d_a - disc[b])
            force = d * (total * rho - down)
            curve = sigma * d * rho * (1.0 - rho) * max(total, 0.0)
            g_a -= force
            h_a += curve
            g[b] += force
            h[b] += curve
            at += np.uint64(1)
        g[a] += g_a
        h[a] += h_a


@njit(cache=True, nogil=True, error_model="numpy")
def _careful_pairs(
    pairs: PairLists, start: int, end: int, options: _Options, norm: bool, scratch: np.ndarray,
    rank: np.ndarray,
) -> float:  # fmt: skip
    """Add lambdas for any settings and finite scores; return the divisor of lambdarank_norm."""
    s, disc, g, h = scratch[0], scratch[2], scratch[3], scratch[4]
    i, j, u_ij, u_ji = pairs.i, pairs.j, pairs.u_ij, pairs.u_ji
    sigma, ndcg, truncation = options.sigma, options.ndcg, options.truncation
    mass = 0.0
    for p in range(start, end):
        a, b = i[p], j[p]
        if ndcg and rank[a] >= truncation and rank[b] >= truncation:
            continue
        up, down = np.float64(u_ij[p]), np.float64(u_ji[p])
        apart = s[a] - s[b]
        d = abs(disc[a] - disc[b]) if ndcg else 1.0
        if norm:
            d /= NORM_FLOOR + abs(apart)
        rho = 1.0 / (1.0 + math.exp(min(max(sigma * apart, -LIMIT), LIMIT)))
        total = up + down
        force = sigma * d * (total * rho - down)
        curve = sigma * sigma * d * rho * (1.0 - rho) * max(total, 0.0)
        mass += 2.0 * sigma * d * (abs(up) * rho + abs(down) * (1.0 - rho))
        g[a] -= force
        g[b] += force
        h[a] += curve
        h[b] += curve
    return mass


@njit(cache=True, nogil=True, error_model="numpy")
def _one_group(
    pairs: PairLists, start: int, end: int, n: int, options: _Options, discounts: np.ndarray,
    scratch: np.ndarray, order: np.ndarray,
) -> None:  # fmt: skip
    """Fill gradient and Hessian of the n documents of a group from their scores."""
    s, rank = scratch[0], order[1]
    if options.ndcg:
        ranks_of(s, n, order[0], order[2], rank)
        for d in range(n):
            scratch[2, d] = discounts[rank[d]]
    best = worst = s[0]
    for d in range(n):
        best, worst = max(best, s[d]), min(worst, s[d])
        scratch[3, d] = scratch[4, d] = 0.0
    sigma, norm = options.sigma, options.norm
    if options.ndcg and not norm and sigma * (best - worst) < SPREAD:
        for d in range(n):
            scratch[1, d] = math.exp(sigma * (s[d] - best))
        _fast_pairs(pairs, start, end, sigma, options.truncation, scratch, rank)
        return
    mass = _careful_pairs(pairs, start, end, options, norm and best != worst, scratch, rank)
    if norm and mass > 0.0:
        factor = math.log2(1.0 + mass) / mass
        for d in range(n):
            scratch[3, d] *= factor
            scratch[4, d] *= factor


@njit(cache=True, nogil=True)
def _write_rows(
    sums: np.ndarray, first: int, rows: int, grid: float, gradients: np.ndarray,
    hessians: np.ndarray,
) -> None:  # fmt: skip
    """Store a query's sums; if grid (a power of two) is above 0, as multiples of it."""
    per_unit = 1.0 / grid if grid > 0.0 else 0.0
    for r in range(rows):
        g, h = sums[0, r], sums[1, r]
        if grid > 0.0:
            g, h = np.rint(g * per_unit) * grid, np.rint(h * per_unit) * grid
        gradients[first + r], hessians[first + r] = g, h


@njit(cache=True, nogil=True)
def _queries(
    scores: np.ndarray, pairs: PairLists, options: _Options, discounts: np.ndarray,
    first_query: int, last_query: int, gradients: np.ndarray, hessians: np.ndarray,
) -> None:  # fmt: skip
    query_rows, query_groups, group_docs, group_pairs, doc_row = pairs[:5]
    scratch = np.empty((5, discounts.size))  # scores, exponentials, discounts, gradient, Hessian
    order = np.empty((3, discounts.size), np.int32)  # order, ranks, work space
    sums = np.empty((2, np.diff(query_rows).max()))
    for q in range(first_query, last_query):
        first, rows = query_rows[q], query_rows[q + 1] - query_rows[q]
        for r in range(rows):
            sums[0, r] = sums[1, r] = 0.0
        for group in range(query_groups[q], query_groups[q + 1]):
            lo, n = group_docs[group], group_docs[group + 1] - group_docs[group]
            start, end = group_pairs[group], group_pairs[group + 1]
            if start == end:
                continue
            for d in range(n):
                scratch[0, d] = scores[first + doc_row[lo + d]]
            _one_group(pairs, start, end, n, options, discounts, scratch, order)
            for d in range(n):
                sums[0, doc_row[lo + d]] += scratch[3, d]
                sums[1, doc_row[lo + d]] += scratch[4, d]
        _write_rows(sums, first, rows, options.grid, gradients, hessians)


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _all_queries(
    scores: np.ndarray, pairs: PairLists, options: _Options, discounts: np.ndarray,
    blocks: np.ndarray, gradients: np.ndarray, hessians: np.ndarray,
) -> None:  # fmt: skip
    """Compute each query on one thread, so that the number of threads cannot change the result."""
    for block in prange(blocks.size - 1):
        _queries(scores, pairs, options, discounts, blocks[block], blocks[block + 1], gradients,
                 hessians)  # fmt: skip


def lambda_gradients(
    scores: np.ndarray,
    pairs: PairLists,
    gradients: np.ndarray,
    hessians: np.ndarray,
    *,
    sigmoid: float = 1.0,
    truncation_level: int = 30,
    norm: bool = False,
    objective: str = "lambdarank",
    grid: float = 0.0,
) -> None:
    """Fill `gradients` and `hessians` (float32 or float64, one per row) for `scores` (float64).

    grid: store multiples of this power of two, so that sums do not depend on their order; 0: store
    values as computed. The other options are LightGBM's.
    """
    if objective not in OBJECTIVES:
        raise UserError(f"objective = {objective!r}: expected one of {', '.join(OBJECTIVES)}")
    for name, array in (("scores", scores), ("gradients", gradients), ("hessians", hessians)):
        if array.shape != (pairs.rows,) or not array.flags.c_contiguous:
            raise UserError(f"{name} has shape {array.shape}; expected ({pairs.rows},) contiguous")
    if pairs.queries == 0:
        return
    options = _Options(sigmoid, objective == "lambdarank", truncation_level, norm, grid)
    _all_queries(
        scores, pairs, options, discounts_for(pairs), balanced_blocks(pairs), gradients, hessians
    )


def discounts_for(pairs: PairLists) -> np.ndarray:
    """Return 1 / log2(1 + rank) for every rank of the longest list, float64."""
    longest = int(np.diff(pairs.group_docs).max(initial=1))
    discounts: np.ndarray = 1.0 / np.log2(np.arange(longest) + 2.0)
    return discounts


def balanced_blocks(pairs: PairLists) -> np.ndarray:
    """Return query offsets (int64) that divide the work evenly among the threads.

    A pair costs 1, a document 8 (for sorting), a row 1.
    """
    last_group = pairs.query_groups
    cost = pairs.group_pairs[last_group] + 8 * pairs.group_docs[last_group] + pairs.query_rows
    cuts = np.searchsorted(cost, cost[-1] * np.arange(1, get_num_threads()) / get_num_threads())
    return np.concatenate([[0], cuts, [pairs.queries]]).astype(np.int64)
