"""Clicks from relevance: click noise, trust bias and examination (docs/methods.md section 8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.simulate.browsing import Browsing


@dataclass(frozen=True)
class ClickModel:
    """Click probabilities of examined documents, float64 per position.

    A document at position k is clicked with probability positive[k] if it is relevant, and
    negative[k] if not. Constant curves are click noise; a `negative` that falls with k is trust
    bias.
    """

    browsing: Browsing
    positive: np.ndarray
    negative: np.ndarray

    def draw(self, rng: np.random.Generator, relevance: np.ndarray) -> np.ndarray:
        """Draw the clicks of pages; bool, the shape of `relevance`.

        relevance: float64, pages x positions, P(relevant); -1 past a page's end.
        """
        relevant = rng.random(relevance.shape) < relevance
        chance = np.where(relevant, self.positive, self.negative)
        attractive = (rng.random(relevance.shape) < chance) & (relevance >= 0)
        return attractive & self.browsing.examine(rng, attractive, relevance)

    def truth(self, relevance: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return psi (theta on its diagonal), alpha and beta: P(click at k) = alpha R + beta."""
        attraction = self.negative + (self.positive - self.negative) * relevance
        attraction = np.where(relevance >= 0, attraction, 0.0)
        psi = self.browsing.truth(attraction, weight, relevance)
        theta = np.diag(psi)
        return psi, theta * (self.positive - self.negative), theta * self.negative


def relevance_of(
    label: np.ndarray, max_label: int, noise: float, binarize: int | None = None
) -> np.ndarray:
    """Return P(r = 1) = noise + (1 - noise) (2^y - 1) / (2^ymax - 1).

    binarize: replaces the fraction by 1 for labels of at least this grade, and by 0 for others.
    """
    if binarize is not None:
        return noise + (1 - noise) * (label >= binarize)
    return noise + (1 - noise) * (2.0**label - 1) / (2.0**max_label - 1)


def trust_curve(positions: int, floor: float, trust: float) -> np.ndarray:
    """Return P(click | examined, not relevant) by position: floor + trust / k, at most 1."""
    return np.minimum(floor + trust / np.arange(1, positions + 1), 1.0)
