"""Regression-EM, Wang et al. 2018: theta and relevance from plain logs by expectation and
maximisation, relevance as a LightGBM function of features.

P(click) = theta_k g_d. E: of the shows without a click, the share that was examined is
theta (1 - g) / (1 - theta g), the share that was relevant g (1 - theta) / (1 - theta g).
M: theta_k is the examined share at k; g is fitted to the relevant shares.

Without features every document has a g of its own, shrunk to the mean as if it had been shown a
few times more: a document seen once and clicked would otherwise get g = 1 and push theta to 1.
Only documents seen at two positions or more speak then.
"""

from __future__ import annotations

from dataclasses import dataclass

import lightgbm as lgb
import numpy as np

from ulr.propensity.curve import Curve
from ulr.propensity.least_squares import connected_components, name_nodes

PRIOR_SHOWS = 2.0


@dataclass(frozen=True)
class Exposures:
    """Clicks and impressions of documents where they were shown; one entry per (d, position).

    document, position (from 0), clicks, impressions: one length. block: block of each document's
    query, for standard errors. features: documents x features, or None.
    """

    document: np.ndarray
    position: np.ndarray
    clicks: np.ndarray
    impressions: np.ndarray
    block: np.ndarray
    features: np.ndarray | None = None


def em_step(
    theta: np.ndarray, relevance: np.ndarray, shown: Exposures
) -> tuple[np.ndarray, np.ndarray]:
    """One expectation: examined share per position, relevant share per document."""
    t, g = theta[shown.position], relevance[shown.document]
    unclicked = (shown.impressions - shown.clicks) / (1 - t * g)
    examined = np.bincount(shown.position, shown.clicks + unclicked * t * (1 - g), theta.size)
    relevant = np.bincount(shown.document, shown.clicks + unclicked * g * (1 - t), relevance.size)
    seen = np.bincount(shown.position, shown.impressions, theta.size)
    shows = np.bincount(shown.document, shown.impressions, relevance.size)
    return examined / np.maximum(seen, 1), relevant / np.maximum(shows, 1)


def run_em(
    shown: Exposures, positions: int, *, rounds: int, trees: int, leaves: int, threads: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """theta relative to position 1, and the documents' relevance."""
    if shown.features is None:
        shown = _moved(shown)
    documents = int(shown.block.size)
    theta = 1.0 / np.arange(1, positions + 1) ** 0.5
    relevance = np.full(documents, 0.5)
    shows = np.bincount(shown.document, shown.impressions, documents)
    dataset = None
    if shown.features is not None:
        dataset = lgb.Dataset(
            shown.features, np.full(documents, 0.5), weight=shows, free_raw_data=False
        )
    for _ in range(rounds):
        theta, target = em_step(theta, relevance, shown)
        if dataset is None:
            mean = (target @ shows) / shows.sum()
            relevance = (target * shows + mean * PRIOR_SHOWS) / (shows + PRIOR_SHOWS)
        else:
            relevance = _regress(dataset, target, trees, leaves, threads)
        relevance = np.clip(relevance, 1e-6, 1 - 1e-6)
        theta = np.clip(theta, 1e-6, 1 - 1e-6)
    return theta / theta[0], relevance


def _regress(
    dataset: lgb.Dataset, target: np.ndarray, trees: int, leaves: int, threads: int
) -> np.ndarray:
    """Cross-entropy on the relevant shares, so that predictions stay probabilities."""
    params = {
        "objective": "cross_entropy",
        "num_leaves": leaves,
        "learning_rate": 0.1,
        "verbosity": -1,
        "deterministic": True,
        "force_col_wise": True,  # else timing chooses, and with it the last bits
        "num_threads": threads,
    }
    dataset.set_label(np.clip(target, 0, 1))
    booster = lgb.train(params, dataset, num_boost_round=trees)
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
) -> Curve:
    """theta with errors from leaving out one fold of queries at a time: of chance, not of the bias
    that a rough g leaves in theta."""
    how = {"rounds": rounds, "trees": trees, "leaves": leaves}
    theta, _ = run_em(shown, positions, **how)
    without = [
        np.log(run_em(_leave_out(shown, fold, folds), positions, **how)[0]) for fold in range(folds)
    ]
    centred = np.array(without) - np.mean(without, axis=0)
    covariance = centred.T @ centred * (folds - 1) / folds
    support = np.bincount(shown.position, shown.clicks, positions).astype(np.int64)
    components = _components(shown, positions)
    refused = _reasons(support, components, shown.features is not None, min_clicks)
    bad = [p - 1 for p in refused]
    theta[bad] = np.nan
    covariance[bad, :] = covariance[:, bad] = np.nan
    places = range(1, positions + 1)
    source = ["insufficient" if p in refused else "estimated" for p in places]
    note = [refused.get(p, "") for p in places]
    return Curve(
        "regression_em", theta, covariance, support, source, note, components, freedom=folds - 1
    )


def _reasons(
    support: np.ndarray, components: list[list[int]], with_features: bool, min_clicks: int
) -> dict[int, str]:
    """Features carry relevance from position to position; single documents need links."""
    refused = {
        int(i) + 1: f"{support[i]:,} clicks, {min_clicks:,} needed"
        for i in np.flatnonzero(support < min_clicks)
        if i > 0
    }
    for other in [] if with_features else components[1:]:
        why = f"nothing links {name_nodes(other)} with {name_nodes(components[0])}"
        refused |= dict.fromkeys(other, why)
    return refused


def _leave_out(shown: Exposures, fold: int, folds: int) -> Exposures:
    kept = shown.block[shown.document] % folds != fold
    return Exposures(
        shown.document[kept],
        shown.position[kept],
        shown.clicks[kept],
        shown.impressions[kept],
        shown.block,
        shown.features,
    )


def _moved(shown: Exposures) -> Exposures:
    """Only the documents that were seen at two positions or more."""
    places = np.bincount(shown.document, minlength=shown.block.size)
    kept = places[shown.document] > 1
    return Exposures(
        shown.document[kept],
        shown.position[kept],
        shown.clicks[kept],
        shown.impressions[kept],
        shown.block,
    )


def _components(shown: Exposures, positions: int) -> list[list[int]]:
    """Positions joined by a document that was seen at both."""
    order = np.lexsort((shown.position, shown.document))
    document, position = shown.document[order], shown.position[order] + 1
    same = document[1:] == document[:-1]
    edges = np.unique(np.stack([position[:-1][same], position[1:][same]], axis=1), axis=0)
    nodes = range(1, positions + 1)
    return connected_components(nodes, [(int(a), int(b)) for a, b in edges])
