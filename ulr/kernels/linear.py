"""Loss and gradient of a linear ranker over weighted pairs (docs/methods.md section 5.3).

With scores f = Z w for standardised features Z,

    loss = sum u_ij l(f_i - f_j) + u_ji l(f_j - f_i)        gradient = Z' (d loss / d f)

where l(m) is log(1 + exp(-m)), or the hinge max(0, 1 - m) with its corner replaced by a parabola
over [1 - SMOOTH, 1], because the optimizer needs a continuous gradient. Each query's sums are
rounded to integers, so that totals are equal on any number of threads or workers.
"""

from __future__ import annotations

import math

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.lambdas import LIMIT
from ulr.kernels.layout import PairLists
from ulr.kernels.threads import query_ranges, run_ranges

LOSSES = ("logistic", "hinge")
SMOOTH = 0.1


@kernel()
def pair_loss_at(margin: float, hinge: bool) -> tuple[float, float]:
    """Return l(margin) and its derivative."""
    if not hinge:
        m = min(max(margin, -LIMIT), LIMIT)
        loss = max(-m, 0.0) + math.log1p(math.exp(-abs(m)))
        return loss, -1.0 / (1.0 + math.exp(m))
    short = 1.0 - margin
    if short <= 0.0:
        return 0.0, 0.0
    if short < SMOOTH:
        return short * short / (2.0 * SMOOTH), -short / SMOOTH
    return short - SMOOTH / 2.0, -1.0


@kernel()
def _query(
    features: np.ndarray, weights: np.ndarray, pairs: PairLists, q: int, hinge: bool,
    scores: np.ndarray, slopes: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """Fill sums with a query's loss, then its gradient."""
    first, rows = pairs.query_rows[q], pairs.query_rows[q + 1] - pairs.query_rows[q]
    sums[:] = 0.0
    for r in range(rows):
        slopes[r] = scores[r] = 0.0
        for k in range(weights.size):
            scores[r] += features[first + r, k] * weights[k]
    for group in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
        lo = pairs.group_docs[group]
        for p in range(pairs.group_pairs[group], pairs.group_pairs[group + 1]):
            a, b = pairs.doc_row[lo + pairs.i[p]], pairs.doc_row[lo + pairs.j[p]]
            up, up_slope = pair_loss_at(scores[a] - scores[b], hinge)
            down, down_slope = pair_loss_at(scores[b] - scores[a], hinge)
            sums[0] += pairs.u_ij[p] * up + pairs.u_ji[p] * down
            force = pairs.u_ij[p] * up_slope - pairs.u_ji[p] * down_slope
            slopes[a] += force
            slopes[b] -= force
    for r in range(rows):
        for k in range(weights.size):
            sums[1 + k] += slopes[r] * features[first + r, k]


@kernel()
def linear_scores(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return features (float32, rows x width) times weights (float64): float64, one per row."""
    scores = np.zeros(features.shape[0])
    for r in range(features.shape[0]):
        for k in range(weights.size):
            scores[r] += features[r, k] * weights[k]
    return scores


@kernel()
def feature_sums(
    features: np.ndarray, slopes: np.ndarray, query_rows: np.ndarray, unit: float
) -> np.ndarray:
    """Return the sum of slope times features over all rows: int64, width, in multiples of unit.

    slopes: float64, one per row. query_rows: int64 offsets; the sum of a query is rounded.
    """
    width = features.shape[1]
    totals, sums = np.zeros(width, np.int64), np.empty(width)
    for q in range(query_rows.size - 1):
        sums[:] = 0.0
        for r in range(query_rows[q], query_rows[q + 1]):
            for k in range(width):
                sums[k] += slopes[r] * features[r, k]
        for k in range(width):
            totals[k] += np.int64(np.rint(sums[k] / unit))
    return totals


@kernel()
def _queries(
    features: np.ndarray, weights: np.ndarray, pairs: PairLists, hinge: bool, unit: float,
    longest: int, first_query: int, last_query: int, totals: np.ndarray,
) -> None:  # fmt: skip
    scores, slopes, sums = np.empty(longest), np.empty(longest), np.empty(1 + weights.size)
    for q in range(first_query, last_query):
        _query(features, weights, pairs, q, hinge, scores, slopes, sums)
        for k in range(sums.size):
            totals[k] += np.int64(np.rint(sums[k] / unit))


def linear_gradient(
    features: np.ndarray, weights: np.ndarray, pairs: PairLists, *, loss: str, unit: float
) -> np.ndarray:
    """Return the loss and its gradient as int64 (1 + width), in multiples of unit.

    features: float32, rows x width, finite. weights: float64, width. loss: one of LOSSES. unit: a
    power of two.
    """
    longest = int(np.diff(pairs.query_rows).max(initial=1))
    groups = pairs.query_groups
    cost = 16 * pairs.group_pairs[groups] + 2 * weights.size * pairs.query_rows
    ranges = query_ranges(cost)
    totals = np.zeros((ranges.size - 1, 1 + weights.size), np.int64)

    def add(number: int, first_query: int, last_query: int) -> None:
        _queries(features, weights, pairs, loss == "hinge", unit, longest, first_query, last_query,
                 totals[number])  # fmt: skip

    run_ranges(add, ranges)
    sums: np.ndarray = totals.sum(axis=0)
    return sums
