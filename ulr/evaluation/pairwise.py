"""The unbiased pairwise loss of held-out clicks, per query (Kurennoy eq. 10; METHODS section 7).

Plain click metrics mislead (Kurennoy 6.4): with `joint` weights the expectation of this one is
the loss under true relevance, however users browse. Weights are taken as they are: no prior, no
repair.
"""

from __future__ import annotations

import numpy as np

from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.kernels.layout import WeightedPairs
from ulr.pairs.config import PairConfig
from ulr.pairs.weighting import weigh_histograms


def weigh_shown(seen: ShownDocuments, pair_config: PairConfig) -> WeightedPairs:
    """Every pair of every list that a click tells of, with both its weights."""
    names = seen.shown.segment.to_pylist()
    table_of = np.array([pair_config.segments.get(s, 0) for s in names], np.int64)
    return weigh_histograms(seen.shown.histograms, table_of, pair_config.tables, pair_config.raw)[0]


def pair_loss_column(
    seen: ShownDocuments, pairs: WeightedPairs, scores: np.ndarray, *, sigmoid: float
) -> Column:
    """Loss per pair. scores: per shown document; a document without one takes no part."""
    count = np.diff(pairs.offsets)
    first = np.repeat(seen.shown.histograms.group_docs[:-1], count)
    query = np.repeat(seen.shown.query, count)
    # Which documents have features, not who is scored, decides: every model is judged by the
    # same pairs, and so is the ranking that was shown.
    present = seen.rows.feature_row[seen.rows.row_of] >= 0
    i, j = first + pairs.i, first + pairs.j
    kept = present[i] & present[j]
    gap = sigmoid * (scores[i[kept]] - scores[j[kept]])
    loss = pairs.u_ij[kept] * np.logaddexp(0, -gap) + pairs.u_ji[kept] * np.logaddexp(0, gap)
    x = np.bincount(query[kept], loss, seen.queries)
    w = np.bincount(query[kept], minlength=seen.queries).astype(float)
    return Column("pair_loss", None, x, w)
