"""From pages and clicks per query to the comparison of two rankers (docs/methods.md section 7.8).

A rate is x / n with n pages and x of them with an event, or x clicks, of a ranker. The difference
of two rates is a sum over queries, of which those with most traffic decide it. Its variance is that
of the queries' contributions: pages of a query are not independent of each other. A query with
much of the traffic pulls the rates towards its own, and leaves few degrees of freedom; both are
corrected under the assumption that the variance of a contribution is proportional to its pages.

Sums over queries add over partitions. The driver sees no query.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import bdtr, stdtr, stdtrit

from ulr.evaluation.estimate import CONFIDENCE
from ulr.kernels.matched import draw_successes

CUTS = (1, 3, 5)
CTR, CLICKS = "ctr", "clicks_per_page"
METRICS = (*(f"first_click_at_{k}" for k in CUTS), CTR, CLICKS)
_SHARED = 11  # totals of the pages, before those of each metric
_OF_METRIC = 12


class Served(NamedTuple):
    """Pages of two rankers by query: int64, (queries, 2), and events: (metrics, queries, 2).

    seeds: uint64 per query, for the draws of equal numbers of pages.
    """

    pages: np.ndarray
    events: np.ndarray
    seeds: np.ndarray


class Comparison(NamedTuple):
    """A metric of two rankers, a and b.

    difference: a - b, with its 95% interval. relative: of b; None if b is 0. win, same, loss:
    queries of both in which a has more, as many or fewer pages with the event than b, of equally
    many pages of each; sign_p_value: of the sign test. None for clicks per page.
    """

    name: str
    a: float
    b: float
    difference: float
    lower: float
    upper: float
    relative: float | None
    p_value: float
    win: int | None
    same: int | None
    loss: int | None
    sign_p_value: float | None


@dataclass(frozen=True)
class Totals:
    """Sums over queries. shared: float64 (_SHARED,); metrics: float64 (metrics, _OF_METRIC)."""

    shared: np.ndarray
    metrics: np.ndarray

    def __add__(self, other: Totals) -> Totals:
        """Add up the sums of other queries."""
        return Totals(self.shared + other.shared, self.metrics + other.metrics)

    @property
    def pages(self) -> tuple[int, int]:
        """The pages of both rankers."""
        return int(self.shared[1]), int(self.shared[2])

    @property
    def queries(self) -> int:
        """The number of queries of either ranker."""
        return int(self.shared[0])

    @property
    def common(self) -> int:
        """The number of queries of both rankers."""
        return int(self.shared[3])

    def to_json(self) -> str:
        """Return the totals as text, without loss."""
        return json.dumps([self.shared.tolist(), self.metrics.tolist()])


NO_QUERIES = Totals(np.zeros(_SHARED), np.zeros((len(METRICS), _OF_METRIC)))


def read_totals(text: str) -> Totals:
    """Read the text of `Totals.to_json`."""
    shared, metrics = json.loads(text)
    return Totals(np.array(shared), np.array(metrics))


def total(served: Served) -> Totals:
    """Sum over queries; each query must be here as a whole."""
    n = served.pages.astype(float)
    na, nb = n[:, 0], n[:, 1]
    shared = [len(n), na.sum(), nb.sum(), ((na > 0) & (nb > 0)).sum(), na @ na, na @ nb, nb @ nb,
              na @ na**2, na**2 @ nb, na @ nb**2, nb @ nb**2]  # fmt: skip
    rows = []
    for name, events in zip(METRICS, served.events, strict=True):
        xa, xb = events[:, 0].astype(float), events[:, 1].astype(float)
        signs = _signs(served, events) if name != CLICKS else (0, 0, 0)
        rows.append([xa.sum(), xb.sum(), xa @ xa, xa @ xb, xb @ xb,
                     xa @ na, xa @ nb, xb @ na, xb @ nb, *signs])  # fmt: skip
    return Totals(np.array(shared, float), np.array(rows, float))


def _signs(served: Served, events: np.ndarray) -> tuple[int, int, int]:
    """Return the queries in which the first ranker has more, as many and fewer events.

    They are compared on as many pages of both: those of the ranker with more pages are drawn
    without replacement. Without a difference, win and loss are then equally likely in each query,
    also if one ranker has more traffic. With different numbers of pages they would not be: a single
    page without a click is below most rates.
    """
    both = (served.pages > 0).all(axis=1)
    pages, x = served.pages[both], events[both].astype(np.int64)
    least = pages.min(axis=1)
    a, b = (draw_successes(pages[:, r].copy(), x[:, r].copy(), least, served.seeds[both])
            for r in (0, 1))  # fmt: skip
    return int((a > b).sum()), int((a == b).sum()), int((a < b).sum())


def compare(totals: Totals) -> list[Comparison]:
    """Return the comparison of every metric; both rankers must have pages."""
    return [_compared(name, totals.shared, row)
            for name, row in zip(METRICS, totals.metrics, strict=True)]  # fmt: skip


def _compared(name: str, shared: np.ndarray, row: np.ndarray) -> Comparison:
    pages_a, pages_b = shared[1], shared[2]
    a, b = row[0] / pages_a, row[1] / pages_b
    difference = float(a - b)
    variance, dof = _variance(shared, row, float(a), float(b))
    error = float(np.sqrt(variance))
    reach = float(stdtrit(dof, (1 + CONFIDENCE) / 2)) * error if dof > 0 else np.inf
    win, same, loss = (int(v) for v in row[9:12])
    counted = name != CLICKS
    return Comparison(
        name, float(a), float(b), difference, difference - reach, difference + reach,
        difference / float(b) if b else None, _p_value(difference, error, dof),
        win if counted else None, same if counted else None, loss if counted else None,
        sign_test(win, loss) if counted else None,
    )  # fmt: skip


def _variance(shared: np.ndarray, row: np.ndarray, a: float, b: float) -> tuple[float, float]:
    """Return the variance of the difference, with queries as clusters, and degrees of freedom.

    A query contributes (x_a - a n_a) / N_a - (x_b - b n_b) / N_b. Under the assumption that the
    variance of a contribution is proportional to v = n_a / N_a^2 + n_b / N_b^2, with h = v / sum v
    and S_m = sum h^m, the sum of squares is too small by the factor 1 - S_2, and has
    (1 - S_2)^2 / (S_2 + S_2^2 - 2 S_3) degrees of freedom.
    """
    n = shared[1:3]
    aa, ab, bb, aaa, aab, abb, bbb = shared[4:11]
    # Gram matrix of (x_a, n_a, x_b, n_b) and the direction of a contribution.
    xaxa, xaxb, xbxb, xana, xanb, xbna, xbnb = row[2:9]
    gram = np.array([[xaxa, xana, xaxb, xanb], [xana, aa, xbna, ab],
                     [xaxb, xbna, xbxb, xbnb], [xanb, ab, xbnb, bb]])  # fmt: skip
    direction = np.array([1 / n[0], -a / n[0], -1 / n[1], b / n[1]])
    scatter = max(0.0, float(direction @ gram @ direction))
    wa, wb = 1 / n[0] ** 2, 1 / n[1] ** 2
    whole = 1 / n[0] + 1 / n[1]
    s2 = (wa**2 * aa + 2 * wa * wb * ab + wb**2 * bb) / whole**2
    s3 = (wa**3 * aaa + 3 * wa**2 * wb * aab + 3 * wa * wb**2 * abb + wb**3 * bbb) / whole**3
    if 1 - s2 < 1e-9:  # a single query
        return float("inf"), 0.0
    dof = (1 - s2) ** 2 / max(s2 + s2**2 - 2 * s3, np.finfo(float).tiny)
    return scatter / (1 - s2), float(dof)


def _p_value(difference: float, error: float, dof: float) -> float:
    if dof <= 0:
        return 1.0
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return float(2 * stdtr(dof, -abs(difference) / error))


def sign_test(win: int, loss: int) -> float:
    """Return the two-sided p-value of the exact sign test."""
    n, k = win + loss, min(win, loss)
    return min(1.0, 2 * float(bdtr(k, n, 0.5))) if n else 1.0


def to_documents(comparisons: Sequence[Comparison]) -> list[dict[str, Any]]:
    """Return comparisons for JSON, infinite bounds as null."""
    return [
        {n: None if isinstance(v, float) and not np.isfinite(v) else v
         for n, v in comparison._asdict().items()}
        for comparison in comparisons
    ]  # fmt: skip
