"""psi(k, l) from swaps, Kurennoy 2022 section 3.3, eq. 16-20.

A pair swap shows the same two documents at (k, l) and at (1, 2), so the ratio of their co-click
rates is psi(k, l) / psi(1, 2). A single swap (a, b) does the same for (a, j) and (b, j), whatever
j, so single swaps alone already link all pairs. Least squares on the logs uses every bucket;
psi(1, 2) = theta(2) where position 1 is always examined (eq. 20).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.curve import Curve
from ulr.propensity.least_squares import Solution, solve_ratios
from ulr.propensity.ratios import pair_ratios
from ulr.propensity.swap_counts import SwapCounts

ANCHOR = (1, 2)
PAIR_SWAPS, ALL_SWAPS = "pair_swaps", "all_swaps"


@dataclass(frozen=True)
class PairEstimate:
    """One psi. source: measured, filled or refused.

    raw: before projection; its interval is the honest one, for a projected value has no error of
    the usual shape. log_error: standard error of the log of raw. reach: how many of them to either
    end of its interval.
    """

    k: int
    l: int  # noqa: E741
    psi: float
    raw: float
    log_error: float
    support: int
    source: str
    note: str
    reach: float

    @property
    def standard_error(self) -> float:
        """By the delta method."""
        return self.raw * self.log_error

    def interval(self) -> tuple[float, float]:
        """95% bounds, symmetric on the log scale."""
        factor = float(np.exp(self.reach * self.log_error))
        return self.raw / factor, self.raw * factor


def measure_pairs(counts: SwapCounts, *, min_coclicks: int, joint: str = ALL_SWAPS) -> Solution:
    """psi(k, l) / psi(1, 2) of every pair with support; `pair_swaps` listens to those alone."""
    ratios = [
        pair_ratios(arms)
        for arms in counts.buckets.values()
        if arms.bucket.last_position <= counts.positions
        and (joint == ALL_SWAPS or len(arms.bucket.target) == 2)
    ]
    pairs = list(combinations(range(1, counts.positions + 1), 2))
    return solve_ratios(ratios, pairs, anchor=ANCHOR, min_support=min_coclicks, noun="co-clicks")


def joint_estimates(
    curve: Curve, solution: Solution | None, fit: BrowsingFit
) -> list[PairEstimate]:
    """All pairs: measured where there is support, else filled from the browsing model.

    Every value is projected onto the Frechet bounds of its two theta.
    """
    measured = _anchored(curve, solution, fit) if solution is not None else {}
    rows = []
    for k, v in combinations(range(1, curve.positions + 1), 2):
        why = solution.refused.get((k, v), "") if solution is not None else ""
        support = solution.support[k, v] if solution is not None else 0
        bad = [p for p in (k, v) if np.isnan(curve.theta[p - 1])]
        if bad:
            note = f"theta({bad[0]}) was refused: {curve.note[bad[0] - 1]}"
            rows.append(
                PairEstimate(
                    k, v, np.nan, np.nan, np.nan, support, "insufficient", note, curve.reach
                )
            )
            continue
        if (k, v) in measured:
            psi, error, source = *measured[k, v], "estimated"
        else:
            psi, error, source = fit.psi[k - 1, v - 1], _filled_error(curve, k, v, fit), "imputed"
        bounded = frechet(psi, curve.theta[k - 1], curve.theta[v - 1], first=fit.first)
        notes = [f"from {fit.name}" + (f"; {why}" if why else "")] if source == "imputed" else []
        if abs(bounded - psi) > 1e-9:
            notes.append(f"projected from {psi:.4f}")
        told = "; ".join(notes)
        rows.append(PairEstimate(k, v, bounded, psi, error, support, source, told, curve.reach))
    return rows


def frechet(psi: float, theta_k: float, theta_l: float, *, first: float = 1.0) -> float:
    """max(0, theta_k + theta_l - 1) <= psi <= min(theta_k, theta_l).

    Estimates are relative to theta(1) = `first`; on their scale the bounds' 1 is 1 / first.
    """
    low, high = max(0.0, theta_k + theta_l - 1 / first), min(theta_k, theta_l)
    return float(np.clip(psi, min(low, high), high))


def _anchored(
    curve: Curve, solution: Solution, fit: BrowsingFit
) -> dict[tuple[int, int], tuple[float, float]]:
    """(psi, error of its log) of the linked pairs, on the scale that theta(2) gives."""
    if np.isnan(curve.theta[1]) or len(solution.nodes) == 1:
        return {}
    scale = np.log(curve.theta[1] * fit.anchor_share)
    psi = np.exp(scale + solution.log_value)
    error = np.sqrt(np.diag(solution.covariance) + curve.covariance[1, 1])
    return {
        pair: (float(p), float(e))
        for pair, p, e in zip(solution.nodes, psi, error, strict=True)
        if not any(np.isnan(curve.theta[i - 1]) for i in pair)
    }


def _filled_error(curve: Curve, k: int, v: int, fit: BrowsingFit) -> float:
    """What theta's own errors make of a filled psi; the model's fit is not in it."""
    c = curve.covariance
    if fit.name == "independent":
        return float(np.sqrt(c[k - 1, k - 1] + c[v - 1, v - 1] + 2 * c[k - 1, v - 1]))
    return float(np.sqrt(max(c[k - 1, k - 1], c[v - 1, v - 1])))
