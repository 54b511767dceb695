"""The propensities that a method is given: true, assumed, or estimated from further pages."""

from __future__ import annotations

import numpy as np

from tests.bench.papers.worlds import Pages, World
from tests.support.shuffle_lab import draw_shuffles
from ulr.propensity.estimators import swap_curve
from ulr.propensity.examination import Examination
from ulr.propensity.exposures import Exposures
from ulr.propensity.regression_em import run_em
from ulr.simulate.randomness import stream

EM_ROUNDS, EM_TREES, EM_LEAVES = 20, 100, 15
FLOOR = 1e-3  # of an estimated theta, where a position has no clicks


def propensities(name: str, pages: Pages, world: World, seed: int) -> Examination:
    """Return what `name` means: true, shuffle, regression_em, or eta=X for an assumed curve."""
    if name == "true":
        return pages.truth
    if name.startswith("eta="):
        return _of_theta(world.theta(float(name[4:])))
    estimate = {"shuffle": _shuffle, "regression_em": _regression_em}[name]
    return _of_theta(estimate(pages, seed))


def _shuffle(pages: Pages, seed: int) -> np.ndarray:
    """Estimate from as many shuffled pages as the log has."""
    rng = stream(seed, "shuffled pages", 0)
    counts = draw_shuffles(rng, pages.model, pages.relevance, pages.query.size)
    return swap_curve(counts, "shuffle", min_clicks=1).theta


def _regression_em(pages: Pages, seed: int) -> np.ndarray:
    """Estimate from the log itself, with relevance by trees on features."""
    queries, positions = pages.documents.shape
    impressions = np.bincount(pages.query, minlength=queries).astype(float)
    clicks = np.zeros((queries, positions))
    np.add.at(clicks, pages.query, pages.clicks)
    shown = (pages.documents >= 0) & (impressions > 0)[:, None]
    row, position = np.nonzero(shown)
    exposures = Exposures(
        np.arange(row.size), position, clicks[shown], impressions[row], row,
        pages.corpus.features[pages.documents[shown]],
    )  # fmt: skip
    return run_em(
        exposures, positions, rounds=EM_ROUNDS, trees=EM_TREES, leaves=EM_LEAVES, threads=1
    )[0]


def _of_theta(theta: np.ndarray) -> Examination:
    """Return independent browsing; a position without an estimate takes that of the one above."""
    theta = np.asarray(theta, float).copy()
    for k in np.flatnonzero(np.isnan(theta)):
        theta[k] = theta[k - 1]
    theta = np.clip(theta / theta[0], FLOOR, None)
    psi = np.outer(theta, theta)
    np.fill_diagonal(psi, theta)
    return Examination(theta, psi)
