"""Segments with little data shrink towards the estimate over all traffic (empirical Bayes).

log theta of a segment differs from that of all traffic by d ~ N(0, T). T has three parts: another
exponent of the curve and a random walk in log position (both tau^2), and independent differences
(nu^2). tau and nu come from the scatter of the segments beyond their errors, by their restricted
likelihood on a grid (docs/methods.md section 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ulr.propensity.curve import ThetaCurve

# Each of tau and nu is 0 with prior probability one half.
TAU = np.array([0.0, *0.01 * 2.0 ** np.arange(7)])
NU = np.array([0.0, *0.01 * 2.0 ** np.arange(6)])
FLOOR = 1e-12  # added to variances before an inversion


@dataclass(frozen=True)
class _Own:
    """Positions (index from 0) that a segment and all traffic have an estimate of, without the
    first; log theta and its covariance in the segment; the segment's share of all clicks.
    """

    at: np.ndarray
    log_theta: np.ndarray
    covariance: np.ndarray
    share: float


def shrink(curves: Sequence[ThetaCurve], pooled: ThetaCurve) -> list[ThetaCurve]:
    """Return the posterior curve of every segment; it has an estimate wherever `pooled` has one.

    A position without an estimate of its own follows from the segment's other positions and all
    traffic, and its source is `pooled`. `own_weight` keeps the matrix of the shrinkage.
    """
    own = [_own_data(curve, pooled) for curve in curves]
    priors, log_prior = _priors(pooled.positions)
    log_posterior = log_prior + _restricted_likelihood(own, priors)
    probability = np.exp(log_posterior - log_posterior.max())
    probability /= probability.sum()
    shares = np.array([segment.share for segment in own])
    rest = max(1 - shares.sum(), 0.0)  # pages without a segment
    squares = shares @ shares + rest**2
    # Var(d) in units of T: all traffic is the mean of the segments by their shares.
    spread = squares - shares**2 + (1 - shares) ** 2
    return [
        _posterior(curve, pooled, segment, factor * priors, probability)
        for curve, segment, factor in zip(curves, own, spread, strict=True)
    ]


def own_share(own_weight: np.ndarray) -> np.ndarray:
    """Return how much of a difference in the exponent each position keeps: (K,), NaN for the first.

    It is 1 if the segment's own data decide, and 0 if all traffic does.
    """
    log_position = np.log(np.arange(1, len(own_weight) + 1))
    with np.errstate(invalid="ignore"):
        return np.clip(own_weight @ log_position / log_position, 0, 1)


def _own_data(curve: ThetaCurve, pooled: ThetaCurve) -> _Own:
    at = np.flatnonzero(~np.isnan(curve.theta[1:]) & ~np.isnan(pooled.theta[1:])) + 1
    covariance = curve.covariance[np.ix_(at, at)]
    # A covariance from few blocks is shrunk towards its diagonal, so that it can be inverted.
    towards = at.size / (at.size + curve.dof)
    covariance = (1 - towards) * covariance + np.diag(towards * np.diag(covariance) + FLOOR)
    share = curve.support.sum() / max(int(pooled.support.sum()), 1)
    return _Own(at, np.log(curve.theta[at]), covariance, min(float(share), 1.0))


def _priors(positions: int) -> tuple[np.ndarray, np.ndarray]:
    """Return T of every pair of TAU and NU: (pairs, K, K), and the log of its probability."""
    log_position = np.log(np.arange(1, positions + 1))
    smooth = np.outer(log_position, log_position) + np.minimum(log_position, log_position[:, None])
    rough = np.diag(log_position > 0).astype(float)  # position 1 has no error
    tau, nu = (x.ravel() for x in np.meshgrid(TAU, NU))
    probability = np.where(tau, 0.5 / (TAU.size - 1), 0.5) * np.where(nu, 0.5 / (NU.size - 1), 0.5)
    return (tau**2)[:, None, None] * smooth + (nu**2)[:, None, None] * rough, np.log(probability)


def _restricted_likelihood(own: Sequence[_Own], priors: np.ndarray) -> np.ndarray:
    """Return the log likelihood of each prior; the common curve of the segments is integrated out.

    With fewer than two segments nothing is known about the prior: all values are equal.
    """
    information, score = np.zeros_like(priors), np.zeros(priors.shape[:2])
    value = np.zeros(len(priors))
    for segment in own:
        block = np.ix_(np.arange(len(priors)), segment.at, segment.at)
        variance = priors[block] + segment.covariance
        inverse = np.linalg.inv(variance)
        weighted = inverse @ segment.log_theta
        information[block] += inverse
        score[:, segment.at] += weighted
        value -= np.linalg.slogdet(variance)[1] + weighted @ segment.log_theta
    seen = np.flatnonzero(np.diag(information[0]))
    information = information[np.ix_(np.arange(len(priors)), seen, seen)]
    score = score[:, seen, None]
    value += np.sum(score * np.linalg.solve(information, score), axis=(1, 2))
    return (value - np.linalg.slogdet(information)[1]) / 2


def _posterior(
    curve: ThetaCurve, pooled: ThetaCurve, own: _Own, priors: np.ndarray, probability: np.ndarray
) -> ThetaCurve:
    """Return the mean over the priors of x_pooled + A (x_own - x_pooled), with its covariance.

    All traffic contains the segment, so Var(x_own - x_pooled) = T + C_own - C_pooled.
    """
    at = own.at
    beyond = _nonnegative(own.covariance - pooled.covariance[np.ix_(at, at)])
    variance = priors[:, at[:, None], at] + beyond + FLOOR * np.eye(at.size)
    weights = np.swapaxes(np.linalg.solve(variance, priors[:, at, :]), 1, 2)
    difference = weights @ (own.log_theta - np.log(pooled.theta[at]))
    mean = probability @ difference
    covariance = pooled.covariance + np.tensordot(probability, priors - weights @ priors[:, at], 1)
    covariance += (difference - mean).T * probability @ (difference - mean)
    own_weight = np.zeros_like(covariance)
    own_weight[:, at] = np.tensordot(probability, weights, 1)
    share = own_share(own_weight)
    missing = np.isnan(curve.theta)
    source, note = list(pooled.source), list(pooled.note)
    for i in np.flatnonzero(~np.isnan(pooled.theta)):
        source[i] = "pooled" if missing[i] else curve.source[i]
        note[i] = curve.note[i] if i == 0 else _note(curve.note[i], share[i], missing[i])
    return replace(
        curve, theta=pooled.theta * np.exp(mean), covariance=covariance, source=source, note=note,
        own_weight=own_weight, dof=min(curve.dof, pooled.dof),
    )  # fmt: skip


def _note(own: str, share: float, missing: bool) -> str:
    if missing:
        return (
            "estimate over all traffic and this segment's other positions, which have "
            f"{share:.0%} of the weight; this position: {own}"
        )
    weight = f"own data has {share:.0%} of the weight"
    return f"{own}; {weight}" if own else weight


def _nonnegative(matrix: np.ndarray) -> np.ndarray:
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.maximum(values, 0) @ vectors.T)
