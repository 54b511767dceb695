"""kappa(k, l): co-click rate over the product of the click rates, within displayed rankings.

Under trust bias theta and psi are not identified, and swap ratios of co-clicks are not those of
psi. kappa is: psi / (theta theta) whatever alpha and beta are (docs/methods.md section 3.8).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.kernels.within_rankings import APART, CO_CLICKS, TOGETHER, UNITS
from ulr.propensity.curve import jackknife


@dataclass(frozen=True)
class Kappa:
    """Symmetric matrices, positions x positions; 1 on the diagonal of `value`.

    standard_error  by a jackknife over blocks of queries, NaN where the value is imputed
    support         co-clicks behind the estimate, int64
    """

    value: np.ndarray
    standard_error: np.ndarray
    support: np.ndarray

    def is_imputed(self, k: int, v: int) -> bool:
        """Return whether the value of two positions (from 1) has too little support."""
        return bool(np.isnan(self.standard_error[k - 1, v - 1]))


def estimate_kappa(pairs: np.ndarray, *, min_support: int) -> Kappa:
    """Return kappa from the sums of `RankingSums.pairs`.

    A pair with fewer than `min_support` co-clicks, observed or expected, takes the mean of the
    estimated pairs with the same upper position, and 1 if there is none. Under independent and
    continuous browsing, and in different rows under row skipping, kappa depends on that position
    only.
    """
    positions = pairs.shape[1]
    k, v = np.triu_indices(positions, 1)
    total = pairs.sum(axis=0)[k, v]
    support = np.minimum(total[:, CO_CLICKS], total[:, APART] // UNITS)
    used = np.flatnonzero(support >= max(min_support, 1))
    log_kappa = np.log(total[used, TOGETHER] / total[used, APART])
    without = (total[None] - pairs[:, k, v])[:, used]
    with np.errstate(divide="ignore", invalid="ignore"):
        replicates = np.log(without[:, :, TOGETHER] / without[:, :, APART])
    variance = np.array([jackknife(column[:, None])[0, 0] for column in replicates.T])
    known = np.isfinite(variance)
    used, log_kappa, variance = used[known], log_kappa[known], variance[known]
    value, error = np.ones((positions, positions)), np.full((positions, positions), np.nan)
    for upper in range(positions):
        own = k[used] == upper
        if own.any():
            weight = 1 / np.maximum(variance[own], 1e-12)
            value[upper, upper + 1 :] = np.exp(np.average(log_kappa[own], weights=weight))
    value[k[used], v[used]] = np.exp(log_kappa)
    error[k[used], v[used]] = np.exp(log_kappa) * np.sqrt(variance)
    counts = np.zeros((positions, positions), np.int64)
    counts[k, v] = support
    lower = np.tril_indices(positions, -1)
    for matrix in (value, error, counts):
        matrix[lower] = matrix.T[lower]
    return Kappa(value, error, counts)
