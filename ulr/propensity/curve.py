"""An estimated curve: values with standard errors and intervals, or reasons for having none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from ulr.propensity.least_squares import Solution


@dataclass(frozen=True)
class Curve:
    """theta by position; arrays are indexed by position - 1 and NaN where it was refused.

    covariance: of log theta. support: clicks that bear on each position. source: measured,
    pooled, filled, given or refused. alpha, beta: only from the affine estimator. freedom: degrees
    of freedom of the covariance: one less than the blocks that were left out to get it, if any.
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
    freedom: float = np.inf

    @property
    def positions(self) -> int:
        """How far down the curve goes."""
        return self.theta.size

    @property
    def standard_error(self) -> np.ndarray:
        """By the delta method, from the log scale."""
        return self.theta * np.sqrt(np.diag(self.covariance))

    @property
    def reach(self) -> float:
        """Standard errors from the value to either end of a 95% interval."""
        return float(stats.t.ppf(0.975, self.freedom))

    def interval(self) -> tuple[np.ndarray, np.ndarray]:
        """95% bounds, symmetric on the log scale so that they stay positive."""
        factor = np.exp(self.reach * np.sqrt(np.diag(self.covariance)))
        return self.theta / factor, self.theta * factor


def curve_of(solution: Solution, positions: int, estimator: str) -> Curve:
    """Positions 1..n from a solution anchored at position 1."""
    theta = np.full(positions, np.nan)
    covariance = np.full((positions, positions), np.nan)
    index = np.array(solution.nodes) - 1
    theta[index] = np.exp(solution.log_value)
    covariance[np.ix_(index, index)] = solution.covariance
    places = range(1, positions + 1)
    return Curve(
        estimator,
        theta,
        covariance,
        np.array([solution.support[p] for p in places]),
        ["insufficient" if p in solution.refused else "estimated" for p in places],
        [solution.refused.get(p, "") for p in places],
        [list(c) for c in solution.components],
        (solution.misfit, solution.freedom),
    )


def monotone(curve: Curve) -> Curve:
    """The closest curve that never rises: isotonic regression on the log scale.

    Weights are inverse variances; position 1 is exact, so it keeps its value. Standard errors are
    left as they were measured.
    """
    known = np.flatnonzero(~np.isnan(curve.theta))
    variance = np.maximum(np.diag(curve.covariance)[known], 1e-12)
    smooth = np.exp(-_rising(-np.log(curve.theta[known]), 1 / variance))
    theta = curve.theta.copy()
    theta[known] = smooth
    note = list(curve.note)
    for i in known:
        if abs(theta[i] / curve.theta[i] - 1) > 1e-9:
            why = f"; {note[i]}" if note[i] else ""
            note[i] = f"smoothed from {curve.theta[i]:.4f}{why}"
    return replace(curve, theta=theta, note=note)


def _rising(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Pool adjacent violators: the weighted least-squares fit that never falls."""
    blocks: list[list[float]] = []
    for value, w in zip(y.tolist(), weight.tolist(), strict=True):
        blocks.append([value, w, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            b, a = blocks.pop(), blocks.pop()
            total = a[1] + b[1]
            blocks.append([(a[0] * a[1] + b[0] * b[1]) / total, total, a[2] + b[2]])
    return np.concatenate([np.full(int(n), value) for value, _, n in blocks])
