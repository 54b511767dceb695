"""Lists with clicks under a known position bias, and their pairs by any method."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.support.pair_samples import histograms, independent_propensities, one_list_per_query
from ulr.pairs.weighting import weigh_histograms
from ulr.pairs.weights import weight_table
from ulr.simulate.browsing import Independent, power_curve
from ulr.training.data import RankingData

DOCS, WIDTH = 8, 5


def clicked_lists(rng, queries, sessions=1):
    """Return features (queries x DOCS x WIDTH) and clicks (queries x sessions x DOCS).

    Relevance depends on the first feature, examination is 1 / position.
    """
    x = rng.normal(size=(queries, DOCS, WIDTH)).astype(np.float32)
    chance = 1 / (1 + np.exp(1 - 1.5 * x[:, :, 0]))
    relevant = rng.random((queries, sessions, DOCS)) < chance[:, None, :]
    flat = relevant.reshape(-1, DOCS)
    examined = Independent(power_curve(DOCS, 1.0)).examine(rng, flat)
    return x, (flat & examined).reshape(queries, sessions, DOCS)


def pairs_of(clicks, method, session="none"):
    """Return the pairs of one group per query."""
    groups = []
    for sessions in clicks:
        patterns, counts = np.unique(sessions, axis=0, return_counts=True)
        groups.append((DOCS, {tuple(p): int(n) for p, n in zip(patterns, counts, strict=True)}))
    given = independent_propensities(power_curve(DOCS, 1.0))
    table = weight_table(method, given)[None]
    made, _ = weigh_histograms(
        histograms(groups), np.zeros(len(groups)), table, table, session=session
    )
    return one_list_per_query(DOCS, made, clicks.sum(axis=1).reshape(-1).astype(np.float32))


def data_of(x, pairs, labels=None):
    rows = pairs.rows
    labels = np.full(rows, -1, np.int32) if labels is None else labels
    names = pa.array([str(q) for q in range(pairs.queries)])
    return RankingData(names, x.reshape(rows, -1), labels, pairs)
