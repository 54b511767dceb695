"""Ratios of propensities from one bucket's two arms, with their covariance.

In a bucket every document that moves is seen at two positions, so the ratio of its click rates is
the ratio of the positions' propensities. Documents that exchange places are pooled: clicks at b in
both arms over clicks at a in both arms, each arm divided by its own sessions (METHODS.md 3).
Co-clicks give ratios of psi in the same way, with pairs of positions in place of positions.

Covariances are those of rates within a session, by the delta method on the log scale:
cov(log r_e, log r_f) = (P(e and f) / (r_e r_f) - 1) / sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from ulr.propensity.swap_counts import WHOLE, Arm, BucketArms

Node = int | tuple[int, int]


@dataclass(frozen=True)
class Ratios:
    """log value(over[i]) - log value(under[i]) = log_ratio[i], with covariance.

    support: the smaller of the clicks above and below. sessions: pages of the bucket.
    """

    over: list[Node]
    under: list[Node]
    log_ratio: np.ndarray
    covariance: np.ndarray
    support: np.ndarray
    sessions: int


def position_ratios(arms: BucketArms, *, pooled: bool = True) -> Ratios:
    """theta ratios of a bucket; not `pooled`: only the document that the ranker put deeper."""
    return _ratios(arms, arms.moves, _joint_clicks, pooled)


def pair_ratios(arms: BucketArms) -> Ratios:
    """psi ratios of a bucket, from co-clicks.

    A pair swap moves pairs within its own positions; a single swap (a, b) also moves (a, j) to
    (b, j) for every other position j.
    """
    moves = arms.moves
    positions = arms.bucket.positions
    others: Iterable[int] = positions
    if len(positions) == 2:
        others = range(1, len(arms.kept.clicks) + 1)
    pairs: dict[Node, Node] = {}
    for p in positions:
        for q in others:
            now = _pair(moves.get(p, p), moves.get(q, q))
            if q != p and now != _pair(p, q):
                pairs[_pair(p, q)] = now
    return _ratios(arms, pairs, _joint_pairs(positions), True)


def _pair(p: int, q: int) -> tuple[int, int]:
    return (p, q) if p < q else (q, p)


Joint = Callable[[Arm, list[Node]], np.ndarray]


def _joint_clicks(arm: Arm, positions: list[Node]) -> np.ndarray:
    """Sessions that clicked both positions; on one position, its clicks."""
    index = np.array(positions) - 1
    return arm.together[np.ix_(index, index)].astype(float)


def _joint_pairs(bucket: tuple[int, ...]) -> Joint:
    def joint(arm: Arm, pairs: list[Node]) -> np.ndarray:
        """Sessions with both co-clicks.

        Two pairs with a position of the bucket in common are counted under that position's
        clicks. All others have the bucket between them: they are counted under its clicks.
        """
        ends = np.array(pairs).reshape(-1, 2)
        inside = np.isin(ends, bucket)
        # The end outside the bucket; inside it any end will do, for all of them were clicked.
        rest = np.where(inside[:, 1], ends[:, 0], ends[:, 1]) - 1
        both = arm.layer(WHOLE)[np.ix_(rest, rest)].astype(float)
        for position in bucket:
            own = np.flatnonzero((ends == position).any(axis=1))
            other = ends[own].sum(axis=1) - position - 1
            both[np.ix_(own, own)] = arm.layer(position)[np.ix_(other, other)]
        return both

    return joint


def _ratios(arms: BucketArms, moves: dict[Node, Node], joint: Joint, pooled: bool) -> Ratios:
    """One ratio per exchange (pooled) or per moved document, in a fixed order."""
    nodes = sorted(moves)
    index = {node: i for i, node in enumerate(nodes)}
    rates, covariance = _both_arms(arms, nodes, joint)
    over, under, above, below = [], [], [], []
    for was, now in sorted(moves.items()):
        exchanged = moves[now] == was
        if exchanged and was < now:
            continue  # the other document of the pair stands for both
        w = np.zeros((2, rates.size))
        w[0, index[was]] = w[1, len(nodes) + index[now]] = 1
        if exchanged and pooled:
            w[0, len(nodes) + index[was]] = w[1, index[now]] = 1
        over.append(was)
        under.append(now)
        above.append(w[0])
        below.append(w[1])
    weights = (np.array(above), np.array(below))
    return _delta(arms, (over, under), weights, rates, covariance)


def _both_arms(arms: BucketArms, nodes: list[Node], joint: Joint) -> tuple[np.ndarray, np.ndarray]:
    """Event rates in the kept arm, then in the swapped one, and the covariance of their means."""
    n = len(nodes)
    rates, covariance = np.zeros(2 * n), np.zeros((2 * n, 2 * n))
    for at, arm in ((0, arms.kept), (n, arms.swapped)):
        sessions = max(arm.sessions, 1)
        both = joint(arm, nodes)
        mean = np.diag(both) / sessions
        product = np.outer(mean, mean)
        rates[at : at + n] = mean
        covariance[at : at + n, at : at + n] = (both / sessions - product) / sessions
    return rates, covariance


def _delta(
    arms: BucketArms,
    nodes: tuple[list[Node], list[Node]],
    weights: tuple[np.ndarray, np.ndarray],
    rates: np.ndarray,
    covariance: np.ndarray,
) -> Ratios:
    """Logs of above . rates / below . rates; a ratio with no clicks on a side is left out, and so
    is every ratio of a bucket that has pages in one arm only: it would compare documents."""
    above, below = (w.reshape(-1, rates.size) for w in weights)
    kept, swapped = arms.kept.sessions, arms.swapped.sessions
    count = rates * np.repeat([kept, swapped], rates.size // 2)
    support = np.rint(np.minimum(above @ count, below @ count)).astype(np.int64)
    good = np.flatnonzero((support > 0) & (min(kept, swapped) > 0))
    above, below = above[good], below[good]
    top, bottom = above @ rates, below @ rates
    slope = above / top[:, None] - below / bottom[:, None]
    return Ratios(
        [nodes[0][i] for i in good],
        [nodes[1][i] for i in good],
        np.log(top) - np.log(bottom),
        slope @ covariance @ slope.T,
        support[good],
        kept + swapped,
    )
