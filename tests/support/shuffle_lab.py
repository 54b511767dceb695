"""Pages in random order with known truth, counted by the number of their shuffled documents."""

from __future__ import annotations

import numpy as np

from ulr.propensity.swap_counts import ALL_CLICKED, Arm, SwapCounts
from ulr.simulate.clicks import ClickModel


def arms_by_depth(clicks: np.ndarray, depth: np.ndarray) -> SwapCounts:
    """Return the counts of pages. clicks: bool, pages x positions; depth: shuffled documents."""
    shuffles = {}
    for n in np.unique(depth).tolist():
        own = clicks[depth == n].astype(float)
        both = own[(own[:, :2] > 0).all(axis=1)]
        co_clicks, conditional = (np.rint(c.T @ c).astype(np.int64) for c in (own, both))
        shuffles[n] = Arm(len(own), co_clicks, {ALL_CLICKED: conditional})
    return SwapCounts(clicks.shape[1], shuffles=shuffles)


def draw_shuffles(rng, model: ClickModel, relevance: np.ndarray, pages: int) -> SwapCounts:
    """Return pages of random queries in random order. relevance: -1 past the end of a query."""
    shown = relevance[rng.integers(len(relevance), size=pages)]
    lengths = (shown >= 0).sum(axis=1)
    key = np.where(shown >= 0, rng.random(shown.shape), 2.0)
    shown = np.take_along_axis(shown, np.argsort(key, axis=1), axis=1)
    return arms_by_depth(model.draw(rng, shown), lengths)
