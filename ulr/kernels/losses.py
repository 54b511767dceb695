"""The losses behind t+ and t- of Unbiased LambdaMART, as sums in any order of addition.

Hu 2019 eq. 30-31, 37; docs/methods.md section 6: with n_ij sessions in which i was clicked and j
was not, L_ij = D log(1 + exp(-sigma (f_i - f_j))) and positions k, l of i, j:

    plus[k]  = sum n_ij L_ij / t-_l       minus[l] = sum n_ij L_ij / t+_k

Each query's sums are rounded to integers in units of 2^-20, so that totals are equal on any number
of threads or workers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.lambdas import LIMIT, SPREAD, discounts_for
from ulr.kernels.layout import PairLists
from ulr.kernels.order import ranks_of
from ulr.kernels.pair_runs import PairRuns
from ulr.kernels.threads import query_ranges, run_ranges

UNITS = 2.0**20


class _Options(NamedTuple):
    """Settings of the pass; ndcg: losses weighted by D, else plain RankNet."""

    sigma: float
    ndcg: bool
    truncation: int
    t_plus: np.ndarray
    t_minus: np.ndarray


@kernel()
def _softplus(x: float) -> float:
    """Return log(1 + exp(x)) for any finite x."""
    x = min(max(x, -LIMIT), LIMIT)
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@kernel()
def _exponents(n: int, sigma: float, scratch: np.ndarray) -> bool:
    """Fill z = sigma (f - max f) and e = exp(z); return whether no e is too small for a product."""
    s, z, e = scratch[0], scratch[1], scratch[2]
    best = worst = s[0]
    for d in range(n):
        best, worst = max(best, s[d]), min(worst, s[d])
    near: bool = sigma * (best - worst) < SPREAD
    for d in range(n):
        z[d] = sigma * (s[d] - best)
        e[d] = math.exp(z[d])
    return near


@kernel(error_model="numpy")
def _one_group(
    pairs: PairLists, start: int, end: int, near: bool, options: _Options,
    discounts: np.ndarray, scratch: np.ndarray, order: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """Add the group's losses to sums (2 x bins): plus, then minus."""
    z, e, rank, bins = scratch[1], scratch[2], order[1], order[3]
    i, j, u_ij, u_ji = pairs.i, pairs.j, pairs.u_ij, pairs.u_ji
    _, ndcg, truncation, t_plus, t_minus = options
    for p in range(start, end):
        a, b = i[p], j[p]
        if ndcg and rank[a] >= truncation and rank[b] >= truncation:
            continue
        d = abs(discounts[rank[a]] - discounts[rank[b]]) if ndcg else 1.0
        k, v = bins[a], bins[b]
        n_ij, n_ji = u_ij[p], u_ji[p]
        # log(1 + exp(z_b - z_a)), by one logarithm; the reverse is larger by z_a - z_b.
        cost = math.log(e[a] + e[b]) - z[a] if near else _softplus(z[b] - z[a])
        if n_ij != 0:
            loss = n_ij * d * cost
            sums[0, k] += loss / t_minus[v]
            sums[1, v] += loss / t_plus[k]
        if n_ji != 0:
            back = cost + (z[a] - z[b]) if near else _softplus(z[a] - z[b])
            loss = n_ji * d * back
            sums[0, v] += loss / t_minus[k]
            sums[1, k] += loss / t_plus[v]


@kernel()
def _queries(
    scores: np.ndarray, pairs: PairLists, options: _Options, discounts: np.ndarray,
    first_query: int, last_query: int, totals: np.ndarray,
) -> None:  # fmt: skip
    query_rows, query_groups, group_docs, group_pairs, doc_row, position = pairs[:6]
    scratch = np.empty((3, discounts.size))  # scores, exponents, exponentials
    order = np.empty((4, discounts.size), np.int32)  # order, ranks, work space, position bins
    bins = options.t_plus.size
    sums = np.empty((2, bins))
    for q in range(first_query, last_query):
        sums[:, :] = 0.0
        for group in range(query_groups[q], query_groups[q + 1]):
            lo, n = group_docs[group], group_docs[group + 1] - group_docs[group]
            for d in range(n):
                scratch[0, d] = scores[query_rows[q] + doc_row[lo + d]]
                order[3, d] = min(position[lo + d] - 1, bins - 1)
            ranks_of(scratch[0], n, order[0], order[2], order[1])
            near = _exponents(n, options.sigma, scratch)
            _one_group(pairs, group_pairs[group], group_pairs[group + 1], near, options, discounts,
                       scratch, order, sums)  # fmt: skip
        for side in range(2):
            for k in range(bins):
                totals[side, k] += np.int64(np.rint(sums[side, k] * UNITS))


def position_losses(
    scores: np.ndarray,
    pairs: PairLists,
    t_plus: np.ndarray,
    t_minus: np.ndarray,
    *,
    sigmoid: float = 1.0,
    truncation_level: int = 30,
    objective: str = "lambdarank",
) -> np.ndarray:
    """Return plus and minus of every position bin as int64 (2 x bins), in units of 2^-20.

    scores: float64, one per row. pairs holds raw counts: u_ij is n_ij. t_plus, t_minus: float64,
    one per position bin; positions past the last bin count in it.
    """
    ranges, discounts = query_ranges(_cost(pairs)), discounts_for(pairs.group_docs)
    totals = np.zeros((ranges.size - 1, 2, t_plus.size), np.int64)
    options = _Options(sigmoid, objective == "lambdarank", truncation_level, t_plus, t_minus)

    def add(number: int, first_query: int, last_query: int) -> None:
        _queries(scores, pairs, options, discounts, first_query, last_query, totals[number])

    run_ranges(add, ranges)
    losses: np.ndarray = totals.sum(axis=0)
    return losses


@kernel(error_model="numpy")
def debias_counts(
    runs: PairRuns, position: np.ndarray, t_plus: np.ndarray, t_minus: np.ndarray,
    u_ij: np.ndarray, u_ji: np.ndarray,
) -> None:  # fmt: skip
    """Fill u (float32 per pair) with n_ij / (t+ of the winner's position x t- of the loser's).

    position: int32, of the pair lists from which the runs were made.
    """
    last = t_plus.size - 1
    for group in range(runs.group_docs.size - 1):
        lo = runs.group_docs[group]
        for run in range(runs.group_runs[group], runs.group_runs[group + 1]):
            start, partner = runs.run_pairs[run], lo + runs.partner[run]
            k = min(position[lo + runs.doc_index[lo + runs.document[run]]] - 1, last)
            for p in range(start, runs.run_pairs[run + 1]):
                v = min(position[lo + runs.doc_index[partner + p - start]] - 1, last)
                u_ij[p] = runs.u_ij[p] / (t_plus[k] * t_minus[v])
                u_ji[p] = runs.u_ji[p] / (t_plus[v] * t_minus[k])


def _cost(pairs: PairLists) -> np.ndarray:
    """Return the cost of the queries before each: a pair 8, a document 4. int64, queries + 1."""
    groups = pairs.query_groups
    cost: np.ndarray = 8 * pairs.group_pairs[groups] + 4 * pairs.group_docs[groups]
    return cost
