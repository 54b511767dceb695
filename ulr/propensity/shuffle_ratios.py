"""Ratios of propensities from pages in random order (docs/methods.md section 3.1).

On a page whose first N documents are shuffled, every position up to N shows the same documents on
average. So the ratio of the clicks at k and at 1 estimates theta(k) / theta(1), and the ratio of
the co-clicks at (k, l) and at (1, 2) estimates psi(k, l) / psi(1, 2). Only pages with N >= k (or l)
enter both sides of a ratio, so that short pages do not bias it. Pages are independent given their
queries, and the queries' relevance cancels in the ratio, so errors follow from pages alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np

from ulr.propensity.components import Pair
from ulr.propensity.ratios import Ratios
from ulr.propensity.swap_counts import ALL_CLICKED, Arm, SwapCounts


def shuffle_position_ratios(counts: SwapCounts) -> Ratios[int]:
    """Return theta(k) / theta(1) of every position that has clicks on both sides.

    With a page's share x_k = c_k / C_k - c_1 / D_k, where C_k and D_k are the clicks at k and at 1
    on the pages with N >= k, the covariance of the log ratios at k and l is the sum of x_k x_l over
    the pages with N >= max(k, l).
    """
    deep = _at_least(counts.shuffles, counts.positions)
    nodes = [
        k
        for k in range(2, counts.positions + 1)
        if min(deep[k].clicks[k - 1], deep[k].clicks[0]) > 0
    ]
    over = np.array([deep[k].clicks[k - 1] for k in nodes], float)
    under = np.array([deep[k].clicks[0] for k in nodes], float)
    covariance = np.zeros((len(nodes), len(nodes)))
    for a, k in enumerate(nodes):
        for b, v in enumerate(nodes):
            both = deep[max(k, v)].co_clicks
            covariance[a, b] = (
                both[k - 1, v - 1] / (over[a] * over[b])
                - both[k - 1, 0] / (over[a] * under[b])
                - both[v - 1, 0] / (over[b] * under[a])
                + both[0, 0] / (under[a] * under[b])
            )
    support = np.minimum(over, under).astype(np.int64)
    log_ratio = np.log(over) - np.log(under)
    return Ratios(nodes, [1] * len(nodes), log_ratio, covariance, support, _pages(counts))


def shuffle_pair_ratios(counts: SwapCounts) -> Ratios[Pair]:
    """Return psi(k, l) / psi(1, 2) of every pair that has co-clicks on both sides.

    With C and D the co-clicks at (k, l) and at (1, 2), and Q the pages with both, on the pages with
    N >= l, the variance of the log ratio is 1 / C + 1 / D - 2 Q / (C D). Covariances take co-clicks
    of two pairs as independent given the co-click at (1, 2): four clicks at once are not counted.
    """
    deep = _at_least(counts.shuffles, counts.positions)
    pairs = [
        (k, v)
        for k, v in combinations(range(1, counts.positions + 1), 2)
        if v > 2 and min(deep[v].co_clicks[k - 1, v - 1], deep[v].co_clicks[0, 1]) > 0
    ]
    over = np.array([deep[v].co_clicks[k - 1, v - 1] for k, v in pairs], float)
    under = np.array([deep[v].co_clicks[0, 1] for _, v in pairs], float)
    both = np.array([deep[v].given(ALL_CLICKED)[k - 1, v - 1] for k, v in pairs], float)
    shared = (1 - both / over) / under
    covariance = np.minimum.outer(under, under) * np.outer(shared, shared)
    covariance[np.diag_indices(len(pairs))] += 1 / over - both**2 / (over**2 * under)
    support = np.minimum(over, under).astype(np.int64)
    log_ratio = np.log(over) - np.log(under)
    return Ratios(pairs, [(1, 2)] * len(pairs), log_ratio, covariance, support, _pages(counts))


def _at_least(shuffles: Mapping[int, Arm], positions: int) -> dict[int, Arm]:
    """Return the sums of the pages with N >= k for every position k."""
    total, arms = Arm.empty(positions), dict[int, Arm]()
    deepest = max([positions, *shuffles])
    for k in range(deepest, 0, -1):
        total += shuffles.get(k, Arm.empty(positions))
        arms[k] = total
    return arms


def _pages(counts: SwapCounts) -> int:
    return sum(arm.sessions for arm in counts.shuffles.values())
