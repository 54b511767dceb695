"""psi(k, l) from swaps (Kurennoy 2022 section 3.3, eq. 16-20; docs/methods.md section 3.4).

A pair swap shows the same two documents at (k, l) and at (1, 2), so the ratio of their co-click
rates is psi(k, l) / psi(1, 2). A single swap (a, b) gives psi(a, j) / psi(b, j) for every other
position j, so single swaps alone link all pairs. So do pages in random order.
psi(1, 2) = theta(2) P(e_1 | e_2).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.components import Pair
from ulr.propensity.curve import IMPUTED, ThetaCurve
from ulr.propensity.least_squares import Solution, solve_ratios
from ulr.propensity.ratios import pair_ratios
from ulr.propensity.shuffle_ratios import shuffle_pair_ratios
from ulr.propensity.swap_counts import SwapCounts

ANCHOR = (1, 2)
PAIR_SWAPS, ALL_SWAPS = "pair_swaps", "all_swaps"


@dataclass(frozen=True)
class PairEstimate:
    """One psi. source: estimated, imputed or insufficient.

    raw: the value before projection onto the Frechet bounds, to which error and interval belong.
    log_error: standard error of log raw. t_quantile: as in ThetaCurve.
    """

    k: int
    l: int  # noqa: E741
    psi: float
    raw: float
    log_error: float
    support: int
    source: str
    note: str
    t_quantile: float

    @property
    def standard_error(self) -> float:
        """Standard error of `raw`, by the delta method."""
        return self.raw * self.log_error

    def interval(self) -> tuple[float, float]:
        """Return the 95% bounds of `raw`, symmetric on the log scale."""
        factor = float(np.exp(self.t_quantile * self.log_error))
        return self.raw / factor, self.raw * factor


def solve_pairs(counts: SwapCounts, *, min_coclicks: int, joint: str = ALL_SWAPS) -> Solution[Pair]:
    """Estimate psi(k, l) / psi(1, 2) of every pair with support; joint: the buckets to use."""
    ratios = [
        pair_ratios(arms)
        for arms in counts.buckets.values()
        if joint == ALL_SWAPS or len(arms.bucket.target) == 2
    ]
    if joint == ALL_SWAPS and counts.shuffles:
        ratios.append(shuffle_pair_ratios(counts))
    pairs = list(combinations(range(1, counts.positions + 1), 2))
    return solve_ratios(ratios, pairs, anchor=ANCHOR, min_support=min_coclicks, noun="co-clicks")


def joint_estimates(
    curve: ThetaCurve, solution: Solution[Pair] | None, fit: BrowsingFit
) -> list[PairEstimate]:
    """Return all pairs: estimated where there is support, else imputed from the browsing model.

    Every value is projected onto the Frechet bounds of its two theta.
    """
    estimated = _anchored(curve, solution, fit) if solution is not None else {}
    rows = []
    for k, v in combinations(range(1, curve.positions + 1), 2):
        support = solution.support[k, v] if solution is not None else 0
        missing = [p for p in (k, v) if np.isnan(curve.theta[p - 1])]
        if missing:
            raw, error, source = np.nan, np.nan, "insufficient"
            notes = [f"theta({missing[0]}) has no estimate: {curve.note[missing[0] - 1]}"]
        elif (k, v) in estimated and IMPUTED not in (curve.source[k - 1], curve.source[v - 1]):
            (raw, error), source, notes = estimated[k, v], "estimated", []
        else:
            raw, error = fit.psi[k - 1, v - 1], _imputed_error(curve, k, v, fit)
            source, notes = IMPUTED, [f"from the browsing model {fit.name}"]
            notes.append(solution.reasons.get((k, v), "") if solution is not None else "")
        psi = frechet(raw, curve.theta[k - 1], curve.theta[v - 1], theta_1=fit.theta_1)
        if abs(psi - raw) > 1e-9:
            notes.append(f"projected from {raw:.4f}")
        note = "; ".join(filter(None, notes))
        rows.append(PairEstimate(k, v, psi, raw, error, support, source, note, curve.t_quantile))
    return rows


def frechet(psi: float, theta_k: float, theta_l: float, *, theta_1: float = 1.0) -> float:
    """Project psi onto max(0, theta_k + theta_l - 1) <= psi <= min(theta_k, theta_l).

    Estimates are relative to P(e_1) = `theta_1`, so the constant in the bound is 1 / theta_1.
    """
    low, high = max(0.0, theta_k + theta_l - 1 / theta_1), min(theta_k, theta_l)
    return float(np.clip(psi, min(low, high), high))


def _anchored(
    curve: ThetaCurve, solution: Solution[Pair], fit: BrowsingFit
) -> dict[Pair, tuple[float, float]]:
    """Return psi and the error of log psi of the linked pairs, scaled by psi(1, 2)."""
    if np.isnan(curve.theta[1]) or len(solution.nodes) == 1:
        return {}
    scale = np.log(curve.theta[1] * fit.first_given_second)
    psi = np.exp(scale + solution.log_value)
    error = np.sqrt(np.diag(solution.covariance) + curve.covariance[1, 1])
    return dict(zip(solution.nodes, zip(psi.tolist(), error.tolist(), strict=True), strict=True))


def _imputed_error(curve: ThetaCurve, k: int, v: int, fit: BrowsingFit) -> float:
    """Return the error that theta passes on to psi; it does not contain the error of the model."""
    c = curve.covariance
    if fit.name == "independent":
        return float(np.sqrt(c[k - 1, k - 1] + c[v - 1, v - 1] + 2 * c[k - 1, v - 1]))
    return float(np.sqrt(max(c[k - 1, k - 1], c[v - 1, v - 1])))
