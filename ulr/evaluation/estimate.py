"""From the totals of a metric to its value and interval (docs/methods.md section 7.4).

    r = sum x / sum w,    h = w / sum w,    S_m = sum h^m
    Var r = [sum (x - r w)^2 / (sum w)^2]  S_2 / (S_2 - 2 S_3 + S_2^2)  +  g' C g

The first term is the variance of a ratio with whole queries as clusters (Cochran 1977, chapters 2
and 6). A query with much of the weight pulls r towards itself, so that its residual is too small;
the last factor corrects this. It is exact if the variance of x - r w is proportional to w^2, and
n / (n - 1) for equal w. The term has S_4^(-1/3) - 1 degrees of freedom, n - 1 for equal w.

The second term is the error of the propensities: C is its covariance and g the gradient of r.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit  # scipy.stats takes half a second to import

CONFIDENCE = 0.95
TINY = float(np.finfo(float).tiny)


class Estimate(NamedTuple):
    """A value with its standard error, 95% interval, p-value against 0, and number of queries.

    propensity_error: the part of the standard error that the propensities cause. dof: degrees of
    freedom of the interval.
    """

    value: float
    standard_error: float
    lower: float
    upper: float
    p_value: float
    queries: int
    propensity_error: float = 0.0
    dof: float = np.inf


def finish(sums: np.ndarray, scatter: np.ndarray | None = None) -> Estimate | None:
    """Turn totals into an estimate: None without weight, an infinite interval for one query.

    sums: queries with w != 0, then sums of x, w, x^2, x w, w^2, w^3 and w^4. scatter: (2, 2), the
    covariance of sum x and sum w by the error of the propensities.
    """
    n, x, w = sums[:3]
    if w == 0:
        return None
    value = float(x / w)
    if n < 2:
        return Estimate(value, np.inf, -np.inf, np.inf, 1.0, int(n))
    of_queries, dof = _query_variance(sums)
    direction = np.array([1.0, -value]) / w
    of_propensities = 0.0 if scatter is None else max(0.0, float(direction @ scatter @ direction))
    variance = of_queries + of_propensities
    if of_queries > 0:  # Satterthwaite; the degrees of freedom of the propensities are unknown
        dof *= (variance / of_queries) ** 2
    error = float(np.sqrt(variance))
    reach = float(stdtrit(dof, (1 + CONFIDENCE) / 2)) * error
    return Estimate(
        value, error, value - reach, value + reach, _p_value(value, error, dof), int(n),
        float(np.sqrt(of_propensities)), float(dof),
    )  # fmt: skip


def _query_variance(sums: np.ndarray) -> tuple[float, float]:
    """Return the variance of the ratio between queries, and its degrees of freedom."""
    _, x, w, xx, xw, ww, w3, w4 = sums
    value = x / w
    # Rounding can leave a tiny negative number where every query agrees.
    scatter = max(0.0, xx - 2 * value * xw + value**2 * ww) / w**2
    s2, s3, s4 = ww / w**2, w3 / w**3, w4 / w**4
    kept = max(s2 - 2 * s3 + s2**2, TINY)  # 0 if a single query has all the weight
    return float(scatter * s2 / kept), max(float(s4 ** (-1 / 3)) - 1, 1.0)


def _p_value(value: float, error: float, dof: float) -> float:
    if error == 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * stdtr(dof, -abs(value) / error))
