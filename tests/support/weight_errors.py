"""Errors of the expected pair weights of every method, by simulation with known truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tests.support.pair_samples import histograms
from ulr.pairs.weighting import weigh_histograms
from ulr.pairs.weightings import weightings_of
from ulr.pairs.weights import NEEDS_ALL_PAIRS, stopping_of, weight_table
from ulr.propensity.examination import Examination
from ulr.simulate.browsing import (
    Browsing,
    Cascade,
    Continuous,
    Independent,
    RowSkipping,
    power_curve,
)
from ulr.simulate.clicks import ClickModel, trust_curve

METHODS = ("naive", "robust", "robust+", "ips-all", "pns", "prs", "joint", "affine", "cascade")
PHI, GO_ON = 0.6, 0.9
RELEVANCE = (0.9, 0.2, 0.6, 0.4, 0.8, 0.5)
_AT_ONCE = 1_000_000


class Errors(NamedTuple):
    """Largest over all pairs: |E[u_ij - u_ji] - (r_i - r_j)| and |E[u_ij] - r_i (1 - r_j)|."""

    direction: float
    weight: float


def browsing_models(theta: np.ndarray) -> dict[str, Browsing]:
    return {
        "independent": Independent(theta),
        "continuous": Continuous(theta),
        "row_skipping": RowSkipping(0.3, np.full(theta.size, 0.85), 2),
        "cascade": Cascade(PHI, GO_ON),
    }


def weight_errors(
    name: str, *, trust: bool, sessions: int, positions: int = 6, eta: float = 0.8, seed: int = 1
) -> dict[str, Errors]:
    """Return the errors of all methods, which are given the true propensities of the model."""
    negative = trust_curve(positions, 0.05, 0.25) if trust else np.zeros(positions)
    browsing = browsing_models(power_curve(positions, eta))[name]
    model = ClickModel(browsing, np.full(positions, 0.95 if trust else 1.0), negative)
    relevance = np.array(RELEVANCE[:positions])
    psi, alpha, beta = model.truth(relevance[None], np.ones(1))
    stopping = (PHI, GO_ON) if name == "cascade" else (0.0, 1.0)
    known = Examination(np.diag(psi).copy(), psi, alpha, beta, None, *stopping)
    group = [(positions, _draw(model, relevance, sessions, seed))]
    return {m: _errors(_expected(m, group, known, sessions), relevance) for m in METHODS}


def _draw(model: ClickModel, relevance: np.ndarray, sessions: int, seed: int) -> dict:
    """Click patterns with their number of sessions."""
    rng, size = np.random.default_rng(seed), relevance.size
    counts = np.zeros(2**size, np.int64)
    for start in range(0, sessions, _AT_ONCE):
        pages = min(_AT_ONCE, sessions - start)
        clicks = model.draw(rng, np.broadcast_to(relevance, (pages, size)))
        counts += np.bincount(clicks @ (1 << np.arange(size)), minlength=counts.size)
    return {tuple(p >> np.arange(size) & 1): int(counts[p]) for p in np.flatnonzero(counts)}


def _expected(method: str, group: list, known: Examination, sessions: int) -> np.ndarray:
    """The mean of u_ij over sessions, as a matrix."""
    table = weight_table(method, known, prs_clip=1.0)[None]
    pairs, _ = weigh_histograms(
        histograms(group), np.zeros(1), table, table,
        all_pairs=method in NEEDS_ALL_PAIRS,
        counts=[weightings_of(method)[0].counts],
        stopping=stopping_of([known]),
    )  # fmt: skip
    u = np.zeros((known.depth, known.depth))
    u[pairs.i, pairs.j], u[pairs.j, pairs.i] = pairs.u_ij, pairs.u_ji
    return u / sessions


def _errors(mean: np.ndarray, r: np.ndarray) -> Errors:
    off = ~np.eye(r.size, dtype=bool)
    direction = np.abs(mean - mean.T - (r[:, None] - r))
    weight = np.abs(mean - np.outer(r, 1 - r))
    return Errors(float(direction[off].max()), float(weight[off].max()))
