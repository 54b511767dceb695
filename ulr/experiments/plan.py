"""Design of a swap experiment: the pages that each bucket needs, and its cost in clicks.

Expected rates in a bucket are computed from the current click rates r and a guess of theta (and
psi): the document of position k, moved to position 1, is clicked at rate r_k theta_1 / theta_k. Let
B be the click rate at position k and A the click rate at position 1, each summed over both arms.
For n pages, half of them swapped, the log of the pooled ratio has the variance (2 / n) times the
sum over arms of Var(c_k / B - c_1 / A), where c are the clicks of one page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ulr.experiments.buckets import parse_bucket, permutation


@dataclass(frozen=True)
class PlannedBucket:
    """A bucket of the plan. fraction: of all traffic; days: duration until it has enough pages."""

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
    """Return the planned buckets: 1:k for every k > 1, and 1,2:k,l for `pairs`.

    The fractions are set so that all buckets reach their target error on the same day.
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


def _pages(deep_rate: float, top_rate: float, ratio: float, both: float) -> float:
    """Return the variance of the log of the pooled ratio, times pages; infinite without clicks.

    deep_rate, top_rate: current (co-)click rates at the deep and the top position or pair; ratio:
    of their examination probabilities, deep to top; both: rate of clicks on both, equal in the two
    arms.
    """
    pooled_deep = deep_rate + top_rate * ratio
    pooled_top = top_rate + deep_rate / ratio
    if pooled_deep <= 0 or pooled_top <= 0:
        return float("inf")
    variance = 0.0
    swapped = (top_rate * ratio, min(deep_rate / ratio, 1.0))
    for deep, top in ((deep_rate, top_rate), swapped):
        variance += deep * (1 - deep) / pooled_deep**2 + top * (1 - top) / pooled_top**2
        variance -= 2 * (both - deep * top) / (pooled_deep * pooled_top)
    return 2 * variance


def _lost_clicks(rate: np.ndarray, theta: np.ndarray, bucket: str) -> float:
    """Return the expected loss of clicks per swapped page; negative if the swap gains clicks."""
    moves = enumerate(permutation(parse_bucket(bucket), rate.size))
    return float(sum(rate[old] * (1 - theta[new] / theta[old]) for new, old in moves if new != old))


def all_pairs_of(positions: int) -> list[tuple[int, int]]:
    """Return every pair of positions except (1, 2)."""
    return [p for p in combinations(range(1, positions + 1), 2) if p != (1, 2)]
