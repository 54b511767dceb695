"""t+ and t- of Unbiased LambdaMART (Hu 2019 eq. 30-31, 37; METHODS section 6).

With n_ij sessions in which i was clicked and j was not, L_ij = D log(1 + exp(-sigma (f_i - f_j)))
and positions k, l of i, j:

    plus[k]  = sum n_ij L_ij / t-_l       minus[l] = sum n_ij L_ij / t+_k

Sums are kept as integers, in units of 2^-20 per query: they add up to the same value in any
order, on any number of threads or workers.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from ulr.kernels.lambdas import LIMIT, SPREAD, balanced_blocks, discounts_for
from ulr.kernels.layout import PairLists
from ulr.kernels.order import ranks_of

UNITS = 2.0**20


@njit(cache=True, nogil=True)
def _softplus(x: float) -> float:
    """log(1 + exp(x)), for any finite x."""
    x = min(max(x, -LIMIT), LIMIT)
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True, nogil=True)
def _exponents(s: np.ndarray, n: int, sigma: float, z: np.ndarray, e: np.ndarray) -> bool:
    """z = sigma (f - max f) and e = exp(z); whether no two of them are too far apart for that."""
    best = worst = s[0]
    for d in range(n):
        best, worst = max(best, s[d]), min(worst, s[d])
    near = sigma * (best - worst) < SPREAD
    for d in range(n):
        z[d] = sigma * (s[d] - best)
        e[d] = math.exp(z[d])
    return near


@njit(cache=True, nogil=True, error_model="numpy")
def _one_group(
    start: int, end: int, i: np.ndarray, j: np.ndarray, n_ij: np.ndarray, n_ji: np.ndarray,
    near: bool, ndcg: bool, truncation: int, z: np.ndarray, e: np.ndarray, rank: np.ndarray,
    discounts: np.ndarray, bins: np.ndarray, t_plus: np.ndarray, t_minus: np.ndarray,
    sums: np.ndarray,
) -> None:  # fmt: skip
    """Add the group's losses to sums (2 x bins): plus, then minus."""
    for p in range(start, end):
        a, b = i[p], j[p]
        if ndcg and rank[a] >= truncation and rank[b] >= truncation:
            continue
        d = abs(discounts[rank[a]] - discounts[rank[b]]) if ndcg else 1.0
        k, v = bins[a], bins[b]
        # log(1 + exp(z_b - z_a)), by one logarithm; the reverse is larger by z_a - z_b.
        cost = math.log(e[a] + e[b]) - z[a] if near else _softplus(z[b] - z[a])
        if n_ij[p] != 0:
            loss = n_ij[p] * d * cost
            sums[0, k] += loss / t_minus[v]
            sums[1, v] += loss / t_plus[k]
        if n_ji[p] != 0:
            back = cost + (z[a] - z[b]) if near else _softplus(z[a] - z[b])
            loss = n_ji[p] * d * back
            sums[0, v] += loss / t_minus[k]
            sums[1, k] += loss / t_plus[v]


@njit(cache=True, nogil=True, parallel=True, error_model="numpy")
def _all_groups(
    scores: np.ndarray, query_rows: np.ndarray, query_groups: np.ndarray,
    group_docs: np.ndarray, group_pairs: np.ndarray, doc_row: np.ndarray,
    position: np.ndarray, i: np.ndarray, j: np.ndarray, n_ij: np.ndarray, n_ji: np.ndarray,
    sigma: float, ndcg: bool, truncation: int, t_plus: np.ndarray, t_minus: np.ndarray,
    discounts: np.ndarray, blocks: np.ndarray, totals: np.ndarray,
) -> None:  # fmt: skip
    last = t_plus.size - 1
    longest = discounts.size
    for block in prange(blocks.size - 1):
        scratch, order = np.empty((3, longest)), np.empty((4, longest), np.int32)
        s, z, e = scratch[0], scratch[1], scratch[2]
        rank, bins = order[2], order[3]
        sums = np.empty((2, t_plus.size))
        for q in range(blocks[block], blocks[block + 1]):
            sums[:, :] = 0.0
            for group in range(query_groups[q], query_groups[q + 1]):
                lo, n = group_docs[group], group_docs[group + 1] - group_docs[group]
                for d in range(n):
                    s[d] = scores[query_rows[q] + doc_row[lo + d]]
                    bins[d] = min(position[lo + d] - 1, last)
                ranks_of(s, n, order[0], order[1], rank)
                near = _exponents(s, n, sigma, z, e)
                _one_group(group_pairs[group], group_pairs[group + 1], i, j, n_ij, n_ji, near,
                           ndcg, truncation, z, e, rank, discounts, bins, t_plus, t_minus,
                           sums)  # fmt: skip
            for side in range(2):
                for k in range(t_plus.size):
                    totals[block, side, k] += np.int64(np.rint(sums[side, k] * UNITS))


@njit(cache=True, nogil=True, error_model="numpy")
def _debias(
    group_docs: np.ndarray, group_pairs: np.ndarray, position: np.ndarray, i: np.ndarray,
    j: np.ndarray, n_ij: np.ndarray, n_ji: np.ndarray, t_plus: np.ndarray,
    t_minus: np.ndarray, u_ij: np.ndarray, u_ji: np.ndarray,
) -> None:  # fmt: skip
    last = t_plus.size - 1
    for group in range(group_docs.size - 1):
        lo = group_docs[group]
        for p in range(group_pairs[group], group_pairs[group + 1]):
            k = min(position[lo + i[p]] - 1, last)
            v = min(position[lo + j[p]] - 1, last)
            u_ij[p] = n_ij[p] / (t_plus[k] * t_minus[v])
            u_ji[p] = n_ji[p] / (t_plus[v] * t_minus[k])


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
    """plus and minus of every position bin as int64 (2 x bins), in units of 2^-20.

    pairs holds raw counts: u_ij is n_ij. t_plus, t_minus: float64, one per position bin;
    positions past the last bin count in it.
    """
    blocks = balanced_blocks(pairs)
    totals = np.zeros((blocks.size - 1, 2, t_plus.size), np.int64)
    if pairs.queries:
        _all_groups(
            scores, pairs.query_rows, pairs.query_groups, pairs.group_docs, pairs.group_pairs,
            pairs.doc_row, pairs.position, pairs.i, pairs.j, pairs.u_ij, pairs.u_ji, sigmoid,
            objective == "lambdarank", truncation_level, t_plus, t_minus, discounts_for(pairs), blocks,
            totals,
        )  # fmt: skip
    return totals.sum(axis=0)


def debias_counts(
    pairs: PairLists, t_plus: np.ndarray, t_minus: np.ndarray, u_ij: np.ndarray, u_ji: np.ndarray
) -> None:
    """Fill u with n_ij / (t+ of the winner's position x t- of the loser's)."""
    _debias(
        pairs.group_docs, pairs.group_pairs, pairs.position, pairs.i, pairs.j, pairs.u_ij,
        pairs.u_ji, t_plus, t_minus, u_ij, u_ji,
    )  # fmt: skip


@njit(cache=True, nogil=True, parallel=True)
def _all_groups_pair_loss(
    scores: np.ndarray, query_rows: np.ndarray, query_groups: np.ndarray,
    group_docs: np.ndarray, group_pairs: np.ndarray, doc_row: np.ndarray, i: np.ndarray,
    j: np.ndarray, u_ij: np.ndarray, u_ji: np.ndarray, sigma: float, blocks: np.ndarray,
    totals: np.ndarray,
) -> None:  # fmt: skip
    for block in prange(blocks.size - 1):
        for q in range(blocks[block], blocks[block + 1]):
            loss = 0.0
            for group in range(query_groups[q], query_groups[q + 1]):
                lo = group_docs[group]
                for p in range(group_pairs[group], group_pairs[group + 1]):
                    a = scores[query_rows[q] + doc_row[lo + i[p]]]
                    b = scores[query_rows[q] + doc_row[lo + j[p]]]
                    loss += u_ij[p] * _softplus(sigma * (b - a))
                    loss += u_ji[p] * _softplus(sigma * (a - b))
            totals[block] += np.int64(np.rint(loss * UNITS))


def pair_loss(scores: np.ndarray, pairs: PairLists, *, sigmoid: float = 1.0) -> int:
    """The loss of `scores` (float64, one per row) in units of 2^-20; may be below 0."""
    blocks = balanced_blocks(pairs)
    totals = np.zeros(blocks.size - 1, np.int64)
    _all_groups_pair_loss(
        scores, pairs.query_rows, pairs.query_groups, pairs.group_docs, pairs.group_pairs,
        pairs.doc_row, pairs.i, pairs.j, pairs.u_ij, pairs.u_ji, sigmoid, blocks, totals,
    )  # fmt: skip
    return int(totals.sum())
