"""From relevance to clicks: noise, trust in the top, and the browsing model's examination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.simulate.browsing import Browsing


@dataclass(frozen=True)
class ClickModel:
    """Examined documents are clicked with probability positive[k] when relevant, negative[k] when
    not. Constant curves are click noise; a `negative` that falls with k is trust bias.
    """

    browsing: Browsing
    positive: np.ndarray
    negative: np.ndarray

    def draw(self, rng: np.random.Generator, relevance: np.ndarray) -> np.ndarray:
        """Clicks for pages whose documents are relevant with the given probabilities; bool.

        relevance: float, pages x positions; a position past the page's end holds -1.
        """
        relevant = rng.random(relevance.shape) < relevance
        chance = np.where(relevant, self.positive, self.negative)
        attractive = (rng.random(relevance.shape) < chance) & (relevance >= 0)
        return attractive & self.browsing.examine(rng, attractive)

    def truth(self, relevance: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, ...]:
        """psi (theta on its diagonal), alpha and beta of P(click at k) = alpha R + beta."""
        attraction = self.negative + (self.positive - self.negative) * relevance
        psi = self.browsing.truth(np.where(relevance >= 0, attraction, 0.0), weight)
        theta = np.diag(psi)
        return psi, theta * (self.positive - self.negative), theta * self.negative


def relevance_of(label: np.ndarray, max_label: int, noise: float) -> np.ndarray:
    """P(r = 1) = noise + (1 - noise) (2^y - 1) / (2^ymax - 1)."""
    return noise + (1 - noise) * (2.0**label - 1) / (2.0**max_label - 1)


def trust_curve(positions: int, floor: float, trust: float) -> np.ndarray:
    """P(click | examined, not relevant): floor + trust / k, at most 1: more at the top."""
    return np.minimum(floor + trust / np.arange(1, positions + 1), 1.0)
