"""The variance of an A/B test by plain loops, and pages of two rankers without a difference."""

from __future__ import annotations

import numpy as np

from ulr.evaluation.ab.totals import CUTS, METRICS, Served


def difference_by_loops(na, xa, nb, xb):
    """Return the difference of two rates, its clustered variance and degrees of freedom."""
    total_a, total_b = sum(na), sum(nb)
    a, b = sum(xa) / total_a, sum(xb) / total_b
    scatter, weights = 0.0, []
    for n1, x1, n2, x2 in zip(na, xa, nb, xb, strict=True):
        scatter += ((x1 - a * n1) / total_a - (x2 - b * n2) / total_b) ** 2
        weights.append(n1 / total_a**2 + n2 / total_b**2)
    h = np.array(weights) / sum(weights)
    # Residuals of y = (I - h 1') z with Var z = diag(h): mean and variance of their sum of squares.
    map_ = np.eye(h.size) - np.outer(h, np.ones(h.size))
    spread = map_ @ np.diag(h) @ map_.T
    mean, variance = np.trace(spread), 2 * np.trace(spread @ spread)
    return a - b, scatter / mean, 2 * mean**2 / variance


def null_pages(rng, *, queries=400, pages=20_000, zipf=1.0, share=0.5, sigma=1.0):
    """Return pages of two rankers that do not differ, under Zipf traffic; queries differ a lot.

    share: of the traffic that the first ranker serves.
    """
    weight = np.arange(1, queries + 1.0) ** -zipf
    n = rng.multinomial(pages, weight / weight.sum())
    na = rng.binomial(n, share)
    both = np.stack([na, n - na], axis=1)
    # P(first click at 1, 2 to 3, 4 to 5, below, none) of each query.
    logits = rng.normal(0, sigma, (queries, 5)) + np.log([0.2, 0.15, 0.1, 0.05, 0.5])
    chance = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    drawn = rng.multinomial(both, chance[:, None, :])
    events = np.cumsum(drawn[:, :, :4], axis=2).transpose(2, 0, 1)
    events = np.concatenate([events, events[3:] + rng.binomial(events[3:], 0.3)])
    assert len(events) == len(METRICS) == len(CUTS) + 2
    seeds = rng.integers(0, 2**63, queries).astype(np.uint64)
    return Served(both.astype(np.int64), events.astype(np.int64), seeds)
