"""Segments whose curves of theta differ in known ways, with estimates as single swaps make them."""

from __future__ import annotations

import numpy as np

from ulr.propensity.curve import ThetaCurve, make_curve
from ulr.propensity.shrinkage import shrink

POSITIONS = 10
LOG_POSITION = np.log(np.arange(1, POSITIONS + 1))


def curve_of(log_theta: np.ndarray, variance: np.ndarray, support: int) -> ThetaCurve:
    theta = np.exp(np.append(0.0, log_theta))
    errors = np.diag(np.append(0.0, variance))
    return make_curve("combined", theta, errors, np.full(POSITIONS, support), {})


def draw(rng, deviation, traffic):
    """Return true log theta, the own curves of the segments, and the curve of all traffic."""
    truth = -LOG_POSITION[1:] + deviation[:, 1:]
    variance = 4 / traffic[:, None] * (1 + np.exp(-truth))
    own = rng.normal(truth, np.sqrt(variance))
    pooled = np.log(traffic / traffic.sum() @ np.exp(own))
    pooled_variance = 4 / traffic.sum() * (1 + np.exp(-pooled))
    curves = [curve_of(*row) for row in zip(own, variance, traffic, strict=True)]
    return truth, curves, curve_of(pooled, pooled_variance, traffic.sum())


def exponents(rng, segments, scale):
    """Return the deviations of segments whose curves differ in the exponent."""
    return rng.normal(0, scale, segments)[:, None] * -LOG_POSITION


def steps(rng, segments, scale):
    """Return the deviations of segments whose curves differ from a random position on."""
    start = rng.integers(1, POSITIONS, segments)[:, None]
    return np.where(np.arange(POSITIONS) >= start, rng.normal(0, scale, (segments, 1)), 0.0)


def one_outlier(rng, segments, scale):
    odd = np.arange(segments) == rng.integers(segments)
    return np.where(odd[:, None], -scale * LOG_POSITION, 0.0)


def repeat(world, scale, traffic, repetitions):
    """Mean squared errors of own, pooled and shrunk log theta, and how often intervals cover."""
    rng = np.random.default_rng(1)
    errors, covered = [], []
    for _ in range(repetitions):
        truth, curves, pooled = draw(rng, world(rng, len(traffic), scale), traffic)
        for row, own, curve in zip(truth, curves, shrink(curves, pooled), strict=True):
            estimates = [np.log(x.theta[1:]) for x in (own, pooled, curve)]
            errors.append(np.mean(np.square(np.array(estimates) - row), axis=1))
            low, high = curve.interval()
            covered.append((low[1:] <= np.exp(row)) & (np.exp(row) <= high[1:]))
    return np.mean(errors, axis=0), float(np.mean(covered))
