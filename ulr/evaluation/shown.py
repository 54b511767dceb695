"""Displayed documents with their positions and clicks, as flat arrays that every metric reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.features.join import ShownGroups, feature_rows, shown_groups
from ulr.kernels.patterns import count_positions


@dataclass(frozen=True)
class ShownDocuments:
    """The documents of many displayed lists (groups), list after list; all arrays are int64.

    Per document: group and query (indices), position (from 1), clicks, feature_row (row of the
    features table, -1 without features). Per group: sessions.
    """

    groups: ShownGroups
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
        order = np.lexsort((self.position, -scores, self.group))
        ranks = np.empty(order.size, np.int64)
        starts = self.groups.histograms.group_docs
        ranks[order] = np.arange(order.size) - starts[self.group[order]] + 1
        return ranks


def load_shown(groups: pa.Table, features: pa.Table) -> ShownDocuments:
    """Lay out the groups of complete queries, and find the features of their documents."""
    lists = shown_groups(groups)
    histograms = lists.histograms
    sessions, clicks = count_positions(
        histograms.sizes, histograms.word_offsets, histograms.words, histograms.count_offsets,
        histograms.counts,
    )  # fmt: skip
    group = np.repeat(np.arange(histograms.sizes.size), histograms.sizes)
    rows = feature_rows(lists, features)
    return ShownDocuments(
        groups=lists,
        group=group,
        query=lists.query[group],
        position=np.arange(group.size) - histograms.group_docs[group] + 1,
        clicks=clicks,
        feature_row=rows.feature_row[rows.row_of],
        sessions=sessions,
    )
