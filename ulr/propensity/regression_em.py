"""Regression-EM (Wang et al. 2018): theta and relevance from logs without a swap experiment.

P(click) = theta_k g_d (docs/methods.md section 3.7), where LightGBM fits the relevance g
(`regression_em_model`). Without features each document has a separate g, shrunk to the mean: a
document shown once and clicked would otherwise get g = 1 and push theta to 1. Without features,
documents shown at only one position are also ignored.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from ulr.propensity.components import connected_components, unlinked_reasons
from ulr.propensity.curve import RelevanceFit, ThetaCurve, jackknife, make_curve
from ulr.propensity.exposures import Exposures

PRIOR_IMPRESSIONS = 2.0  # weight of the mean, in impressions, in the shrinkage of g
TINY = 1e-6
ROUNDS_AGAIN = 2  # without a fold of queries, from the estimate with all


class EmFit(NamedTuple):
    """theta relative to position 1, relevance of every document, and how the fit went.

    slope: of relevance on its prediction, NaN without features. rounds: done.
    """

    theta: np.ndarray
    relevance: np.ndarray
    slope: float
    rounds: int


def em_step(
    theta: np.ndarray, relevance: np.ndarray, shown: Exposures
) -> tuple[np.ndarray, np.ndarray]:
    """Return the examined fraction per position and the relevant fraction per document.

    An impression without a click is examined with probability theta (1 - g) / (1 - theta g) and
    relevant with probability g (1 - theta) / (1 - theta g).
    """
    t, g = theta[shown.position], relevance[shown.document]
    unclicked = (shown.impressions - shown.clicks) / (1 - t * g)
    examined = np.bincount(shown.position, shown.clicks + unclicked * t * (1 - g), theta.size)
    relevant = np.bincount(shown.document, shown.clicks + unclicked * g * (1 - t), relevance.size)
    at_position = np.bincount(shown.position, shown.impressions, theta.size)
    of_document = np.bincount(shown.document, shown.impressions, relevance.size)
    return examined / np.maximum(at_position, 1), relevant / np.maximum(of_document, 1)


def run_em(
    shown: Exposures,
    positions: int,
    *,
    rounds: int,
    trees: int,
    leaves: int,
    threads: int = 0,
    start: np.ndarray | None = None,
) -> EmFit:
    """Estimate theta and relevance in at most `rounds` rounds. start: theta to start with."""
    theta = 1.0 / np.arange(1, positions + 1) ** 0.5 if start is None else start
    if shown.features is None:
        return _without_features(shown, theta, rounds)
    model = import_module("ulr.propensity.regression_em_model")  # imports LightGBM: a second
    fit, done = model.cross_fit(
        shown, theta, rounds=rounds, trees=trees, leaves=leaves, threads=threads
    )
    return EmFit(fit.theta / fit.theta[0], fit.relevance, fit.slope, done)


def _without_features(shown: Exposures, theta: np.ndarray, rounds: int) -> EmFit:
    positions_shown = np.bincount(shown.document, minlength=shown.documents)
    shown = shown.select(positions_shown[shown.document] > 1)
    relevance = np.full(shown.documents, 0.5)
    impressions = np.bincount(shown.document, shown.impressions, shown.documents)
    for _ in range(rounds):
        theta, target = em_step(theta, relevance, shown)
        mean = (target @ impressions) / impressions.sum()
        total = target * impressions + mean * PRIOR_IMPRESSIONS
        relevance = np.clip(total / (impressions + PRIOR_IMPRESSIONS), TINY, 1 - TINY)
        theta = np.clip(theta, TINY, 1 - TINY)
    return EmFit(theta / theta[0], relevance, np.nan, rounds)


def em_curve(
    shown: Exposures,
    positions: int,
    *,
    rounds: int,
    trees: int,
    leaves: int,
    min_clicks: int,
    folds: int = 8,
) -> ThetaCurve:
    """Estimate theta; the standard errors do not include the bias of a misspecified g."""

    run = partial(run_em, positions=positions, trees=trees, leaves=leaves)
    fit = run(shown, rounds=rounds)
    fold_of = shown.block[shown.document] % folds
    again: dict[str, Any] = {"rounds": rounds}
    if shown.features is not None:  # the rounds converge fast, at any start
        again = {"rounds": min(rounds, ROUNDS_AGAIN), "start": fit.theta}
    without = [np.log(run(shown.select(fold_of != i), **again).theta) for i in range(folds)]
    support = np.bincount(shown.position, shown.clicks, positions).astype(np.int64)
    components = _components(shown, positions)
    reasons = {
        int(i) + 1: f"{support[i]:,} clicks, {min_clicks:,} needed"
        for i in np.flatnonzero(support < min_clicks)
        if i > 0
    }
    if shown.features is None:  # only features link positions without a common document
        reasons |= unlinked_reasons(components, components[0])
    relevance = RelevanceFit(
        fit.slope, fit.rounds, int(np.unique(shown.document).size), shown.ignored_documents,
        float(shown.impressions.sum()), shown.ignored_impressions,
    )  # fmt: skip
    return make_curve(
        "regression_em", fit.theta, jackknife(np.array(without)), support, reasons,
        components=components, dof=folds - 1, relevance=relevance,
    )  # fmt: skip


def _components(shown: Exposures, positions: int) -> list[list[int]]:
    """Return the connected components of positions, linked by documents shown at both."""
    order = np.lexsort((shown.position, shown.document))
    document, position = shown.document[order], shown.position[order] + 1
    same = document[1:] == document[:-1]
    edges = np.unique(np.stack([position[:-1][same], position[1:][same]], axis=1), axis=0)
    return connected_components(range(1, positions + 1), [(int(a), int(b)) for a, b in edges])
