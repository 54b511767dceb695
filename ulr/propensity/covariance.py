"""Covariances of log theta between positions and curves (docs/methods.md section 3.3).

A segment's curve is A x_own + (I - A) x_pooled on the log scale, where A is `own_weight` of its
curve. The estimate over all traffic is nearly the mean of the segments' own estimates, weighted by
their information. Therefore Cov(x_own, x_pooled) = Cov(x_pooled) = C, and the own estimates of two
segments are independent: a segment has the covariance C with all traffic, and C - A C B' with a
segment whose weights are B. Imputed positions are functions of the others, `forward`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ulr.propensity.components import Pair

if TYPE_CHECKING:
    from ulr.propensity.curve import ThetaCurve
    from ulr.propensity.least_squares import Solution


def mixed_covariance(own: np.ndarray, pooled: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the covariance of A x_own + (I - A) x_pooled; all arguments are (K, K).

    NaN in `own` and `pooled` belongs to positions without an estimate and counts as 0.
    """
    own, pooled = np.nan_to_num(own), np.nan_to_num(pooled)
    return weight @ (own - pooled) @ weight.T + pooled


def log_theta_covariance(curves: Sequence[ThetaCurve]) -> np.ndarray:
    """Return the covariance of log theta of all curves: (curves K, curves K), curve after curve.

    The first curve is that of all traffic. Positions without an estimate have zeros.
    """
    size = curves[0].positions
    forward = [np.eye(size) if c.forward is None else c.forward for c in curves]
    imputed: np.ndarray = np.all(forward[0] == 0, axis=0)
    common = np.where(imputed | imputed[:, None], 0.0, np.nan_to_num(curves[0].covariance))
    weights = [np.zeros((size, size)), *map(_weight, curves[1:])]  # all traffic is x_pooled
    blocks = [
        [
            np.nan_to_num(curves[s].covariance)
            if s == t
            else forward[s] @ (common - weights[s] @ common @ weights[t].T) @ forward[t].T
            for t in range(len(curves))
        ]
        for s in range(len(curves))
    ]
    return np.block(blocks)


def affine_covariance(curves: Sequence[ThetaCurve]) -> np.ndarray | None:
    """Return the covariance of (log theta, beta) of all curves, or None without beta.

    The shape is (curves 2 K, curves 2 K): per curve log theta of all positions, then beta.
    """
    blocks = [curve.affine_covariance for curve in curves]
    known = [np.nan_to_num(block) for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    weights = [np.kron(np.eye(2), _weight(curve)) for curve in curves[1:]]
    return _mix(known[1:], known[0], weights)


def psi_covariance(pairs: Sequence[Pair], solution: Solution[Pair] | None) -> np.ndarray:
    """Return the covariance of log psi(k, l) / psi(1, 2) of the pairs, 0 where it is not estimated.

    The error of psi(1, 2), which all pairs share, is not in it.
    """
    covariance = np.zeros((len(pairs), len(pairs)))
    if solution is not None:
        place = {pair: n for n, pair in enumerate(solution.nodes)}
        index = [(n, place[pair]) for n, pair in enumerate(pairs) if pair in place]
        if index:
            to, of = (np.array(side) for side in zip(*index, strict=True))
            covariance[np.ix_(to, to)] = solution.covariance[np.ix_(of, of)]
    return covariance


def _weight(curve: ThetaCurve) -> np.ndarray:
    return np.eye(curve.positions) if curve.own_weight is None else curve.own_weight


def _mix(
    own: Sequence[np.ndarray], pooled: np.ndarray, weights: Sequence[np.ndarray]
) -> np.ndarray:
    """Return F S F', where S is the covariance of (x_pooled, x_own, ...) and F has the weights."""
    size, curves = len(pooled), 1 + len(own)
    s, f = np.zeros((2, curves, size, curves, size))
    s[0, :, 0], f[0, :, 0] = pooled, np.eye(size)
    for n, (covariance, weight) in enumerate(zip(own, weights, strict=True), start=1):
        s[n, :, n] = covariance
        s[0, :, n] = s[n, :, 0] = pooled
        f[n, :, n], f[n, :, 0] = weight, np.eye(size) - weight
    flat = (curves * size, curves * size)
    return f.reshape(flat) @ s.reshape(flat) @ f.reshape(flat).T
