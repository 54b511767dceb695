"""The map side of the groups: pages of a task to partial tables, sent to reducers by query."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np

from ulr.clicklog.contract import CheckedPages
from ulr.engine.blocks import bytes_block
from ulr.engine.interface import Blocks
from ulr.groups import logged, rankers
from ulr.groups.histograms import fold_pages, merge, negate
from ulr.groups.pending import Pending

GROUPS = "groups"  # kind of blocks


class Folder:
    """Folds pages into partial groups, and what pages recorded besides, and sends them.

    sign: -1 for pages to subtract.
    """

    def __init__(self, partitions: int, max_position: int, sign: int = 1) -> None:
        self.counts: Counter[str] = Counter()
        self._max_position, self._sign = max_position, sign
        self._groups = Pending(GROUPS, merge, partitions)
        self._features = Pending(logged.KIND, logged.merge_features, partitions)
        self._rankers = Pending(rankers.KIND, rankers.merge_rankers, partitions)

    def add(self, pages: CheckedPages, rows: np.ndarray) -> Blocks:
        """Fold some pages of a batch (int64)."""
        self.counts["pages"] += self._sign * rows.size
        cut = int((pages.documents.lengths[rows] > self._max_position).sum())
        self.counts["cut"] += self._sign * cut
        table = fold_pages(pages, rows, self._max_position)
        yield from self._groups.add(table if self._sign > 0 else negate(table))
        counted = rankers.fold_rankers(pages, rows, self._max_position)
        if counted is not None:
            counted = counted if self._sign > 0 else rankers.negate_rankers(counted)
            yield from self._rankers.add(counted)
        yield from self.add_features(pages, rows)

    def add_features(self, pages: CheckedPages, rows: np.ndarray) -> Blocks:
        """Fold only the features that some pages of a batch (int64) recorded."""
        if pages.features is None:
            return
        table = logged.fold_features(pages, rows, self._max_position)
        if table.num_rows:
            table = table if self._sign > 0 else logged.negate_features(table)
            yield from self._features.add(table)

    def finish(self) -> Blocks:
        """Send what is left, and the counts."""
        for pending in (self._groups, self._rankers, self._features):
            yield from pending.send()
        yield bytes_block(0, "counts", json.dumps(self.counts).encode())  # any reducer will do
