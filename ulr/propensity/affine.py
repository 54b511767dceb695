"""Trust bias: P(click at k) = alpha_k R + beta_k (Oosterhuis 2022 eq. 5, Vardasbi et al. 2020).

In a bucket 1:k every document has a rate x at 1 and y at k, and y = slope x + intercept, with
slope = alpha_k / alpha_1 and intercept = beta_k - slope beta_1. The observed x is noisy, which
would flatten an ordinary regression; sums of factorial moments are unbiased for sums of powers of
the true rate, and noise in x and y is independent, so the normal equations built from them are
those of the noiseless regression. A quadratic term that does not vanish means: not affine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.experiments.buckets import parse_bucket
from ulr.propensity.curve import Curve


@dataclass(frozen=True)
class Regression:
    """y = intercept + slope x (+ curvature x^2 when asked), with standard errors, which have the
    freedom of the blocks that they come from."""

    position: int
    documents: int
    slope: float
    intercept: float
    curvature: float
    slope_error: float
    intercept_error: float
    curvature_error: float
    freedom: float = np.inf


def regressions(moments: pa.Table) -> list[Regression]:
    """One per bucket 1:k of `moments_schema` rows, by position; errors by jackknife over blocks."""
    rows = moments.to_pylist()
    found = []
    for name in {r["bucket"] for r in rows}:
        positions = parse_bucket(name).positions
        if len(positions) == 2 and positions[0] == 1 and parse_bucket(name).target == (1,):
            found.append(_regress(positions[1], [r for r in rows if r["bucket"] == name]))
    return sorted((r for r in found if r is not None), key=lambda r: r.position)


def _regress(position: int, blocks: list[dict]) -> Regression | None:
    numbers = sorted({b["block"] for b in blocks})  # segments of one block of queries add up
    x, y = np.zeros((len(numbers), 5)), np.zeros((len(numbers), 3))
    for b in blocks:
        at = numbers.index(b["block"])
        x[at] += [b[f"x{p}"] for p in range(5)]
        y[at] += [b[f"x{p}y"] for p in range(3)]
    n = len(numbers)
    if n < 3:
        return None
    whole = _fit(x.sum(axis=0), y.sum(axis=0))
    without = np.array(
        [_fit(x.sum(axis=0) - a, y.sum(axis=0) - b) for a, b in zip(x, y, strict=True)]
    )
    error = np.sqrt(((without - without.mean(axis=0)) ** 2).sum(axis=0) * (n - 1) / n)
    documents = sum(b["documents"] for b in blocks)
    intercept, slope, curvature = whole
    return Regression(
        position, documents, slope, intercept, curvature, error[1], error[0], error[2], n - 1
    )


def _fit(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Intercept and slope of the line; curvature of the parabola. x, y: summed moments."""
    line = np.linalg.lstsq(np.array([[x[0], x[1]], [x[1], x[2]]]), y[:2], rcond=None)[0]
    square = np.array([x[0:3], x[1:4], x[2:5]])
    bend = np.linalg.lstsq(square, y, rcond=None)[0]
    return float(line[0]), float(line[1]), float(bend[2])


def affine_curve(fits: list[Regression], positions: int, *, beta_1: float) -> Curve:
    """alpha and beta on the scale where a document's rate at position 1 is its relevance.

    Rates at position 1 cannot tell beta_1 from relevance, so it is given: alpha_1 = 1 - beta_1.
    theta is alpha_k / alpha_1.
    """
    alpha, beta = np.full(positions, np.nan), np.full(positions, np.nan)
    variance, support = np.full(positions, np.nan), np.zeros(positions, np.int64)
    alpha[0], beta[0], variance[0] = 1 - beta_1, beta_1, 0.0
    source, note = ["estimated"] + ["insufficient"] * (positions - 1), [""] * positions
    note[1:] = [
        f"no bucket 1:{k} with documents seen often enough" for k in range(2, positions + 1)
    ]
    for fit in fits:
        i = fit.position - 1
        if i >= positions:
            continue
        support[i] = fit.documents
        if fit.slope <= 2 * fit.slope_error:
            note[i] = (
                f"slope {fit.slope:.3f} +- {fit.slope_error:.3f} over {fit.documents:,} documents"
            )
            continue
        alpha[i] = fit.slope * (1 - beta_1)
        beta[i] = fit.intercept + fit.slope * beta_1
        variance[i] = (fit.slope_error / fit.slope) ** 2
        source[i], note[i] = "estimated", f"intercept error {fit.intercept_error:.5f}"
    covariance = np.where(np.eye(positions, dtype=bool), variance, 0.0)
    theta = alpha / alpha[0]
    freedom = min((fit.freedom for fit in fits), default=np.inf)
    return Curve(
        "affine", theta, covariance, support, source, note, alpha=alpha, beta=beta, freedom=freedom
    )
