"""Groups of a window as flat arrays, joined with the rows of a features table.

Names become 64-bit hashes; a (query, document) is identified by the two hashes, 128 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes, offsets_and_values, whole
from ulr.groups.window import sum_window
from ulr.kernels.layout import Histograms
from ulr.kernels.merge import group_keys


@dataclass(frozen=True)
class ShownGroups:
    """Distinct (query, segment, ranking) of a window, by query.

    query: int64 per group, counted from 0; query_ids and query_hash (uint64): one per query.
    docs: the documents of each group in turn. segment: name per group, null for none.
    """

    query_ids: pa.Array
    query_hash: np.ndarray
    query: np.ndarray
    segment: pa.Array
    docs: pa.Array
    histograms: Histograms

    def tables_of(self, segments: Mapping[str, int]) -> np.ndarray:
        """Return the number of each group's segment (int64), 0 if it is not in `segments`."""
        return np.array([segments.get(s, 0) for s in self.segment.to_pylist()], np.int64)


@dataclass(frozen=True)
class Rows:
    """Distinct (query, document), by query.

    row_of: int64 per shown document. query_rows: int64 offsets, queries + 1. names: document per
    row. feature_row: int64 index into the features table, -1 if the document is not in it.
    duplicates: rows of the features table that repeat a (query, document).
    """

    row_of: np.ndarray
    query_rows: np.ndarray
    names: pa.Array
    feature_row: np.ndarray
    duplicates: int


def shown_groups(groups: pa.Table) -> ShownGroups:
    """Sum the groups of a window and number their queries."""
    summed, patterns = sum_window(groups)
    query_hash = hashes(summed["query_id"])
    query, first = group_keys(query_hash, np.zeros(query_hash.size, np.uint64))
    group_docs, docs = offsets_and_values(summed["doc_ids"])
    return ShownGroups(
        query_ids=whole(summed["query_id"]).take(pa.array(first)),
        query_hash=query_hash[first],
        query=query,
        segment=whole(summed["segment"]),
        docs=docs,
        histograms=Histograms(group_docs, patterns),
    )


def feature_rows(shown: ShownGroups, features: pa.Table) -> Rows:
    """Number the distinct documents of each query and find their rows in the features table."""
    query_of_doc = np.repeat(shown.query, shown.histograms.sizes)
    doc_hash = hashes(shown.docs)
    row_of, first = group_keys(shown.query_hash[query_of_doc], doc_hash)
    query_of_row = query_of_doc[first]
    # Number shown rows and feature rows together: equal keys get equal numbers.
    queries = [shown.query_hash[query_of_row], hashes(features["query_id"])]
    documents = [doc_hash[first], hashes(features["doc_id"])]
    key, _ = group_keys(np.concatenate(queries), np.concatenate(documents))
    row_of_feature = key[first.size :]
    matches = np.flatnonzero(row_of_feature < first.size)[::-1]
    feature_row = np.full(first.size, -1, np.int64)
    feature_row[row_of_feature[matches]] = matches  # in reverse, so that the first of several wins
    return Rows(
        row_of=row_of,
        query_rows=np.searchsorted(query_of_row, np.arange(len(shown.query_ids) + 1)),
        names=shown.docs.take(pa.array(first)),
        feature_row=feature_row,
        duplicates=int(matches.size - (feature_row >= 0).sum()),
    )
