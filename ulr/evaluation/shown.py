"""What was shown and clicked, as flat arrays: the ground that every metric stands on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.features.join import Rows, ShownGroups, feature_rows, shown_groups
from ulr.kernels.layout import Ragged
from ulr.kernels.patterns import count_positions


@dataclass(frozen=True)
class ShownDocuments:
    """Groups with their documents one after the other.

    group, query, position (from 1), clicks: int64 per shown document. sessions: int64 per group.
    """

    shown: ShownGroups
    rows: Rows
    group: np.ndarray
    query: np.ndarray
    position: np.ndarray
    clicks: np.ndarray
    sessions: np.ndarray

    @property
    def queries(self) -> int:
        """How many there are."""
        return len(self.shown.query_ids)

    def by_query(self, values: np.ndarray) -> np.ndarray:
        """Sums per query of something per shown document."""
        return np.bincount(self.query, values, self.queries)

    @property
    def query_sessions(self) -> np.ndarray:
        """Sessions of every query."""
        return np.bincount(self.shown.query, self.sessions, self.queries)

    def document_scores(self, by_feature_row: np.ndarray | None) -> np.ndarray:
        """Per shown document: the model's score, lowest of all where it has no features.

        None stands for the ranking that was shown: a place down is one less.
        """
        if by_feature_row is None:
            return -self.position.astype(float)
        at = self.rows.feature_row[self.rows.row_of]
        known = at >= 0
        scores = np.full(at.size, -np.inf)
        scores[known] = by_feature_row[at[known]]
        return scores

    def ranks(self, scores: np.ndarray) -> np.ndarray:
        """Rank from 1 of every shown document within its list; equal scores keep their order."""
        order = np.lexsort((self.position, -scores, self.group))
        ranks = np.empty(order.size, np.int64)
        starts = self.shown.histograms.group_docs
        ranks[order] = np.arange(order.size) - starts[self.group[order]] + 1
        return ranks


def see(groups: pa.Table, features: pa.Table) -> ShownDocuments:
    """The groups of whole queries, matched with their features."""
    shown = shown_groups(groups)
    histograms = shown.histograms
    sessions, clicks = count_positions(histograms.sizes, histograms.patterns)
    lists = Ragged(histograms.group_docs)
    group = lists.owner()
    return ShownDocuments(
        shown=shown,
        rows=feature_rows(shown, features),
        group=group,
        query=shown.query[group],
        position=lists.within() + 1,
        clicks=clicks,
        sessions=sessions,
    )
