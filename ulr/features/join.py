"""Arrow tables of groups and features as the flat arrays that pair kernels read.

Names become 64-bit hashes; a (query, document) is the pair of two, so 128 bits tell rows apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hash_column, lists, patterns_of, whole
from ulr.errors import InvalidData
from ulr.kernels.layout import Histograms
from ulr.kernels.merge import group_keys, merge_patterns


@dataclass(frozen=True)
class ShownGroups:
    """Distinct (query, segment, ranking), by query; equal ones of several dates are one.

    query: int64 per group, counted from 0; query_hash: uint64 per query. docs: every group's
    documents in turn. segment: names, null for none.
    """

    query_ids: pa.Array
    query_hash: np.ndarray
    query: np.ndarray
    segment: pa.Array
    docs: pa.Array
    histograms: Histograms

    def tables_of(self, segments: Mapping[str, int]) -> np.ndarray:
        """The number of every group's segment, 0 for those without one."""
        return np.array([segments.get(s, 0) for s in self.segment.to_pylist()], np.int64)


@dataclass(frozen=True)
class Rows:
    """Distinct (query, document), query after query.

    row_of: int64 per shown document. query_rows: int64 offsets. names: document per row.
    feature_row: int64 index into the features table, -1 where it has none.
    """

    row_of: np.ndarray
    query_rows: np.ndarray
    names: pa.Array
    feature_row: np.ndarray
    duplicates: int


def shown_groups(groups: pa.Table) -> ShownGroups:
    """Sort by query and ranking, then add up the histograms of equal groups."""
    order = [(name, "ascending") for name in ("query_id", "segment", "ranking")]
    groups = groups.sort_by(order).combine_chunks()
    query_hash = hash_column(groups["query_id"])
    key = hash_column(groups["segment"], query_hash)
    ranking = groups["ranking"].to_numpy().view(np.uint64)
    group, first = group_keys(key, ranking)
    merged = merge_patterns(group, first.size, patterns_of(groups))
    kept = groups.take(pa.array(first))
    offsets, docs = list_column(kept["doc_ids"])
    query, query_first = group_keys(query_hash[first], np.zeros(first.size, np.uint64))
    return ShownGroups(
        query_ids=whole(kept["query_id"]).take(pa.array(query_first)),
        query_hash=query_hash[first][query_first],
        query=query,
        segment=whole(kept["segment"]),
        docs=docs,
        histograms=Histograms(offsets, merged),
    )


def feature_rows(shown: ShownGroups, features: pa.Table) -> Rows:
    """Number the distinct documents of every query and find the features of each."""
    query_of_doc = np.repeat(shown.query, shown.histograms.sizes)
    doc_hash = hash_column(shown.docs)
    row_of, first = group_keys(shown.query_hash[query_of_doc], doc_hash)
    query_rows = np.searchsorted(query_of_doc[first], np.arange(len(shown.query_ids) + 1))
    high = np.concatenate(
        [shown.query_hash[query_of_doc[first]], hash_column(features["query_id"])]
    )
    low = np.concatenate([doc_hash[first], hash_column(features["doc_id"])])
    found = group_keys(high, low)[0][first.size :]
    wanted = np.flatnonzero(found < first.size)
    feature_row = np.full(first.size, -1, np.int64)
    feature_row[found[wanted[::-1]]] = wanted[::-1]  # the first of several stays
    return Rows(
        row_of=row_of,
        query_rows=query_rows.astype(np.int64),
        names=shown.docs.take(pa.array(first)),
        feature_row=feature_row,
        duplicates=int(wanted.size - (feature_row >= 0).sum()),
    )


def feature_width(features: pa.Table, rows: np.ndarray) -> int:
    """Features of a row; each of these rows must be as long as the first."""
    if rows.size == 0:
        return 0
    lengths = lists(features["features"]).lengths
    width = int(lengths[rows[0]])
    if (lengths[rows] != width).any():
        odd = int(rows[np.flatnonzero(lengths[rows] != width)[0]])
        raise InvalidData(
            f"features of query {features['query_id'][odd]}, document {features['doc_id'][odd]}: "
            f"{lengths[odd]} values where another row has {width}; one length for all"
        )
    return width


def feature_matrix(features: pa.Table) -> np.ndarray:
    """All rows as float32, rows x width; not copied if they are float32 already."""
    width = feature_width(features, np.arange(features.num_rows))
    _, values = list_column(features["features"])
    return _floats(values).reshape(features.num_rows, width)


def take_features(features: pa.Table, rows: np.ndarray, width: int) -> np.ndarray:
    """The chosen rows, which are of this width."""
    if rows.size == 0:
        return np.zeros((0, width), np.float32)
    offsets, values = list_column(features["features"])
    lengths, flat = np.diff(offsets), _floats(values)
    as_wide = lengths == width
    if not as_wide.all():  # others are of documents that were never shown
        flat, rows = flat[np.repeat(as_wide, lengths)], (np.cumsum(as_wide) - 1)[rows]
    return flat.reshape(-1, width)[rows]


def _floats(values: pa.Array) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)


def list_column(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Offsets from 0 (int64, n + 1) and the values they cut."""
    array = whole(column)
    offsets = np.asarray(array.offsets, np.int64)
    return offsets - offsets[0], array.flatten()
