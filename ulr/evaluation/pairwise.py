"""The pairwise loss on held-out clicks, per query (docs/methods.md section 7.3).

With `joint` weights and the right psi its expectation is the loss under true relevance for any
browsing behaviour in which examination does not depend on clicks (Kurennoy et al. 2022, eq. 10),
whereas plain click metrics mislead (section 6.4 there). Weights are used without the prior on
co-clicks and without the shift to nonnegative values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.kernels.layout import WeightedPairs
from ulr.pairs.config import PairConfig
from ulr.pairs.weighting import weigh_levels


def weigh_shown(
    shown: ShownDocuments, config: PairConfig, increments: Sequence[float]
) -> WeightedPairs:
    """Return the pairs of every displayed list with a click, with both weights."""
    table_of = shown.window.tables_of(config.segments)
    own = config.tables[0]  # of the method, not of its validation loss
    return weigh_levels(shown.window.levels, increments, table_of, own, config.raw)[0]


def pair_loss(
    shown: ShownDocuments,
    pairs: WeightedPairs,
    scores: np.ndarray,
    theta: np.ndarray,
    *,
    curve: np.ndarray,
    width: int,
    sigmoid: float,
) -> Column:
    """Return the loss per displayed pair of documents with features.

    scores: float64 per shown document. theta: float64, curves x positions; curve: int64 per group.
    width: parameters of a curve, of which the first are log theta (`exposure.py`). Those of log psi
    follow after all curves. The logged ranking is evaluated on the same pairs as every model.
    """
    count = np.diff(pairs.offsets)
    group = np.repeat(np.arange(count.size), count)
    start = shown.window.histograms.group_docs[group]
    i, j = start + pairs.i, start + pairs.j
    kept = (shown.feature_row[i] >= 0) & (shown.feature_row[j] >= 0)
    i, j, group = i[kept], j[kept], group[kept]
    gap = sigmoid * (scores[i] - scores[j])
    of_ij, of_ji = np.logaddexp(0, -gap), np.logaddexp(0, gap)
    u_ij, u_ji = pairs.u_ij[kept].astype(float), pairs.u_ji[kept].astype(float)
    x = np.bincount(shown.window.query[group], u_ij * of_ij + u_ji * of_ji, shown.queries)

    # u_ij = clicks_i / theta_i - co-clicks / psi_ij, and the losses are linear in both.
    depth = theta.shape[1]
    of_curve = curve[group]
    by_theta = np.zeros(len(theta) * width)
    for doc, loss in ((i, of_ij), (j, of_ji)):
        k = shown.position[doc] - 1
        slope = shown.clicks[doc] / theta[of_curve, k] * loss
        by_theta -= np.bincount(of_curve * width + k, slope, by_theta.size)
    co_clicked = shown.clicks[i] / theta[of_curve, shown.position[i] - 1] - u_ij
    pair = _pair_number(depth)[shown.position[i] - 1, shown.position[j] - 1]
    size = depth * (depth - 1) // 2
    by_psi = np.bincount(of_curve * size + pair, co_clicked * (of_ij + of_ji), len(theta) * size)
    gradient = np.concatenate([by_theta, by_psi])
    return Column(
        "pair_loss", None, x, _displayed_pairs(shown), np.stack([gradient, np.zeros(gradient.size)])
    )


def _pair_number(depth: int) -> np.ndarray:
    """Return the number of each pair of positions k < l, in the order of their table."""
    number = np.zeros((depth, depth), np.int64)
    number[np.triu_indices(depth, 1)] = np.arange(depth * (depth - 1) // 2)
    return number


def _displayed_pairs(shown: ShownDocuments) -> np.ndarray:
    """Return the pairs of documents with features that each query's sessions displayed."""
    documents = np.bincount(shown.group, shown.feature_row >= 0, shown.lists.lengths.size)
    pairs = shown.sessions * documents * (documents - 1) / 2
    return np.bincount(shown.window.query, pairs, shown.queries)
