"""The weighted pairwise loss itself, to choose models by (Kurennoy eq. 10 with `joint` weights).

    sum of u_ij log(1 + exp(-sigma (f_i - f_j))) + u_ji log(1 + exp(-sigma (f_j - f_i)))

Kept as an integer in units of 2^-20 per query, so parts add up to the whole exactly.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange

from ulr.kernels.lambdas import balanced_blocks
from ulr.kernels.tplus import UNITS, _softplus
from ulr.pair_arrays import PairArrays


@njit(cache=True, nogil=True, parallel=True)
def _all_groups(
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


def pair_loss(scores: np.ndarray, pairs: PairArrays, *, sigmoid: float = 1.0) -> int:
    """The loss of `scores` (float64, one per row) in units of 2^-20; may be below 0."""
    blocks = balanced_blocks(pairs)
    totals = np.zeros(blocks.size - 1, np.int64)
    _all_groups(
        scores, pairs.query_rows, pairs.query_groups, pairs.group_docs, pairs.group_pairs,
        pairs.doc_row, pairs.i, pairs.j, pairs.u_ij, pairs.u_ji, sigmoid, blocks, totals,
    )  # fmt: skip
    return int(totals.sum())
