"""Gradient and Hessian of the weighted pairwise loss (docs/methods.md section 5).

For a pair {i, j} with weights u_ij, u_ji, scores f and current ranks by f:

    rho    = 1 / (1 + exp(sigma (f_i - f_j)))
    D      = |1 / log2(1 + rank_i) - 1 / log2(1 + rank_j)|, or 1 for plain RankNet
    grad_i += -sigma D ((u_ij + u_ji) rho - u_ji), grad_j the opposite
    hess   += sigma^2 D rho (1 - rho) max(u_ij + u_ji, 0), for both

With e = exp(sigma (f - max f)), rho is e_j / (e_i + e_j): one exponential per row of a query, which
all its lists share, and none per pair. If the scores of a query spread so far that e underflows,
each pair has its own exponential.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ulr.errors import UserError
from ulr.kernels.jit import kernel
from ulr.kernels.lanes import (
    LANES,
    absolute,
    below,
    first,
    load,
    positive,
    splat,
    store,
    take,
    total,
)
from ulr.kernels.order import rank_lanes
from ulr.kernels.pair_runs import PairRuns
from ulr.kernels.threads import query_ranges, run_ranges

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


class _Query(NamedTuple):
    """Values of a query's rows, float64: score, exponential, gradient, Hessian."""

    score: np.ndarray
    exponential: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray


class _List(NamedTuple):
    """Values of a list's documents by slot, float64.

    gradient and hessian sum what a document gets as a partner, own_gradient and own_hessian what
    it gets as the document of a run. Stores of one value delay a load of eight that includes it,
    so the two are apart.
    """

    score: np.ndarray
    exponential: np.ndarray
    place: np.ndarray  # index in the list
    rank: np.ndarray
    discount: np.ndarray
    shallow: np.ndarray  # 1 if the rank is above the truncation level, else 0
    gradient: np.ndarray
    hessian: np.ndarray
    own_gradient: np.ndarray
    own_hessian: np.ndarray
    order: np.ndarray  # int32, 2 x documents: work space


@kernel(allocates=False, error_model="numpy", forceinline=True)
def _fast_run(
    document: int, partner: int, start: int, end: int, u_ij: np.ndarray, u_ji: np.ndarray,
    sigma: float, docs: _List,
) -> None:  # fmt: skip
    """Add the NDCG lambdas of a run without norm and underflow: the case of nearly every list."""
    e, discount, g, h = docs.exponential, docs.discount, docs.gradient, docs.hessian
    a, b, at = np.uint32(document), np.int64(partner), start
    e_a, discount_a, deep = splat(e[a]), splat(discount[a]), docs.shallow[a] == 0.0
    one, scale, g_a, h_a = splat(1.0), splat(sigma), splat(0.0), splat(0.0)
    while at < end:
        left = float(end - at)
        down = first(load(u_ji, at), left)
        both = first(load(u_ij, at), left) + down
        e_b = load(e, b)
        rho = e_b / (e_a + e_b)
        d = scale * absolute(discount_a - load(discount, b))
        if deep:
            d = d * load(docs.shallow, b)
        force = d * (both * rho - down)
        curve = scale * d * rho * (one - rho) * positive(both)
        store(g, b, load(g, b) + force)
        store(h, b, load(h, b) + curve)
        g_a = g_a + force
        h_a = h_a + curve
        at += LANES
        b += LANES
    docs.own_gradient[a] -= total(g_a)
    docs.own_hessian[a] += total(h_a)


@kernel(allocates=False, error_model="numpy")
def _careful_run(
    document: int, partner: int, start: int, end: int, u_ij: np.ndarray, u_ji: np.ndarray,
    options: _Options, norm: bool, docs: _List,
) -> float:  # fmt: skip
    """Add lambdas for any settings and finite scores; return the divisor of lambdarank_norm."""
    sigma, ndcg, mass, a = options.sigma, options.ndcg, 0.0, document
    for p in range(start, end):
        b = partner + p - start
        if ndcg and docs.shallow[a] + docs.shallow[b] == 0.0:
            continue
        up, down = np.float64(u_ij[p]), np.float64(u_ji[p])
        apart = docs.score[a] - docs.score[b]
        d = abs(docs.discount[a] - docs.discount[b]) if ndcg else 1.0
        if norm:
            d /= NORM_FLOOR + abs(apart)
        rho = 1.0 / (1.0 + math.exp(min(max(sigma * apart, -LIMIT), LIMIT)))
        both = up + down
        force = sigma * d * (both * rho - down)
        curve = sigma * sigma * d * rho * (1.0 - rho) * max(both, 0.0)
        mass += 2.0 * sigma * d * (abs(up) * rho + abs(down) * (1.0 - rho))
        docs.own_gradient[a] -= force
        docs.gradient[b] += force
        docs.own_hessian[a] += curve
        docs.hessian[b] += curve
    return mass


@kernel(allocates=False, error_model="numpy", forceinline=True)
def _read_list(
    runs: PairRuns, group: int, query: _Query, options: _Options, discounts: np.ndarray,
    docs: _List,
) -> None:  # fmt: skip
    """Fill a list's scores, exponentials and discounts; set its sums to 0."""
    lo, n = runs.group_docs[group], runs.group_docs[group + 1] - runs.group_docs[group]
    zero = splat(0.0)
    for d in range(0, n, LANES):
        row = load(runs.doc_row, lo + d)
        store(docs.score, d, take(query.score, row))
        store(docs.exponential, d, take(query.exponential, row))
        store(docs.place, d, load(runs.doc_index, lo + d))
        store(docs.gradient, d, zero)
        store(docs.hessian, d, zero)
        store(docs.own_gradient, d, zero)
        store(docs.own_hessian, d, zero)
    if not options.ndcg:
        return
    rank_lanes(docs.score, docs.place, n, docs.rank, docs.discount, docs.order)
    level = splat(float(options.truncation))
    for d in range(0, n, LANES):
        rank = load(docs.rank, d)
        store(docs.discount, d, take(discounts, rank))
        store(docs.shallow, d, below(rank, level))


@kernel(allocates=False, error_model="numpy")
def _careful_list(runs: PairRuns, group: int, options: _Options, docs: _List) -> None:
    """Add the lambdas of a list for any settings and finite scores."""
    n = runs.group_docs[group + 1] - runs.group_docs[group]
    norm, mass = False, 0.0
    for d in range(1, n):  # as in LightGBM, no norm for equal scores
        norm |= options.norm and docs.score[d] != docs.score[0]
    for run in range(runs.group_runs[group], runs.group_runs[group + 1]):
        mass += _careful_run(
            runs.document[run], runs.partner[run], runs.run_pairs[run], runs.run_pairs[run + 1],
            runs.u_ij, runs.u_ji, options, norm, docs,
        )  # fmt: skip
    if options.norm and mass > 0.0:
        factor = math.log2(1.0 + mass) / mass
        for d in range(n):
            docs.gradient[d] *= factor
            docs.hessian[d] *= factor
            docs.own_gradient[d] *= factor
            docs.own_hessian[d] *= factor


@kernel(allocates=False, error_model="numpy", forceinline=True)
def _read_query(scores: np.ndarray, first_row: int, rows: int, sigma: float, query: _Query) -> bool:
    """Fill a query's scores and exponentials; return whether none underflows."""
    best = worst = scores[first_row]
    for r in range(rows):
        score = scores[first_row + r]
        best, worst = max(best, score), min(worst, score)
        query.score[r] = score
        query.gradient[r] = query.hessian[r] = 0.0
    near: bool = sigma * (best - worst) < SPREAD
    if near:
        for r in range(rows):
            query.exponential[r] = math.exp(sigma * (query.score[r] - best))
    return near


@kernel(allocates=False, forceinline=True)
def _write_rows(
    query: _Query, first_row: int, rows: int, grid: float, gradients: np.ndarray,
    hessians: np.ndarray,
) -> None:  # fmt: skip
    """Store a query's sums; if grid (a power of two) is above 0, as multiples of it."""
    per_unit = 1.0 / grid if grid > 0.0 else 0.0
    for r in range(rows):
        g, h = query.gradient[r], query.hessian[r]
        if grid > 0.0:
            g, h = np.rint(g * per_unit) * grid, np.rint(h * per_unit) * grid
        gradients[first_row + r], hessians[first_row + r] = g, h


@kernel(allocates=False, error_model="numpy")
def _queries(
    scores: np.ndarray, runs: PairRuns, options: _Options, discounts: np.ndarray, query: _Query,
    docs: _List, first_query: int, last_query: int, gradients: np.ndarray, hessians: np.ndarray,
) -> None:  # fmt: skip
    plain = options.ndcg and not options.norm
    for q in range(first_query, last_query):
        first_row, rows = runs.query_rows[q], runs.query_rows[q + 1] - runs.query_rows[q]
        if rows == 0:
            continue
        near = _read_query(scores, first_row, rows, options.sigma, query)
        for group in range(runs.query_groups[q], runs.query_groups[q + 1]):
            start, end = runs.group_runs[group], runs.group_runs[group + 1]
            if start == end:
                continue
            _read_list(runs, group, query, options, discounts, docs)
            if near and plain:
                for run in range(start, end):
                    at = np.uint64(run)
                    _fast_run(
                        runs.document[at], runs.partner[at], runs.run_pairs[at],
                        runs.run_pairs[np.uint64(run + 1)], runs.u_ij, runs.u_ji, options.sigma,
                        docs,
                    )  # fmt: skip
            else:
                _careful_list(runs, group, options, docs)
            lo = runs.group_docs[group]
            for d in range(runs.group_paired[group]):
                row = np.uint32(runs.doc_row[np.uint64(lo + d)])
                query.gradient[row] += docs.gradient[d] + docs.own_gradient[d]
                query.hessian[row] += docs.hessian[d] + docs.own_hessian[d]
        _write_rows(query, first_row, rows, options.grid, gradients, hessians)


def lambda_gradients(
    scores: np.ndarray,
    runs: PairRuns,
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
    values as computed. The other options are LightGBM's. Each query is computed on one thread, so
    that the number of threads cannot change the result.
    """
    if objective not in OBJECTIVES:
        raise UserError(f"objective = {objective!r}: expected one of {', '.join(OBJECTIVES)}")
    for name, array in (("scores", scores), ("gradients", gradients), ("hessians", hessians)):
        if array.shape != (runs.rows,) or not array.flags.c_contiguous:
            raise UserError(f"{name} has shape {array.shape}; expected ({runs.rows},) contiguous")
    if runs.queries == 0:
        return
    options = _Options(sigmoid, objective == "lambdarank", truncation_level, norm, grid)
    discounts = discounts_for(runs.group_docs)

    most = int(np.diff(runs.query_rows).max())

    def compute(_: int, first_query: int, last_query: int) -> None:
        query = _Query(*np.ones((4, most)))
        width = discounts.size + LANES
        docs = _List(*[*np.ones((10, width)), np.empty((2, width), np.int32)])
        _queries(scores, runs, options, discounts, query, docs, first_query, last_query, gradients,
                 hessians)  # fmt: skip

    run_ranges(compute, query_ranges(_cost(runs)))


def discounts_for(group_docs: np.ndarray) -> np.ndarray:
    """Return 1 / log2(1 + rank) for every rank of the longest list, float64."""
    longest = int(np.diff(group_docs).max(initial=1))
    discounts: np.ndarray = 1.0 / np.log2(np.arange(longest + 1) + 2.0)
    return discounts


def _cost(runs: PairRuns) -> np.ndarray:
    """Return the cost of the queries before each, in about a nanosecond: int64, queries + 1."""
    groups = runs.query_groups
    pairs = runs.run_pairs[runs.group_runs[groups]]
    cost: np.ndarray = pairs + 4 * runs.group_docs[groups] + 8 * runs.query_rows
    return cost
