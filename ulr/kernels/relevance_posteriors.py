"""Posteriors of relevance by the trapezoid rule in logit r (docs/methods.md section 7.7).

The density is analytic, so the rule is exact to rounding for the whole integral, with a few points
per standard deviation. Where the likelihood is constant or a power of r, below the first point, the
integral is known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.relevance import (
    ShownCounts,
    derivatives,
    find_mode,
    left_end,
    log_density,
    log_likelihood_at_1,
    log_sigmoid,
)

_DROP = 30.0  # log density below the mode at which the integral ends
_POINTS = 16_384


class RelevancePosteriors(NamedTuple):
    """The posterior of each document; all arrays are float64.

    Per document: mean of r, lower and upper quantile of x = logit r (inf: r = 1), log_evidence (the
    logarithm of the integral of prior times likelihood), one (the probability of r = 1), log_r and
    log_1_r (the means of log r and log(1 - r) where r < 1). Per entry of the counts: the
    derivatives of the mode of x by log alpha and by beta, times the probability of r < 1.
    """

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_evidence: np.ndarray
    one: np.ndarray
    log_r: np.ndarray
    log_1_r: np.ndarray
    by_log_alpha: np.ndarray
    by_beta: np.ndarray


class _Grid(NamedTuple):
    """Density, its derivative and its integral at points of x, float64."""

    weight: np.ndarray
    slope: np.ndarray
    total: np.ndarray


@kernel()
def _place(low: float, high: float, rise_low: float, rise_high: float, target: float) -> float:
    """Return where, from 0 to 1, a cubic with these values and slopes at both ends is `target`."""
    left, right = 0.0, 1.0
    for _ in range(40):
        t = (left + right) / 2
        s = 1 - t
        value = (
            low * s * s * (1 + 2 * t) + high * t * t * (3 - 2 * t)
            + rise_low * t * s * s - rise_high * t * t * s
        )  # fmt: skip
        if value < target:
            left = t
        else:
            right = t
    return (left + right) / 2


@kernel()
def _fill(
    shown: ShownCounts, d: int, a: float, b: float, grid: _Grid, fineness: float
) -> tuple[float, float, float, float, int]:
    """Fill the grid with the density, 1 at its mode.

    Returns the log density at the mode, the first point, the distance of points, the integral below
    the first point as a multiple of its density, and the number of points.
    """
    mode, second = find_mode(shown, d, a, b)
    h = min(fineness / math.sqrt(-second), max(0.25, 0.5 * fineness))
    peak = log_density(shown, d, a, b, mode)
    end, clicks = left_end(shown, d)
    start = mode
    for _ in range(_POINTS // 2):
        if start < end or log_density(shown, d, a, b, start) < peak - _DROP:
            break
        start -= h
    n = 0
    while n < _POINTS:
        x = start + n * h
        value = log_density(shown, d, a, b, x) - peak
        if x > mode and value < -_DROP:
            break
        grid.weight[n] = math.exp(value)
        grid.slope[n] = grid.weight[n] * derivatives(shown, d, a, b, x)[0]
        n += 1
    return peak, start, h, 1 / (a + clicks), n


@kernel()
def _integrate(
    grid: _Grid, start: float, h: float, tail: float, n: int
) -> tuple[float, float, float, float]:
    """Return the integrals of the density times 1, r, log r and log(1 - r).

    grid.total becomes the first integral up to each point. The term h^2 / 12 corrects the trapezoid
    rule for the slope at its ends. tail: see `_fill`.
    """
    below, correction = grid.weight[0] * tail, h * h / 12
    r, q = 1 / (1 + math.exp(-start)), 1 / (1 + math.exp(start))
    log_r, log_q = log_sigmoid(start), log_sigmoid(-start)
    total = below + correction * grid.slope[0]
    by_r = below * r / (1 + tail) + correction * (grid.slope[0] * r + grid.weight[0] * r * q)
    by_log_r = below * (start - tail) + correction * (grid.slope[0] * log_r + grid.weight[0] * q)
    by_log_q = correction * grid.slope[0] * log_q
    for j in range(n):
        x = start + j * h
        share = h * grid.weight[j] * (0.5 if j == 0 else 1.0)
        grid.total[j] = total + (share / 2 if j else 0.0) - correction * grid.slope[j]
        total += share
        by_r += share / (1 + math.exp(-x))
        by_log_r += share * log_sigmoid(x)
        by_log_q += share * log_sigmoid(-x)
    return total, by_r, by_log_r, by_log_q


@kernel()
def _quantile(grid: _Grid, start: float, h: float, tail: float, n: int, target: float) -> float:
    """Return the x below which the integral is `target`."""
    below = grid.weight[0] * tail
    if target <= below:
        return start + tail * math.log(target / below)
    j = min(max(int(np.searchsorted(grid.total[:n], target)), 1), n - 1)
    rise_low, rise_high = h * grid.weight[j - 1], h * grid.weight[j]
    place = _place(grid.total[j - 1], grid.total[j], rise_low, rise_high, target)
    return start + (j - 1 + place) * h


@kernel()
def _sensitivity(
    shown: ShownCounts, d: int, a: float, b: float, share: float,
    by_log_alpha: np.ndarray, by_beta: np.ndarray,
) -> None:  # fmt: skip
    """Write the derivatives of the mode by log alpha and beta of each entry, times `share`."""
    mode, second = find_mode(shown, d, a, b)
    r, q = 1 / (1 + math.exp(-mode)), 1 / (1 + math.exp(mode))
    for i in range(shown.offsets[d], shown.offsets[d + 1]):
        alpha, beta = shown.alpha[i], shown.beta[i]
        hit = alpha * r + beta
        miss = max(1 - alpha - beta, 0.0) + alpha * q
        per_click = shown.clicks[i] * alpha * r * q / (hit * hit)
        per_rest = (shown.sessions[i] - shown.clicks[i]) * alpha * r * q / (miss * miss)
        by_log_alpha[i] = share * (per_click * beta - per_rest * (1 - beta)) / -second
        by_beta[i] = share * (-per_click - per_rest) / -second


@kernel()
def _chance_of_1(shown: ShownCounts, d: int, one: float, log_evidence: float) -> float:
    """Return the posterior probability of r = 1. log_evidence: where r < 1."""
    if one <= 0:
        return 0.0
    odds = math.log(one / (1 - one)) + log_likelihood_at_1(shown, d) - log_evidence
    return math.exp(log_sigmoid(odds)) if odds > -700 else 0.0


@kernel()
def relevance_posteriors(
    shown: ShownCounts, a: np.ndarray, b: np.ndarray, one: float, tail: float, fineness: float
) -> RelevancePosteriors:
    """Return the posteriors of documents: r is 1 with prior probability `one`, else Beta(a, b).

    a, b: float64 per document, at least 0.05. tail: probability below the lower quantile and above
    the upper one. fineness: distance of the points of the integral over the standard deviation, at
    most 1; 0.5 is enough for quantiles.
    """
    documents = shown.offsets.size - 1
    mean, lower, upper, evidence, ones, log_r, log_1_r = np.empty((7, documents))
    by_log_alpha, by_beta = np.zeros((2, shown.alpha.size))
    grid = _Grid(np.empty(_POINTS), np.empty(_POINTS), np.empty(_POINTS))
    for d in range(documents):
        log_beta = math.lgamma(a[d]) + math.lgamma(b[d]) - math.lgamma(a[d] + b[d])
        peak, start, h, below, n = _fill(shown, d, a[d], b[d], grid, fineness)
        total, by_r, by_log_r, by_log_q = _integrate(grid, start, h, below, n)
        log_r[d] = by_log_r / total
        log_1_r[d] = by_log_q / total
        smooth = peak + math.log(total) - log_beta
        ones[d] = _chance_of_1(shown, d, one, smooth)
        rest = 1 - ones[d]
        mean[d] = ones[d] + rest * by_r / total
        evidence[d] = smooth + math.log((1 - one) / max(rest, 1e-300))
        lower[d] = upper[d] = math.inf
        if tail < rest:
            lower[d] = _quantile(grid, start, h, below, n, tail / rest * total)
        if 1 - tail < rest:
            upper[d] = _quantile(grid, start, h, below, n, (1 - tail) / rest * total)
        _sensitivity(shown, d, a[d], b[d], rest, by_log_alpha, by_beta)
    return RelevancePosteriors(
        mean, lower, upper, evidence, ones, log_r, log_1_r, by_log_alpha, by_beta
    )
