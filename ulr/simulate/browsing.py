"""Browsing models: which positions users examine, and the true theta and psi of each model.

`attractive` (bool, pages x positions): whether each document would be clicked if it were examined.
A document is clicked if it is examined and attractive. `attraction` (float64, queries x positions)
is the probability of `attractive`, and `weight` (float64, one per query) is the query's share of
the traffic. `relevance` (float64, the shape of `attractive` or of `attraction`) is P(relevant), -1
past the end of a page; only a cascade with satisfaction by relevance needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

# Fixation rates by rank from the 2005 eye-tracking study often used in web search simulations.
EYE_TRACKING = (0.68, 0.61, 0.48, 0.34, 0.28, 0.20, 0.11, 0.10, 0.08, 0.06)


Relevance = np.ndarray | None


class Browsing(Protocol):
    """A model of how users examine a page."""

    def examine(
        self, rng: np.random.Generator, attractive: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        """Draw which positions each user examines; bool, the shape of `attractive`."""

    def truth(
        self, attraction: np.ndarray, weight: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        """Return psi, a symmetric positions x positions matrix with theta on its diagonal."""


def power_curve(positions: int, eta: float) -> np.ndarray:
    """Return theta(k) = (1 / k) ** eta."""
    return np.arange(1, positions + 1, dtype=float) ** -eta


def eye_tracking_curve(positions: int, eta: float) -> np.ndarray:
    """Return the eye-tracking curve to the power eta.

    After rank 10 the curve is extrapolated with the ratio of its last two values."""
    curve = np.array(EYE_TRACKING)
    steps = np.arange(1, max(positions - curve.size, 0) + 1)
    tail = curve[-1] * (curve[-1] / curve[-2]) ** steps
    return np.concatenate([curve, tail])[:positions] ** eta


CURVES = {"power": power_curve, "eye_tracking": eye_tracking_curve}


@dataclass(frozen=True)
class Independent:
    """Independent examination of each position: psi = theta_k theta_l."""

    theta: np.ndarray

    def examine(
        self, rng: np.random.Generator, attractive: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        return rng.random(attractive.shape) < self.theta

    def truth(
        self, attraction: np.ndarray, weight: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        psi = np.outer(self.theta, self.theta)
        np.fill_diagonal(psi, self.theta)
        return psi


@dataclass(frozen=True)
class Continuous:
    """Reading from the top down to one random depth per page: psi = min(theta_k, theta_l)."""

    theta: np.ndarray

    def examine(
        self, rng: np.random.Generator, attractive: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        return rng.random((attractive.shape[0], 1)) < self.theta

    def truth(
        self, attraction: np.ndarray, weight: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        return np.minimum.outer(self.theta, self.theta)


@dataclass(frozen=True)
class RowSkipping:
    """Row skipping in a grid of `width` columns (Kurennoy eq. 22-24).

    A row is skipped with probability gamma. After examining rank v the user continues with
    probability continue_probability[v - 1].
    """

    gamma: float
    continue_probability: np.ndarray
    width: int

    def examine(
        self, rng: np.random.Generator, attractive: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        pages, positions = attractive.shape
        examined = np.zeros((pages, positions), bool)
        browsing = np.ones(pages, bool)
        for k in range(positions):
            if k % self.width == 0:
                in_row = rng.random(pages) >= self.gamma
            examined[:, k] = browsing & in_row
            browsing &= ~examined[:, k] | (rng.random(pages) < self.continue_probability[k])
        return examined

    def truth(
        self, attraction: np.ndarray, weight: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        """Return psi(k, l) = theta(k) P(l examined | k examined)."""
        positions = self.continue_probability.size
        psi = np.zeros((positions, positions))
        for k in range(positions):
            psi[k, k] = self._reach(k)
            for v in range(k + 1, positions):
                psi[k, v] = psi[v, k] = psi[k, k] * self._reach_from(k, v)
        return psi

    def _pass_row(self, row: int) -> float:
        ranks = self.continue_probability[row * self.width : (row + 1) * self.width]
        return self.gamma + (1 - self.gamma) * float(np.prod(ranks))

    def _reach(self, k: int) -> float:
        """Return P(examine index k): pass the rows above, enter its row, reach k."""
        above = np.prod([self._pass_row(m) for m in range(k // self.width)])
        start = k // self.width * self.width
        return float(above * (1 - self.gamma) * np.prod(self.continue_probability[start:k]))

    def _reach_from(self, k: int, v: int) -> float:
        """Return P(examine index v | index k examined), k < v."""
        row_k, row_v = k // self.width, v // self.width
        if row_k == row_v:
            return float(np.prod(self.continue_probability[k:v]))
        rest = np.prod(self.continue_probability[k : (row_k + 1) * self.width])
        between = np.prod([self._pass_row(m) for m in range(row_k + 1, row_v)])
        start = row_v * self.width
        return float(
            rest * between * (1 - self.gamma) * np.prod(self.continue_probability[start:v])
        )


@dataclass(frozen=True)
class Cascade:
    """Dynamic Bayesian network (DBN); the cascade model if phi = beta = 1.

    Users read from the top. A click satisfies the user with probability phi, and a satisfied user
    leaves the page; otherwise the user continues with probability beta. If phi is None, it is half
    of the relevance of the clicked document (Hu et al. 2019, section 5.2.2).
    """

    phi: float | None
    beta: float

    def _satisfaction(self, relevance: Relevance, shape: tuple[int, ...]) -> np.ndarray:
        """Return P(satisfied | clicked) of every document."""
        if self.phi is not None:
            return np.full(shape, self.phi)
        if relevance is None:
            raise ValueError("satisfaction by relevance needs the relevance of the documents")
        return np.maximum(relevance, 0.0) / 2

    def examine(
        self, rng: np.random.Generator, attractive: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        pages, positions = attractive.shape
        examined = np.zeros((pages, positions), bool)
        browsing = np.ones(pages, bool)
        phi = self._satisfaction(relevance, attractive.shape)
        for k in range(positions):
            examined[:, k] = browsing
            satisfied = attractive[:, k] & (rng.random(pages) < phi[:, k])
            browsing &= ~satisfied & (rng.random(pages) < self.beta)
        return examined

    def truth(
        self, attraction: np.ndarray, weight: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        """Return theta(k) averaged over the traffic; psi is the smaller theta of each pair."""
        phi = self._satisfaction(relevance, attraction.shape)
        stay = self.beta * (1 - (phi * attraction)[:, :-1])
        reach = np.cumprod(np.hstack([np.ones((len(attraction), 1)), stay]), axis=1)
        theta = weight @ reach
        return np.minimum.outer(theta, theta)


@dataclass(frozen=True)
class SingleChoice:
    """Plackett-Luce: the user chooses exactly one of the attractive documents, with odds theta(k).

    The click rate of a document depends on its neighbours, so clicks are not affine in relevance,
    and position-based methods cannot correct them.
    """

    theta: np.ndarray

    def examine(
        self, rng: np.random.Generator, attractive: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        """Draw the chosen position of each page, by Gumbel-max over the attractive documents."""
        utility = np.log(self.theta) + rng.gumbel(size=attractive.shape)
        utility = np.where(attractive, utility, -np.inf)
        chosen = np.argmax(utility, axis=1)
        return np.arange(attractive.shape[1]) == chosen[:, None]

    def truth(
        self, attraction: np.ndarray, weight: np.ndarray, relevance: Relevance = None
    ) -> np.ndarray:
        """Return P(chosen | attractive), averaged over traffic, on the diagonal, and 0 elsewhere.

        With odds w and attractions p, P(k chosen | k attractive) is the integral over v in (0, 1)
        of the product over j != k of (1 - p_j + p_j v^(w_j / w_k)).
        """
        nodes, node_weight = np.polynomial.legendre.leggauss(48)
        v = (nodes + 1) / 2
        psi = np.zeros((self.theta.size, self.theta.size))
        for chunk in np.array_split(np.arange(len(weight)), len(weight) // 1024 + 1):
            for k, odds in enumerate(self.theta):
                powers = v[:, None] ** (self.theta / odds)
                factors = 1 - attraction[chunk, None, :] * (1 - powers)
                factors[:, :, k] = 1.0
                psi[k, k] += weight[chunk] @ (np.prod(factors, axis=2) @ node_weight) / 2
        return psi
