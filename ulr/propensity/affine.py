"""Trust bias: P(click at k) = alpha_k R + beta_k (docs/methods.md section 3.8).

In a bucket 1:k a document has rate x at position 1 and y = slope x + intercept at position k, with
slope = alpha_k / alpha_1 and intercept = beta_k - slope beta_1. Noise in x would bias the slope of
an ordinary regression, so the normal equations are built from factorial moments of x.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.experiments.buckets import parse_bucket
from ulr.propensity.curve import ThetaCurve, jackknife, make_curve

MOMENTS = ("x0", "x1", "x2", "x3", "x4", "x0y", "x1y", "x2y")  # weighted sums of x^p and x^p y
MIN_BLOCKS = 3


@dataclass(frozen=True)
class Regression:
    """y = intercept + slope x, and the curvature of a parabola; dof: of the standard errors.

    covariance: of slope and intercept.
    """

    position: int
    documents: int
    slope: float
    intercept: float
    curvature: float
    slope_error: float
    intercept_error: float
    curvature_error: float
    dof: float = np.inf
    covariance: float = 0.0


def regressions(moments: pa.Table) -> list[Regression]:
    """Return one regression per bucket 1:k of `moments_schema` rows, ordered by position."""
    fits = []
    for name in pc.unique(moments["bucket"]).to_pylist():
        bucket, rows = parse_bucket(name), moments.filter(pc.equal(moments["bucket"], name))
        if bucket.target == (1,) and len(pc.unique(rows["block"])) >= MIN_BLOCKS:
            fits.append(_regress(bucket.source[0], rows))
    return sorted(fits, key=lambda fit: fit.position)


def _regress(position: int, rows: pa.Table) -> Regression:
    blocks, block = np.unique(rows["block"].to_numpy(), return_inverse=True)
    sums = np.zeros((blocks.size, len(MOMENTS)))
    np.add.at(sums, block, np.stack([rows[name].to_numpy() for name in MOMENTS], axis=1))
    total = sums.sum(axis=0)
    covariance = jackknife(np.array([_fit(total - own) for own in sums]))
    slope, intercept, curvature = np.sqrt(np.diag(covariance)).tolist()
    return Regression(
        position, pc.sum(rows["documents"]).as_py(), *_fit(total), slope, intercept, curvature,
        blocks.size - 1, float(covariance[0, 1]),
    )  # fmt: skip


def _fit(moments: np.ndarray) -> tuple[float, float, float]:
    """Return slope and intercept of the line, and the curvature of the parabola."""
    x, y = moments[:5], moments[5:]
    line = np.linalg.lstsq(np.array([x[0:2], x[1:3]]), y[:2], rcond=None)[0]
    parabola = np.linalg.lstsq(np.array([x[0:3], x[1:4], x[2:5]]), y, rcond=None)[0]
    return float(line[1]), float(line[0]), float(parabola[2])


def affine_curve(
    fits: list[Regression], positions: int, *, beta_1: float, theta_1: float = 1.0
) -> ThetaCurve:
    """Return alpha, beta and theta(k) = alpha_k / alpha_1.

    Clicks cannot separate beta_1 from relevance, so it is a setting. A relevant document at
    position 1 is clicked if it is examined, so alpha_1 + beta_1 = theta_1.
    """
    alpha, beta = np.full(positions, np.nan), np.full(positions, np.nan)
    variance, support = np.full(positions, np.nan), np.zeros(positions, np.int64)
    alpha[0], beta[0], variance[0] = theta_1 - beta_1, beta_1, 0.0
    reasons = {
        k: f"no bucket 1:{k} with enough documents shown at both positions"
        for k in range(2, positions + 1)
    }
    notes = {}
    joint = np.zeros((2 * positions, 2 * positions))
    for fit in fits:
        if fit.position > positions:
            continue
        i = fit.position - 1
        support[i] = fit.documents
        if fit.slope <= 2 * fit.slope_error:
            reasons[fit.position] = (
                f"slope {fit.slope:.3f}, standard error {fit.slope_error:.3f} over "
                f"{fit.documents:,} documents; more than two standard errors needed"
            )
            continue
        alpha[i] = fit.slope * alpha[0]
        beta[i] = fit.intercept + fit.slope * beta_1
        at = np.ix_([i, positions + i], [i, positions + i])
        joint[at] = _log_slope_and_beta(fit, beta_1)
        variance[i] = joint[i, i]
        del reasons[fit.position]
        notes[i] = f"standard error of the intercept {fit.intercept_error:.5f}"
    curve = make_curve(
        "affine", alpha / alpha[0], np.diag(variance), support, reasons, alpha=alpha, beta=beta,
        dof=min((fit.dof for fit in fits), default=np.inf), affine_covariance=joint,
    )  # fmt: skip
    return replace(curve, note=[notes.get(i, note) for i, note in enumerate(curve.note)])


def _log_slope_and_beta(fit: Regression, beta_1: float) -> np.ndarray:
    """Return the covariance (2, 2) of log slope and of beta = intercept + slope beta_1."""
    of_line = np.array(
        [[fit.slope_error**2, fit.covariance], [fit.covariance, fit.intercept_error**2]]
    )
    jacobian = np.array([[1 / fit.slope, 0.0], [beta_1, 1.0]])
    result: np.ndarray = jacobian @ of_line @ jacobian.T
    return result
