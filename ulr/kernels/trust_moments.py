"""Moments of documents' click rates at two positions, summed exactly.

x and y are the rates of a document at the first and the second position of a bucket. Powers of x
are factorial moments, c (c - 1) ... / (n (n - 1) ...): unbiased for powers of the true rate, where
plain powers of the observed rate would bias the slope of a regression towards 0.

A term is split into units of 2^-20 and a rest in units of 2^-56, so that sums are sums of integers
and do not depend on the order of the documents.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ulr.kernels.jit import kernel

MOMENTS = ("x0", "x1", "x2", "x3", "x4", "x0y", "x1y", "x2y")  # weighted sums of x^p and x^p y
SUMS = 1 + 2 * len(MOMENTS)  # documents; then units and rest of every moment
MIN_IMPRESSIONS = 4  # at the first position: the fourth factorial moment needs as many
_POWERS = 5
_PRODUCTS = 3
_UNIT = 2.0**20
_REST = 2.0**36


@njit(inline="always")
def _add(sums: np.ndarray, moment: int, term: float) -> None:
    scaled = term * _UNIT
    units = math.floor(scaled)
    rest = (scaled - units) * _REST
    below = math.floor(rest)
    sums[1 + 2 * moment] += np.int64(units)
    sums[2 + 2 * moment] += np.int64(below) + np.int64(rest - below >= 0.5)


@kernel()
def add_moments(arm: np.ndarray, query: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
    """Add the documents that were shown at both positions to the sums of their arm and block.

    arm: int64 per document. query: int64 per document, a hash that selects the block.
    counts: int64, documents x 4: clicks and impressions at the first and at the second position.
    sums: int64, arms x blocks x SUMS, changed in place.
    """
    for i in range(arm.size):
        c, n, d, m = counts[i, 0], counts[i, 1], counts[i, 2], counts[i, 3]
        if n < MIN_IMPRESSIONS or m == 0:
            continue
        own = sums[arm[i], query[i] % sums.shape[1]]
        own[0] += 1
        weight, y, x = n * m / (n + m), d / m, 1.0
        for p in range(_POWERS):
            if p > 0:
                x = x * (c - (p - 1)) / (n - (p - 1))
            _add(own, p, weight * x)
            if p < _PRODUCTS:
                _add(own, _POWERS + p, weight * x * y)


def finish_moments(sums: np.ndarray) -> np.ndarray:
    """Return the moments (float64, rows x MOMENTS) of rows of sums (int64, rows x SUMS)."""
    units, rest = sums[:, 1::2], sums[:, 2::2]
    moments: np.ndarray = units / _UNIT + rest / (_UNIT * _REST)
    return moments
