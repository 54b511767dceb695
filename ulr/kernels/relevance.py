"""Posterior of a document's relevance, given its clicks at examined positions.

A document that was shown n_k times at position k and clicked c_k times has the likelihood

    prod_k p_k^c_k (1 - p_k)^(n_k - c_k),    p_k = alpha_k r + beta_k

of its relevance r (alpha = theta and beta = 0 without trust bias). With a Beta(a, b) prior the
density of x = logit r is proportional to r^a (1 - r)^b times the likelihood. It has one mode: the
derivative of its logarithm, over r (1 - r), is a sum of decreasing functions of r (docs/methods.md,
section 7.7).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel

_FLAT = 1e-6  # a change of the likelihood below this is none
_LIMIT = 60.0  # |x| of any mode
_STEPS = 200


class ShownCounts(NamedTuple):
    """Clicks and sessions of documents, document after document, by curve and position.

    offsets       int64, documents + 1
    alpha, beta   float64, of P(click) = alpha r + beta; alpha > 0, beta >= 0, alpha + beta <= 1
    clicks        float64
    sessions      float64, at least the clicks
    """

    offsets: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    clicks: np.ndarray
    sessions: np.ndarray


@kernel()
def log_sigmoid(x: float) -> float:
    if x < 0:
        return x - math.log1p(math.exp(x))
    return -math.log1p(math.exp(-x))


@kernel()
def log_density(shown: ShownCounts, d: int, a: float, b: float, x: float) -> float:
    """Return the logarithm of prior times likelihood, without the constant of the prior."""
    log_r, log_q = log_sigmoid(x), log_sigmoid(-x)
    r, q = math.exp(log_r), math.exp(log_q)
    value = a * log_r + b * log_q
    for i in range(shown.offsets[d], shown.offsets[d + 1]):
        alpha, beta, clicks = shown.alpha[i], shown.beta[i], shown.clicks[i]
        if clicks > 0:
            if beta == 0:
                value += clicks * (math.log(alpha) + log_r)
            else:
                value += clicks * math.log(alpha * r + beta)
        if shown.sessions[i] > clicks:
            rest = shown.sessions[i] - clicks
            if alpha + beta >= 1:
                value += rest * (math.log(alpha) + log_q)
            else:
                value += rest * math.log(max(1 - alpha - beta, 0.0) + alpha * q)
    return value


@kernel()
def log_likelihood_at_1(shown: ShownCounts, d: int) -> float:
    """Return the log likelihood of r = 1; -inf if an examined session did not click."""
    value = 0.0
    for i in range(shown.offsets[d], shown.offsets[d + 1]):
        hit = shown.alpha[i] + shown.beta[i]
        rest = shown.sessions[i] - shown.clicks[i]
        if shown.clicks[i] > 0:
            value += shown.clicks[i] * math.log(hit)
        if rest > 0:
            if hit >= 1:
                return -math.inf
            value += rest * math.log(1 - hit)
    return value


@kernel()
def derivatives(shown: ShownCounts, d: int, a: float, b: float, x: float) -> tuple[float, float]:
    """Return the first and second derivative of the log density by x."""
    r, q = 1 / (1 + math.exp(-x)), 1 / (1 + math.exp(x))
    first, second = a * q - b * r, -(a + b) * r * q
    for i in range(shown.offsets[d], shown.offsets[d + 1]):
        alpha, beta, clicks = shown.alpha[i], shown.beta[i], shown.clicks[i]
        if clicks > 0:
            change = alpha * r * q / (alpha * r + beta)
            first += clicks * change
            second += clicks * change * (q - r - change)
        rest = shown.sessions[i] - clicks
        if rest > 0:
            change = alpha * r * q / (max(1 - alpha - beta, 0.0) + alpha * q)
            first -= rest * change
            second -= rest * change * (q - r + change)
    return first, second


@kernel()
def find_mode(shown: ShownCounts, d: int, a: float, b: float) -> tuple[float, float]:
    """Return the mode and the second derivative there, by Newton's method within a bracket."""
    low, high = -_LIMIT, _LIMIT
    clicks, exposure = a, a + b
    for i in range(shown.offsets[d], shown.offsets[d + 1]):
        clicks += shown.clicks[i]
        exposure += shown.sessions[i] * shown.alpha[i]
    x = math.log(clicks / max(exposure - clicks, 0.05 * exposure))
    second = -1.0
    for _ in range(_STEPS):
        first, second = derivatives(shown, d, a, b, x)
        if first > 0:
            low = x
        else:
            high = x
        step = -first / second if second < 0 else (2.0 if first > 0 else -2.0)
        new = x + max(-4.0, min(4.0, step))
        if not low < new < high:
            new = (low + high) / 2
        if abs(new - x) < 1e-10 * (1 + abs(x)):
            break
        x = new
    _, second = derivatives(shown, d, a, b, x)
    return x, second


@kernel()
def left_end(shown: ShownCounts, d: int) -> tuple[float, float]:
    """Return the x below which the log likelihood is linear in x, and its slope there."""
    change, slope = 1.0, 0.0
    for i in range(shown.offsets[d], shown.offsets[d + 1]):
        alpha, beta, clicks = shown.alpha[i], shown.beta[i], shown.clicks[i]
        change += shown.sessions[i] * alpha / (1 - min(beta, 0.5))
        if beta == 0:
            slope += clicks
        else:
            change += clicks * alpha / beta
    return math.log(_FLAT / change), slope
