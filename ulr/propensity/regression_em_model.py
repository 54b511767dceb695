"""The relevance model of regression-EM: LightGBM, cross-fitted by query (docs/methods.md 3.7).

Every document gets its relevance from trees that were fitted to the queries of the other half. The
trees maximise the likelihood of the clicks, P(click) = theta g, with g = sigmoid(score). Fitting
them to the relevant fractions of an E step instead would smooth g again in every round, because
these fractions contain the previous g, most of all at deep positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
from scipy.special import expit

from ulr.errors import InvalidData
from ulr.propensity.exposures import Exposures

MIN_INFORMATION = 10.0  # of a leaf, about in clicks
HIGHEST = 0.999  # theta(1), because clicks do not identify the scale, and the largest theta
TINY = 1e-6
MAX_STEP = 1.0  # of a Newton step, on the log or logit scale
THETA_STEPS = 20
PATIENCE = 2  # rounds without a higher likelihood


class CrossFit(NamedTuple):
    """theta, relevance of every document, and the log likelihood of the clicks.

    slope: of relevance on its prediction; 1 is calibrated.
    """

    theta: np.ndarray
    relevance: np.ndarray
    log_likelihood: float
    slope: float


def cross_fit(
    shown: Exposures, theta: np.ndarray, *, rounds: int, trees: int, leaves: int, threads: int
) -> tuple[CrossFit, int]:
    """Repeat until the likelihood of clicks, with relevance from the other half, stops rising.

    Returns the last round, which is the nearest to the fixed point, and the number of rounds.
    theta: to start with.
    """
    half = _halves(shown)
    folds = [_Fold(shown, half == i, leaves, threads) for i in (0, 1)]
    likelihoods: list[float] = []
    while len(likelihoods) < rounds:
        score = np.zeros(shown.documents)
        for fitted, other in (folds, folds[::-1]):
            score[other.documents] = fitted.predict(other, theta, trees)
        fit = _fit_theta(score, theta, shown)
        theta = fit.theta
        likelihoods.append(fit.log_likelihood)
        if len(likelihoods) - 1 - int(np.argmax(likelihoods)) == PATIENCE:
            break
    return fit, len(likelihoods)


def _halves(shown: Exposures) -> np.ndarray:
    """Return 0 or 1 for every document that was shown, by the block of its query, and else -1."""
    used = np.unique(shown.document)
    blocks, number = np.unique(shown.block[used], return_inverse=True)
    if blocks.size < 2:
        raise InvalidData(
            "regression_em needs shown queries in two blocks or more, because relevance is "
            "predicted by a model of other queries; use more queries"
        )
    half = np.full(shown.documents, -1)
    half[used] = number % 2
    return half


@dataclass
class _Fold:
    """The documents of one half with their exposures, and the trees' data."""

    documents: np.ndarray
    shown: Exposures
    data: lgb.Dataset
    params: dict[str, Any]

    def __init__(self, shown: Exposures, member: np.ndarray, leaves: int, threads: int) -> None:
        assert shown.features is not None
        self.documents = np.flatnonzero(member)
        own = shown.select(member[shown.document])
        self.shown = replace(
            own,
            document=np.searchsorted(self.documents, own.document),
            block=own.block[self.documents],
            features=shown.features[self.documents],
        )
        self.params = {
            "num_leaves": leaves,
            "learning_rate": 0.1,
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": MIN_INFORMATION,
            "verbosity": -1,
            "deterministic": True,
            "force_col_wise": True,  # otherwise LightGBM decides by timing, and last bits vary
            "num_threads": threads,
        }
        features, zeros = self.shown.features, np.zeros(self.documents.size)
        self.data = lgb.Dataset(features, zeros, params=self.params, free_raw_data=False)

    def predict(self, other: _Fold, theta: np.ndarray, trees: int) -> np.ndarray:
        """Fit trees to the clicks of this half; return the scores of the other's documents.

        theta follows the trees: at first it explains the clicks with equal relevance.
        """
        shown = self.shown
        mean = shown.clicks.sum() / (shown.impressions @ theta[shown.position])
        start = np.log(np.clip(mean, TINY, 1 - TINY)) - np.log1p(-np.clip(mean, TINY, 1 - TINY))
        self.data.set_init_score(np.full(self.documents.size, start))
        state = {"theta": theta}

        def objective(scores: np.ndarray, _: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
            g = expit(scores)
            state["theta"] = _newton_theta(state["theta"], g, shown)
            residual, information = _residuals(state["theta"], g, shown)
            unlike = 1 - g
            gradient = unlike * np.bincount(shown.document, residual, g.size)
            return -gradient, unlike**2 * np.bincount(shown.document, information, g.size)

        booster = lgb.train(self.params | {"objective": objective}, self.data, trees)
        return start + np.asarray(booster.predict(other.shown.features, raw_score=True))


def _residuals(theta: np.ndarray, g: np.ndarray, shown: Exposures) -> tuple[np.ndarray, np.ndarray]:
    """Return the derivative of the log likelihood of each entry by log (theta g), and its
    information.
    """
    p = np.minimum(theta[shown.position] * g[shown.document], 1 - TINY)
    return (shown.clicks - shown.impressions * p) / (1 - p), shown.impressions * p / (1 - p)


def _newton_theta(theta: np.ndarray, g: np.ndarray, shown: Exposures) -> np.ndarray:
    """Return theta after a step of Fisher scoring; g is the click rate at position 1."""
    residual, information = (
        np.bincount(shown.position, x, theta.size) for x in _residuals(theta, g, shown)
    )
    step = np.clip(residual / np.maximum(information, TINY), -MAX_STEP, MAX_STEP)
    theta = np.clip(theta * np.exp(step), TINY, HIGHEST)
    return np.minimum(theta * (HIGHEST / theta[0]), HIGHEST)


def _fit_theta(score: np.ndarray, theta: np.ndarray, shown: Exposures) -> CrossFit:
    """Return the most likely theta for the scores of all documents."""
    relevance = np.clip(expit(score), TINY, 1 - TINY)
    for _ in range(THETA_STEPS):
        theta = _newton_theta(theta, relevance, shown)
    p = theta[shown.position] * relevance[shown.document]
    unclicked = shown.impressions - shown.clicks
    log_likelihood = float(shown.clicks @ np.log(p) + unclicked @ np.log1p(-p))
    return CrossFit(theta, relevance, log_likelihood, _slope(relevance, theta, shown))


def _slope(prediction: np.ndarray, theta: np.ndarray, shown: Exposures) -> float:
    """Return the slope of clicks / theta on the prediction, weighted by examined impressions."""
    weight = shown.impressions * theta[shown.position]
    x, y = prediction[shown.document], shown.clicks / np.maximum(weight, TINY)
    x = x - np.average(x, weights=weight)
    variation = weight @ x**2
    return float(weight @ (x * y) / variation) if variation > TINY else np.nan
