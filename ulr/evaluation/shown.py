"""Displayed documents with their positions and clicks, as flat arrays that every metric reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ulr.engine.columns import hashes
from ulr.features.window import Window
from ulr.kernels.layout import Ragged
from ulr.kernels.patterns import count_positions
from ulr.pairs.gains import ONE_LEVEL, sum_clicks


@dataclass(frozen=True)
class ShownDocuments:
    """The documents of many displayed lists (groups), list after list; all arrays are int64.

    Per document: group and query (indices), position (from 1), clicks (with levels of feedback:
    float64, the sum of their gains), feature_row (row of the window's feature matrix, -1 without
    features). Per group: sessions. row_hash: uint64 per row of
    the window, a hash of query and document.
    """

    window: Window
    lists: Ragged
    group: np.ndarray
    query: np.ndarray
    position: np.ndarray
    clicks: np.ndarray
    feature_row: np.ndarray
    sessions: np.ndarray
    row_hash: np.ndarray

    @property
    def queries(self) -> int:
        """The number of queries."""
        return self.window.queries

    @property
    def query_sessions(self) -> np.ndarray:
        """Sessions per query, float64."""
        return np.bincount(self.window.query, self.sessions, self.queries)

    def sum_by_query(self, values: np.ndarray) -> np.ndarray:
        """Sum a value per document over the documents of each query, float64."""
        return np.bincount(self.query, values, self.queries)

    def document_scores(self, row_scores: np.ndarray | None) -> np.ndarray:
        """Return a score per document, float64; -inf for a document without features.

        row_scores: float64 per row of the feature matrix; None: the displayed order.
        """
        if row_scores is None:
            return -self.position.astype(float)
        known = self.feature_row >= 0
        scores = np.full(known.size, -np.inf)
        scores[known] = row_scores[self.feature_row[known]]
        return scores

    def ranks(self, scores: np.ndarray) -> np.ndarray:
        """Rank the documents of each list by score, from 1; equal scores by hash."""
        ranks = np.empty(scores.size, np.int64)
        by_hash = self.row_hash[self.window.row_of]
        ranks[np.lexsort((by_hash, -scores, self.group))] = self.lists.within() + 1
        return ranks


def load_shown(window: Window, increments: Sequence[float] = ONE_LEVEL) -> ShownDocuments:
    """Lay out the documents of the window's groups. increments: of the gains of its levels."""
    lists = Ragged(window.histograms.group_docs)
    group = lists.owner()
    sessions, _ = count_positions(lists.lengths, window.histograms.patterns)
    return ShownDocuments(
        window=window,
        lists=lists,
        group=group,
        query=window.query[group],
        position=lists.within() + 1,
        clicks=sum_clicks(window.levels, increments),
        feature_row=window.feature_row[window.row_of],
        sessions=sessions,
        row_hash=_hash_rows(window),
    )


def _hash_rows(window: Window) -> np.ndarray:
    """Return a hash of the query and the document of each row, uint64.

    Equal scores are ranked by it: in the order of a table or of a page, which may be a good
    ranking, a model that cannot tell documents apart would look good.
    """
    seeds = hashes(window.query_ids)[Ragged(window.query_rows).owner()]
    return hashes(window.names, seeds)
