"""Regression-EM (Wang et al. 2018): theta and relevance from logs without a swap experiment.

P(click) = theta_k g_d (docs/methods.md section 3.7), where LightGBM fits the relevance g. Without
features each document has a separate g, shrunk to the mean: a document shown once and clicked would
otherwise get g = 1 and push theta to 1. Without features, documents shown at only one position are
also ignored.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from ulr.propensity.components import connected_components, unlinked_reasons
from ulr.propensity.curve import ThetaCurve, jackknife, make_curve
from ulr.propensity.exposures import Exposures

if TYPE_CHECKING:
    import lightgbm as lgb

PRIOR_IMPRESSIONS = 2.0  # weight of the mean, in impressions, in the shrinkage of g


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
    shown: Exposures, positions: int, *, rounds: int, trees: int, leaves: int, threads: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return theta relative to position 1 (positions) and the relevance of every document."""
    if shown.features is None:
        positions_shown = np.bincount(shown.document, minlength=shown.documents)
        shown = shown.select(positions_shown[shown.document] > 1)
    theta = 1.0 / np.arange(1, positions + 1) ** 0.5
    relevance = np.full(shown.documents, 0.5)
    impressions = np.bincount(shown.document, shown.impressions, shown.documents)
    dataset = None
    if shown.features is not None:
        lightgbm = import_module("lightgbm")  # takes a second; no other estimator needs it
        dataset = lightgbm.Dataset(
            shown.features, relevance, weight=impressions, free_raw_data=False
        )
    for _ in range(rounds):
        theta, target = em_step(theta, relevance, shown)
        if dataset is None:
            mean = (target @ impressions) / impressions.sum()
            total = target * impressions + mean * PRIOR_IMPRESSIONS
            relevance = total / (impressions + PRIOR_IMPRESSIONS)
        else:
            relevance = _regress(dataset, target, trees, leaves, threads)
        relevance = np.clip(relevance, 1e-6, 1 - 1e-6)
        theta = np.clip(theta, 1e-6, 1 - 1e-6)
    return theta / theta[0], relevance


def _regress(
    dataset: lgb.Dataset, target: np.ndarray, trees: int, leaves: int, threads: int
) -> np.ndarray:
    """Fit the relevant fractions by cross-entropy, so that predictions are probabilities."""
    params = {
        "objective": "cross_entropy",
        "num_leaves": leaves,
        "learning_rate": 0.1,
        "verbosity": -1,
        "deterministic": True,
        "force_col_wise": True,  # otherwise LightGBM decides by timing, and the last bits vary
        "num_threads": threads,
    }
    dataset.set_label(np.clip(target, 0, 1))
    booster = import_module("lightgbm").train(params, dataset, num_boost_round=trees)
    return np.asarray(booster.predict(dataset.get_data()))


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

    def estimate(exposures: Exposures) -> np.ndarray:
        return run_em(exposures, positions, rounds=rounds, trees=trees, leaves=leaves)[0]

    theta = estimate(shown)
    fold_of = shown.block[shown.document] % folds
    leave_one_out = [np.log(estimate(shown.select(fold_of != fold))) for fold in range(folds)]
    support = np.bincount(shown.position, shown.clicks, positions).astype(np.int64)
    components = _components(shown, positions)
    reasons = {
        int(i) + 1: f"{support[i]:,} clicks, {min_clicks:,} needed"
        for i in np.flatnonzero(support < min_clicks)
        if i > 0
    }
    if shown.features is None:  # only features link positions without a common document
        reasons |= unlinked_reasons(components, components[0])
    return make_curve(
        "regression_em", theta, jackknife(np.array(leave_one_out)), support, reasons,
        components=components, dof=folds - 1,
    )  # fmt: skip


def _components(shown: Exposures, positions: int) -> list[list[int]]:
    """Return the connected components of positions, linked by documents shown at both."""
    order = np.lexsort((shown.position, shown.document))
    document, position = shown.document[order], shown.position[order] + 1
    same = document[1:] == document[:-1]
    edges = np.unique(np.stack([position[:-1][same], position[1:][same]], axis=1), axis=0)
    return connected_components(range(1, positions + 1), [(int(a), int(b)) for a, b in edges])
