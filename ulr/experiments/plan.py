"""Design of a swap experiment: the pages that each bucket needs, and its cost in clicks.

Expected rates in a bucket follow from today's click rates r and a guess of theta (and psi): at
position 1, the document of position k would be clicked at rate r_k theta_1 / theta_k. With B the
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
    """A bucket of the plan. fraction: of all traffic; days: until it has enough pages."""

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
    """Return buckets 1:k for every k, and 1,2:k,l for `pairs`.

    Fractions are such that all reach their error on the same day.
    together: float64, K x K, co-click rates per page with click rates on the diagonal.
    theta: float64, K, a guess with theta(1) = 1.
    theta_error, psi_error: relative standard errors to reach.
    """
    rate = np.diag(together)
    buckets: list[tuple[str, str, float]] = []  # name, estimated parameter, pages needed
    for k in range(2, rate.size + 1):
        ratio, both = theta[k - 1] / theta[0], together[0, k - 1]
        pages = _pages(rate[k - 1], rate[0], ratio, both) / theta_error**2
        buckets.append((f"1:{k}", f"theta({k})", pages))
    for k, v in pairs:
        ratio = theta[k - 1] * theta[v - 1] / (theta[0] * theta[1])
        deep, top = together[k - 1, v - 1], together[0, 1]
        pages = _pages(deep, top, ratio, deep * top) / psi_error**2
        buckets.append((f"1,2:{k},{v}", f"psi({k}, {v})", pages))
    total = np.sum([pages for _, _, pages in buckets])
    days = float(total / (pages_a_day * fraction))
    plan = []
    for name, parameter, pages in buckets:
        share = float(fraction * pages / total)
        lost = _lost_clicks(rate, theta, name) * share / 2 * pages_a_day
        plan.append(PlannedBucket(name, parameter, float(pages), share, days, lost))
    return plan


def _pages(low: float, high: float, ratio: float, both: float) -> float:
    """Return pages times the variance of the log of the pooled ratio; infinite without clicks.

    low, high: rates at the deep and the top position today; both: rate of clicking both, equal in
    the two arms.
    """
    below, above = low + high * ratio, high + low / ratio
    if below <= 0 or above <= 0:
        return float("inf")
    variance = 0.0
    for deep, top in ((low, high), (high * ratio, min(low / ratio, 1.0))):
        variance += deep * (1 - deep) / below**2 + top * (1 - top) / above**2
        variance -= 2 * (both - deep * top) / (below * above)
    return 2 * variance


def _lost_clicks(rate: np.ndarray, theta: np.ndarray, bucket: str) -> float:
    """Return the expected loss of clicks per swapped page; negative if the swap gains some."""
    moves = enumerate(permutation(parse_bucket(bucket), rate.size))
    return float(sum(rate[was] * (1 - theta[now] / theta[was]) for now, was in moves if now != was))


def all_pairs_of(positions: int) -> list[tuple[int, int]]:
    """Return every pair of positions except (1, 2)."""
    return [p for p in combinations(range(1, positions + 1), 2) if p != (1, 2)]
