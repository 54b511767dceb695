"""theta by position: estimates with errors, and the reason where a position has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy  # loads scipy.optimize, which takes 0.3 s, when it is used
from scipy.special import stdtrit

from ulr.propensity.covariance import mixed_covariance

ESTIMATED = "estimated"
IMPUTED = "imputed"  # the source of a theta that is not an estimate
HARVESTED = "harvested"  # from rank changes, on a curve that is otherwise from swaps


@dataclass(frozen=True)
class RelevanceFit:
    """How regression-EM predicted relevance.

    slope: of relevance on its prediction before calibration, NaN without features. rounds: done.
    ignored: documents without features, and their impressions; they are not among the others.
    """

    slope: float
    rounds: int
    documents: int
    ignored_documents: int
    impressions: float
    ignored_impressions: float


@dataclass(frozen=True)
class ThetaCurve:
    """theta relative to position 1. Arrays are indexed by position - 1, NaN without an estimate.

    covariance  (K, K), of log theta
    support     (K,) int64, clicks behind the estimate
    source      estimated, harvested, pooled, given, imputed or insufficient; note: the reason
    components  positions that comparisons link
    misfit      chi-square statistic of the comparisons and its degrees of freedom
    dof         degrees of freedom of the covariance: jackknife blocks less one, else infinite
    own_weight  (K, K) or None: of a segment, log theta = A x_own + (I - A) x_pooled before
                smoothing and imputing; None is the identity
    affine_covariance  (2 K, 2 K), of log theta and then beta; of a segment, of x_own
    forward     (K, K) or None: log theta with imputed positions, by that of estimated ones
    relevance   of regression-EM only
    """

    estimator: str
    theta: np.ndarray
    covariance: np.ndarray
    support: np.ndarray
    source: list[str]
    note: list[str]
    components: list[list[int]] = field(default_factory=list)
    misfit: tuple[float, int] | None = None
    alpha: np.ndarray | None = None
    beta: np.ndarray | None = None
    dof: float = np.inf
    own_weight: np.ndarray | None = None
    affine_covariance: np.ndarray | None = None
    forward: np.ndarray | None = None
    relevance: RelevanceFit | None = None

    @property
    def positions(self) -> int:
        """The deepest position of the curve."""
        return self.theta.size

    @property
    def standard_error(self) -> np.ndarray:
        """Standard error of theta, by the delta method."""
        return self.theta * np.sqrt(np.diag(self.covariance))

    @property
    def t_quantile(self) -> float:
        """Half width of a 95% interval in standard errors."""
        return float(stdtrit(self.dof, 0.975))

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the 95% bounds; they are symmetric on the log scale, so both are positive."""
        factor = np.exp(self.t_quantile * np.sqrt(np.diag(self.covariance)))
        return self.theta / factor, self.theta * factor


def make_curve(
    estimator: str,
    theta: np.ndarray,
    covariance: np.ndarray,
    support: np.ndarray,
    reasons: Mapping[int, str],
    **more: Any,
) -> ThetaCurve:
    """Return a curve without the positions in `reasons`, which says why each has no estimate."""
    missing = [position - 1 for position in reasons]
    theta, covariance = theta.copy(), covariance.copy()
    theta[missing] = np.nan
    covariance[missing, :] = covariance[:, missing] = np.nan
    positions = range(1, theta.size + 1)
    source = ["insufficient" if p in reasons else ESTIMATED for p in positions]
    note = [reasons.get(p, "") for p in positions]
    return ThetaCurve(estimator, theta, covariance, support, source, note, **more)


def jackknife(without: np.ndarray) -> np.ndarray:
    """Return the covariance of an estimate from its values without each block: (blocks, values)."""
    blocks = len(without)
    centred = without - without.mean(axis=0)
    return centred.T @ centred * (blocks - 1) / blocks


def monotone(curve: ThetaCurve) -> ThetaCurve:
    """Return the isotonic regression of log theta, weighted by inverse variances.

    Position 1 has no error, so it keeps its value. Standard errors are those before smoothing.
    """
    known = np.flatnonzero(~np.isnan(curve.theta))
    variance = np.maximum(np.diag(curve.covariance)[known], 1e-12)
    log_theta = np.log(curve.theta[known])
    theta = curve.theta.copy()
    smooth = scipy.optimize.isotonic_regression
    theta[known] = np.exp(smooth(log_theta, weights=1 / variance, increasing=False).x)
    note = list(curve.note)
    for i in known:
        if abs(theta[i] / curve.theta[i] - 1) > 1e-9:
            details = f"; {note[i]}" if note[i] else ""
            note[i] = f"smoothed from {curve.theta[i]:.4f}{details}"
    return replace(curve, theta=theta, note=note)


def fall_back(curve: ThetaCurve, pooled: ThetaCurve) -> ThetaCurve:
    """Replace the missing positions of a segment by the estimate over all traffic.

    This is for `affine`, whose slopes and intercepts cannot be shrunk apart. The source of these
    positions becomes `pooled`. `propensity/covariance.py` relates their errors.
    """
    missing = np.isnan(curve.theta) & ~np.isnan(pooled.theta)

    def merged(own: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
        return own if own is None or other is None else np.where(missing, other, own)

    own_weight = np.diag(np.where(missing, 0.0, 1.0))
    covariance = mixed_covariance(curve.covariance, pooled.covariance, own_weight)
    unknown = np.isnan(curve.theta) & ~missing
    covariance[unknown, :] = covariance[:, unknown] = np.nan
    source, note = list(curve.source), list(curve.note)
    for i in np.flatnonzero(missing):
        source[i], note[i] = "pooled", f"estimate over all traffic; this segment: {note[i]}"
    return replace(
        curve,
        theta=np.where(missing, pooled.theta, curve.theta),
        covariance=covariance,
        source=source,
        note=note,
        own_weight=own_weight,
        alpha=merged(curve.alpha, pooled.alpha),
        beta=merged(curve.beta, pooled.beta),
    )
