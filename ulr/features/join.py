"""Join the groups of a window with feature rows: one row of the table `window` per query.

Names become 64-bit hashes; a (query, document) is identified by the two hashes, 128 bits. With
features by day, the hash of a document contains its features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes, list_array, offsets_and_values, whole
from ulr.features.layout import day_field
from ulr.features.matrix import feature_width, take_features
from ulr.features.versions import by_version
from ulr.groups.window import sum_window
from ulr.kernels.layout import Patterns, offsets_of
from ulr.kernels.merge import group_keys
from ulr.warehouse.schema import window_schema

_NO_REPEATS = np.zeros(0, np.uint64)


class _Groups(NamedTuple):
    """Distinct (query, segment, ranking), sorted. query: int64 per row; first: first row of each
    query; group_docs: int64 offsets of the documents of each row, keys: their hashes."""

    rows: pa.Table
    patterns: Patterns
    query: np.ndarray
    first: np.ndarray
    query_hash: np.ndarray
    group_docs: np.ndarray
    docs: pa.Array
    keys: np.ndarray

    def by_query(self, per_group: np.ndarray) -> np.ndarray:
        """Return the sum of an integer per group over the groups of each query, int64."""
        return np.diff(offsets_of(per_group)[np.append(self.first, self.query.size)])


class _Documents(NamedTuple):
    """Documents of each query, as in `window_schema`.

    sizes, featured, duplicates: int64 per query. feature_row: int64 per featured document, its row
    of the features table. row_of: int64 per shown document, its index within its query.
    """

    names: pa.Array
    sizes: np.ndarray
    featured: np.ndarray
    duplicates: np.ndarray
    labels: pa.Array
    feature_row: np.ndarray
    row_of: np.ndarray


def join_features(groups: pa.Table, features: pa.Table) -> pa.Table:
    """Return rows of `window_schema` for queries whose groups and feature rows are all here.

    groups: rows of `groups_schema`, of any dates. features: rows of `features_schema`; of several
    rows of one document the first counts. Rows of queries without groups are ignored. Both may
    have a column `day`: a group then takes the feature rows of its day.
    """
    repeats = _NO_REPEATS
    if groups.num_rows and day_field.name in features.schema.names:
        groups, features, repeats = by_version(groups, features)
    window, rows = join_rows(groups, features, repeats)
    width = feature_width(features, rows)
    values = pa.array(take_features(features, rows, width).reshape(-1))
    at = window.schema.get_field_index("features")
    column = list_array(window["featured"].to_numpy().astype(np.int64) * width, values)
    return window.set_column(at, window_schema.field(at), column)


def join_rows(
    groups: pa.Table, features: pa.Table, repeats: np.ndarray = _NO_REPEATS
) -> tuple[pa.Table, np.ndarray]:
    """Return the rows of `join_features` with empty lists of features, and where these are.

    features: at least query_id, doc_id and label. repeats: as in `Versions`. The second result is
    the row of `features` (int64) of every document that has one, in the order of the rows.
    """
    if groups.num_rows == 0:
        return window_schema.empty_table(), np.zeros(0, np.int64)
    shown = _sum_groups(groups)
    documents = _number_documents(shown, features, repeats)
    sizes, patterns = np.diff(shown.group_docs), np.diff(shown.patterns.count_offsets)
    lengths = shown.by_query(np.ones(shown.query.size, np.int64))
    columns = {
        "query_id": whole(shown.rows["query_id"]).take(pa.array(shown.first)),
        "doc_ids": list_array(documents.sizes, documents.names),
        "featured": pa.array(documents.featured, pa.int32()),
        "labels": list_array(documents.sizes, documents.labels),
        "features": list_array(documents.featured * 0, pa.array([], pa.float32())),
        "duplicates": pa.array(documents.duplicates, pa.int32()),
        "segments": list_array(lengths, whole(shown.rows["segment"])),
        "rankings": list_array(lengths, whole(shown.rows["ranking"])),
        "group_sizes": list_array(lengths, sizes.astype(np.int32)),
        "doc_rows": list_array(shown.by_query(sizes), documents.row_of.astype(np.int32)),
        "pattern_counts": list_array(lengths, patterns.astype(np.int32)),
        "patterns": list_array(
            shown.by_query(np.diff(shown.patterns.word_offsets)), shown.patterns.words
        ),
        "counts": list_array(shown.by_query(patterns), shown.patterns.counts),
    }
    table = pa.table([columns[name] for name in window_schema.names], schema=window_schema)
    return table, documents.feature_row


def _sum_groups(groups: pa.Table) -> _Groups:
    rows, patterns = sum_window(groups)
    query_hash = hashes(rows["query_id"])
    query, first = group_keys(query_hash, np.zeros(query_hash.size, np.uint64))
    group_docs, docs = offsets_and_values(rows["doc_ids"])
    by_day = "keys" in rows.schema.names
    keys = offsets_and_values(rows["keys"])[1].to_numpy() if by_day else hashes(docs)
    return _Groups(rows, patterns, query, first, query_hash[first], group_docs, docs, keys)


def _number_documents(shown: _Groups, features: pa.Table, repeats: np.ndarray) -> _Documents:
    """repeats: uint64, the query of each feature row that was dropped before."""
    queries = shown.first.size
    query_of_shown = np.repeat(shown.query, np.diff(shown.group_docs))
    # Number the queries of both tables together: a number below `queries` is a shown query.
    feature_query = hashes(features["query_id"])
    every = np.concatenate([shown.query_hash, repeats, feature_query])
    query_of = group_keys(every, np.zeros(every.size, np.uint64))[0][queries:]
    query_of_repeat, query_of_feature = np.split(query_of, [repeats.size])
    used = np.flatnonzero(query_of_feature < queries)
    # Number the documents, those with features first: equal keys get equal numbers.
    query = np.concatenate([query_of_feature[used], query_of_shown])
    document = np.concatenate([_keys(features)[used], shown.keys])
    number, first = group_keys(shown.query_hash[query], document)
    label = whole(features["label"]).take(pa.array(used)).fill_null(-1).to_numpy()
    is_featured = first < used.size
    label_of = np.full(first.size, -1, np.int32)
    label_of[is_featured] = label[first[is_featured]]
    is_golden = label_of >= 0
    if "latest" in features.schema.names:
        latest = features["latest"].to_numpy()[used]
        is_golden[is_featured] &= latest[first[is_featured]]
    is_shown = np.zeros(first.size, bool)
    is_shown[number[used.size :]] = True
    kept = np.flatnonzero(is_shown | is_golden)
    kept = kept[np.argsort(query[first[kept]], kind="stable")]
    query_of_kept = query[first[kept]]
    sizes = np.bincount(query_of_kept, minlength=queries)
    index = np.empty(first.size, np.int64)
    index[kept] = np.arange(kept.size) - offsets_of(sizes)[query_of_kept]
    featured = kept[is_featured[kept]]
    rows_of_shown = is_shown[number[: used.size]]
    shown_featured = is_shown & is_featured
    duplicates = np.bincount(query[: used.size][rows_of_shown], minlength=queries)
    duplicates -= np.bincount(query[first[shown_featured]], minlength=queries)
    duplicates += np.bincount(query_of_repeat, minlength=queries)
    every_name = [whole(features["doc_id"]).take(pa.array(used)), shown.docs]
    return _Documents(
        names=pa.chunked_array(every_name).take(pa.array(first[kept])).combine_chunks(),
        sizes=sizes,
        featured=np.bincount(query[first[featured]], minlength=queries),
        duplicates=duplicates,
        labels=pa.array(label_of[kept], mask=label_of[kept] < 0),
        feature_row=used[first[featured]],
        row_of=index[number[used.size :]],
    )


def _keys(features: pa.Table) -> np.ndarray:
    """Return the hash of each row's document, uint64."""
    if "key" in features.schema.names:
        keys: np.ndarray = features["key"].to_numpy()
        return keys
    return hashes(features["doc_id"])
