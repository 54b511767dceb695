"""Ratios of propensities from the two arms of a bucket (docs/methods.md section 3.1).

A document that moves is shown at two positions, so the ratio of its click rates is the ratio of
theta. Co-clicks give ratios of psi in the same way. Covariances come from the delta method:
cov(log r_e, log r_f) = (P(e and f) / (r_e r_f) - 1) / sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic

import numpy as np

from ulr.propensity.components import Node, Pair
from ulr.propensity.swap_counts import ALL_CLICKED, Arm, BucketArms


@dataclass(frozen=True)
class Ratios(Generic[Node]):
    """log value(over[i]) - log value(under[i]) = log_ratio[i], with covariance.

    support: int64, the smaller of the two click counts of a ratio. sessions: pages of the bucket.
    """

    over: list[Node]
    under: list[Node]
    log_ratio: np.ndarray
    covariance: np.ndarray
    support: np.ndarray
    sessions: int


def position_ratios(arms: BucketArms, *, pooled: bool = True) -> Ratios[int]:
    """Return the theta ratios of a bucket; without `pooled`, of the lower ranked document only."""
    return _ratios(arms, arms.moves, _clicked_both, pooled)


def pair_ratios(arms: BucketArms) -> Ratios[Pair]:
    """Return the psi ratios of a bucket, from co-clicks.

    A single swap (a, b) also moves (a, j) to (b, j) for every other position j.
    """
    moves = arms.moves
    positions = arms.bucket.positions
    others: Iterable[int] = positions
    if len(positions) == 2:
        others = range(1, len(arms.kept.clicks) + 1)
    pairs: dict[Pair, Pair] = {}
    for p in positions:
        for q in others:
            now = _pair(moves.get(p, p), moves.get(q, q))
            if q != p and now != _pair(p, q):
                pairs[_pair(p, q)] = now
    return _ratios(arms, pairs, _co_clicked_both(positions), True)


def _pair(p: int, q: int) -> Pair:
    return (p, q) if p < q else (q, p)


def _clicked_both(arm: Arm, positions: list[int]) -> np.ndarray:
    """Return the sessions that clicked both positions; the diagonal holds clicks."""
    index = np.array(positions) - 1
    return arm.co_clicks[np.ix_(index, index)].astype(float)


def _co_clicked_both(bucket: tuple[int, ...]) -> Callable[[Arm, list[Pair]], np.ndarray]:
    """Return the function that counts the sessions with two co-clicks.

    Two pairs that share a position of the bucket are counted under that position's clicks. Any
    other two pairs contain all positions of the bucket, and are counted under ALL_CLICKED.
    """

    def count(arm: Arm, pairs: list[Pair]) -> np.ndarray:
        ends = np.array(pairs, np.int64).reshape(-1, 2)
        inside = np.isin(ends, bucket)
        # The end outside the bucket. If both are inside, either will do: both were clicked.
        rest = np.where(inside[:, 1], ends[:, 0], ends[:, 1]) - 1
        both = arm.given(ALL_CLICKED)[np.ix_(rest, rest)].astype(float)
        for position in bucket:
            own = np.flatnonzero((ends == position).any(axis=1))
            other = ends[own].sum(axis=1) - position - 1
            both[np.ix_(own, own)] = arm.given(position)[np.ix_(other, other)]
        return both

    return count


def _ratios(
    arms: BucketArms,
    moves: dict[Node, Node],
    count_both: Callable[[Arm, list[Node]], np.ndarray],
    pooled: bool,
) -> Ratios[Node]:
    """Return one ratio per exchange (pooled) or per moved document, in a fixed order.

    A ratio without clicks on a side is left out. So is every ratio of a bucket with pages in one
    arm only: it would compare documents, not positions.
    """
    nodes = sorted(moves)
    index = {node: i for i, node in enumerate(nodes)}
    # Of two documents that exchange positions, one entry stands for both.
    compared = [(was, now) for was, now in sorted(moves.items()) if moves[now] != was or now < was]
    n = len(nodes)
    over, under = (np.zeros((len(compared), 2 * n)) for _ in range(2))  # columns: kept, swapped
    for row, (was, now) in enumerate(compared):
        over[row, index[was]] = under[row, n + index[now]] = 1
        if pooled and moves[now] == was:
            over[row, n + index[was]] = under[row, index[now]] = 1
    rates, covariance = _rates(arms, nodes, count_both)
    kept, swapped = arms.kept.sessions, arms.swapped.sessions
    clicks = rates * np.repeat([kept, swapped], n)
    support = np.rint(np.minimum(over @ clicks, under @ clicks)).astype(np.int64)
    used = np.flatnonzero((support > 0) & (min(kept, swapped) > 0))
    over, under = over[used], under[used]
    numerator, denominator = over @ rates, under @ rates
    slope = over / numerator[:, None] - under / denominator[:, None]
    return Ratios(
        [compared[i][0] for i in used],
        [compared[i][1] for i in used],
        np.log(numerator) - np.log(denominator),
        slope @ covariance @ slope.T,
        support[used],
        arms.sessions,
    )


def _rates(
    arms: BucketArms, nodes: list[Node], count_both: Callable[[Arm, list[Node]], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return event rates of the kept arm, then the swapped arm, and their covariance."""
    n = len(nodes)
    rates, covariance = np.zeros(2 * n), np.zeros((2 * n, 2 * n))
    for start, arm in ((0, arms.kept), (n, arms.swapped)):
        own = slice(start, start + n)
        sessions = max(arm.sessions, 1)
        both = count_both(arm, nodes)
        rates[own] = np.diag(both) / sessions
        covariance[own, own] = (both / sessions - np.outer(rates[own], rates[own])) / sessions
    return rates, covariance
