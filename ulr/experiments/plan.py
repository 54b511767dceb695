"""Designing a swap experiment: how many pages each bucket needs, and what it costs in clicks.

Expected rates in a bucket follow from today's click rates r and a guess of theta (and psi): the
document of position k would be clicked at rate r_k theta_1 / theta_k at position 1. With B the
rate at k and A the rate at 1, summed over both arms, the log of the pooled ratio of n pages, half
of them swapped, has the variance (2 / n) times the sum over arms of Var(c_k / B - c_1 / A).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ulr.experiments.buckets import parse_bucket, permutation


@dataclass(frozen=True)
class PlannedBucket:
    """A bucket of the plan. fraction: of all traffic. cost: clicks lost per swapped page."""

    bucket: str
    measures: str
    pages: float
    fraction: float
    days: float
    clicks_lost_a_day: float


def design(
    together: np.ndarray,
    theta: np.ndarray,
    *,
    pages_a_day: float,
    fraction: float,
    theta_error: float,
    psi_error: float,
    pairs: Sequence[tuple[int, int]] = (),
) -> list[PlannedBucket]:
    """Buckets 1:k for every k, and 1,2:k,l for `pairs`, so that all reach their error on one day.

    together: co-click rates per page, click rates on the diagonal. The relative errors are
    standard errors; theta is the guess, theta(1) = 1.
    """
    rate = np.diag(together)
    names, measures, needed, lost = [], [], [], []
    for k in range(2, rate.size + 1):
        names.append(f"1:{k}")
        measures.append(f"theta({k})")
        ratio = theta[k - 1] / theta[0]
        both = together[0, k - 1]
        needed.append(_pages(rate[k - 1], rate[0], ratio, both) / theta_error**2)
        lost.append(_lost(rate, theta, {1: k, k: 1}))
    for k, v in pairs:
        names.append(f"1,2:{k},{v}")
        measures.append(f"psi({k}, {v})")
        ratio = theta[k - 1] * theta[v - 1] / (theta[0] * theta[1])
        deep, top = together[k - 1, v - 1], together[0, 1]
        needed.append(_pages(deep, top, ratio, deep * top) / psi_error**2)
        lost.append(_lost(rate, theta, _moves(names[-1], rate.size)))
    pages = np.array(needed)
    shares = fraction * pages / pages.sum()
    days = pages.sum() / (pages_a_day * fraction)
    return [
        PlannedBucket(*row[:3], row[3], float(days), float(row[4] * row[3] / 2 * pages_a_day))
        for row in zip(names, measures, pages.tolist(), shares.tolist(), lost, strict=True)
    ]


def _pages(low: float, high: float, ratio: float, both: float) -> float:
    """Pages times the variance of the log of the pooled ratio; infinite without clicks.

    low, high: rates at the deep and the top position today; both: the rate of clicking both,
    which the swap does not change.
    """
    below, above = low + high * ratio, high + low / ratio
    if below <= 0 or above <= 0:
        return float("inf")
    variance = 0.0
    for deep, top in ((low, high), (high * ratio, min(low / ratio, 1.0))):
        variance += deep * (1 - deep) / below**2 + top * (1 - top) / above**2
        variance -= 2 * (both - deep * top) / (below * above)
    return 2 * variance


def _moves(name: str, positions: int) -> dict[int, int]:
    """Ranked position -> position in the swapped arm."""
    order = permutation(parse_bucket(name), positions)
    return {was + 1: now + 1 for now, was in enumerate(order) if was != now}


def _lost(rate: np.ndarray, theta: np.ndarray, moves: dict[int, int]) -> float:
    """Clicks that a swapped page is expected to lose; below 0 where the swap wins some."""
    return float(
        sum(rate[was - 1] * (1 - theta[now - 1] / theta[was - 1]) for was, now in moves.items())
    )


def all_pairs_of(positions: int) -> list[tuple[int, int]]:
    """Every pair of positions but (1, 2)."""
    return [p for p in combinations(range(1, positions + 1), 2) if p != (1, 2)]
