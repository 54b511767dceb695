"""Likelihood of psi from clicks and co-clicks of experiments, without relevance.

In a swap bucket the same two documents are shown at two pairs of positions. Given their co-clicks
in both arms, the number in the kept arm is binomial with odds (sessions kept x psi there) :
(sessions swapped x psi there). On pages in random order every pair of positions shows the same two
documents on average, so their co-clicks are multinomial with probabilities proportional to psi.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ulr.propensity.swap_counts import SwapCounts

Index = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Comparisons:
    """Co-clicks of the same two documents in both arms, or clicks of the same document (k = l).

    kept_at, swapped_at: indices (k, l) from 0. log_odds: of sessions kept to sessions swapped.
    """

    kept_at: Index
    swapped_at: Index
    kept: np.ndarray
    swapped: np.ndarray
    log_odds: np.ndarray

    @property
    def total(self) -> float:
        """Clicks or co-clicks of both arms."""
        return float(self.kept.sum() + self.swapped.sum())

    def log_likelihood(self, log_psi: np.ndarray) -> float:
        """Return the binomial log likelihood, without constants."""
        x = self.log_odds + log_psi[self.kept_at] - log_psi[self.swapped_at]
        return float(-(self.kept @ np.logaddexp(0, -x) + self.swapped @ np.logaddexp(0, x)))


@dataclass(frozen=True)
class Shuffled:
    """Co-clicks (or clicks, k = l) of the pages with equally many shuffled documents."""

    at: Index
    clicks: np.ndarray

    @property
    def total(self) -> float:
        """All clicks or co-clicks."""
        return float(self.clicks.sum())

    def log_likelihood(self, log_psi: np.ndarray) -> float:
        """Return the multinomial log likelihood, without constants."""
        x = log_psi[self.at]
        seen = self.clicks > 0
        return float(self.clicks[seen] @ x[seen] - self.total * np.log(np.exp(x).sum()))


@dataclass(frozen=True)
class Observed:
    """All clicks or all co-clicks of some traffic that bear on psi."""

    arms: Comparisons
    shuffles: list[Shuffled] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Clicks or co-clicks of all pages."""
        return self.arms.total + sum(part.total for part in self.shuffles)

    def log_likelihood(self, psi: np.ndarray) -> float:
        """Return the composite log likelihood of psi (positions x positions)."""
        with np.errstate(divide="ignore"):
            log_psi = np.log(psi)
        parts = [self.arms.log_likelihood(log_psi)]
        return float(sum(parts + [part.log_likelihood(log_psi) for part in self.shuffles]))


def observe(counts: SwapCounts, *, pairs: bool, known: np.ndarray) -> Observed:
    """Return the co-clicks (or clicks) of every bucket.

    known: bool per position; others are left out.
    """
    n = counts.positions
    k, v = np.triu_indices(n, 1) if pairs else (np.arange(n), np.arange(n))
    return Observed(_compare_arms(counts, k, v, known), _shuffled(counts, k, v, known))


def _shuffled(
    counts: SwapCounts, k: np.ndarray, v: np.ndarray, known: np.ndarray
) -> list[Shuffled]:
    parts = []
    for depth, arm in counts.shuffles.items():
        used = known[k] & known[v] & (v < depth)
        clicks = arm.co_clicks[k[used], v[used]].astype(float)
        if clicks.any():
            parts.append(Shuffled((k[used], v[used]), clicks))
    return parts


def _compare_arms(
    counts: SwapCounts, k: np.ndarray, v: np.ndarray, known: np.ndarray
) -> Comparisons:
    """Return every moved pair of documents (or moved document) of every bucket."""
    tables, log_odds = [np.zeros((6, 0), np.int64)], [np.zeros(0)]
    for arms in counts.buckets.values():
        if not arms.kept.sessions or not arms.swapped.sessions:
            continue
        now = np.arange(counts.positions)
        for ranked, shown in arms.moves.items():
            now[ranked - 1] = shown - 1
        low, high = np.minimum(now[k], now[v]), np.maximum(now[k], now[v])
        kept, swapped = arms.kept.co_clicks[k, v], arms.swapped.co_clicks[low, high]
        used = ((low != k) | (high != v)) & (kept + swapped > 0)
        used &= known[k] & known[v] & known[low] & known[high]
        tables.append(np.stack([k, v, low, high, kept, swapped])[:, used])
        log_odds.append(np.full(used.sum(), np.log(arms.kept.sessions / arms.swapped.sessions)))
    cells = np.concatenate(tables, axis=1)
    kept, swapped = cells[4:].astype(float)
    return Comparisons(
        (cells[0], cells[1]), (cells[2], cells[3]), kept, swapped, np.concatenate(log_odds)
    )
