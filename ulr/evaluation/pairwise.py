"""The unbiased pairwise loss on held-out clicks, per query (docs/methods.md section 7).

With `joint` weights its expectation is the loss under true relevance for any browsing behaviour
(Kurennoy et al. 2022, eq. 10), whereas plain click metrics mislead (section 6.4 there). Weights
are used without the prior on co-clicks and without the shift to nonnegative values.
"""

from __future__ import annotations

import numpy as np

from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.kernels.layout import WeightedPairs
from ulr.pairs.config import PairConfig
from ulr.pairs.weighting import weigh_histograms


def weigh_shown(shown: ShownDocuments, config: PairConfig) -> WeightedPairs:
    """Return the pairs of every displayed list with a click, with both weights."""
    table_of = shown.window.tables_of(config.segments)
    own = config.tables[0]  # of the method, not of its validation loss
    return weigh_histograms(shown.window.histograms, table_of, own, config.raw)[0]


def pair_loss(
    shown: ShownDocuments, pairs: WeightedPairs, scores: np.ndarray, *, sigmoid: float
) -> Column:
    """Return the loss per pair of documents with features. scores: float64 per shown document.

    The logged ranking is evaluated on the same pairs as every model.
    """
    count = np.diff(pairs.offsets)
    start = np.repeat(shown.window.histograms.group_docs[:-1], count)
    i, j = start + pairs.i, start + pairs.j
    kept = (shown.feature_row[i] >= 0) & (shown.feature_row[j] >= 0)
    gap = sigmoid * (scores[i[kept]] - scores[j[kept]])
    loss = pairs.u_ij[kept] * np.logaddexp(0, -gap) + pairs.u_ji[kept] * np.logaddexp(0, gap)
    query = np.repeat(shown.window.query, count)[kept]
    x = np.bincount(query, loss, shown.queries)
    w = np.bincount(query, minlength=shown.queries).astype(float)
    return Column("pair_loss", None, x, w)
