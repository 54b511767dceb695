"""Displayed documents with their positions and clicks, as flat arrays that every metric reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.features.join import ShownGroups, feature_rows, shown_groups
from ulr.kernels.layout import Ragged
from ulr.kernels.patterns import count_positions


@dataclass(frozen=True)
class ShownDocuments:
    """The documents of many displayed lists (groups), list after list; all arrays are int64.

    Per document: group and query (indices), position (from 1), clicks, feature_row (row of the
    features table, -1 without features). Per group: sessions.
    """

    groups: ShownGroups
    lists: Ragged
    group: np.ndarray
    query: np.ndarray
    position: np.ndarray
    clicks: np.ndarray
    feature_row: np.ndarray
    sessions: np.ndarray

    @property
    def queries(self) -> int:
        """The number of queries."""
        return len(self.groups.query_ids)

    @property
    def query_sessions(self) -> np.ndarray:
        """Sessions per query, float64."""
        return np.bincount(self.groups.query, self.sessions, self.queries)

    def sum_by_query(self, values: np.ndarray) -> np.ndarray:
        """Sum a value per document over the documents of each query, float64."""
        return np.bincount(self.query, values, self.queries)

    def document_scores(self, row_scores: np.ndarray | None) -> np.ndarray:
        """Return a score per document, float64; -inf for a document without features.

        row_scores: float64 per row of the features table; None: the displayed order.
        """
        if row_scores is None:
            return -self.position.astype(float)
        known = self.feature_row >= 0
        scores = np.full(known.size, -np.inf)
        scores[known] = row_scores[self.feature_row[known]]
        return scores

    def ranks(self, scores: np.ndarray) -> np.ndarray:
        """Rank the documents of each list by score, from 1; equal scores keep their order."""
        ranks = np.empty(scores.size, np.int64)
        ranks[np.lexsort((self.position, -scores, self.group))] = self.lists.within() + 1
        return ranks


def load_shown(groups: pa.Table, features: pa.Table) -> ShownDocuments:
    """Lay out the groups of complete queries, and find the features of their documents."""
    shown = shown_groups(groups)
    lists = Ragged(shown.histograms.group_docs)
    group = lists.owner()
    sessions, clicks = count_positions(lists.lengths, shown.histograms.patterns)
    rows = feature_rows(shown, features)
    return ShownDocuments(
        groups=shown,
        lists=lists,
        group=group,
        query=shown.query[group],
        position=lists.within() + 1,
        clicks=clicks,
        feature_row=rows.feature_row[rows.row_of],
        sessions=sessions,
    )
