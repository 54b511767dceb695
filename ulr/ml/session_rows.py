"""Rows of shown documents to rows of the table `window`: whole queries at a time.

The rows are sorted by query, list and position. They are folded into histograms some lists at a
time, so that memory holds the distinct rankings and documents of a query, not all its sessions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import hashes, list_array, whole
from ulr.errors import InvalidData
from ulr.features.join import join_features
from ulr.groups.histograms import canonical, merge, with_context
from ulr.kernels.layout import Ragged
from ulr.kernels.merge import group_keys
from ulr.ml.feature_rows import feature_rows
from ulr.ml.lists import check_values, chunks_at, list_starts
from ulr.ml.shown import ShownRows, shown_groups
from ulr.warehouse.schema import features_schema

# One row per shown document.
session_schema = pa.schema(
    [
        pa.field("query_id", pa.string(), nullable=False),
        pa.field("list_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("label", pa.float64(), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
        pa.field("doc_id", pa.string()),
        pa.field("segment", pa.string()),
    ]
)


@dataclass(frozen=True)
class RowOptions:
    """golden: labels are grades, not clicks. placed: rows have positions; else their order counts.
    has_documents: rows have ids of documents. max_position: longer lists are cut."""

    golden: bool
    placed: bool
    has_documents: bool
    max_position: int


def window_tables(batches: Iterator[pa.RecordBatch], options: RowOptions) -> Iterator[pa.Table]:
    """Yield rows of `window_schema`, every query once. batches: with `session_schema`."""
    required = ["query_id", "list_id", "position", "label", "features"]
    required += ["doc_id"] if options.has_documents else []
    checked = (check_values(batch, required) for batch in batches)
    groups = documents = None
    for chunk in chunks_at(checked, session_schema, ("query_id", "list_id")):
        own_groups, own_documents = fold_rows(chunk, options)
        groups = own_groups if groups is None else pa.concat_tables([groups, own_groups])
        documents = (
            own_documents if documents is None else pa.concat_tables([documents, own_documents])
        )
        last = chunk["query_id"][-1]
        done = pc.not_equal(groups["query_id"], last)
        if pc.any(done).as_py():
            done_documents = pc.not_equal(documents["query_id"], last)
            yield join_features(groups.filter(done), documents.filter(done_documents))
            groups = groups.filter(pc.invert(done))
            documents = documents.filter(pc.invert(done_documents))
        groups, documents = _compact(groups), _first_rows(documents)
    if groups is not None:
        yield join_features(groups, documents)


def fold_rows(chunk: pa.Table, options: RowOptions) -> tuple[pa.Table, pa.Table]:
    """Return the groups of whole lists, and the first feature row of each document."""
    starts = list_starts(chunk, ("query_id", "list_id"))
    lists = Ragged(np.append(starts, chunk.num_rows))
    position = lists.within() + 1
    if options.placed:
        position = chunk["position"].to_numpy().astype(np.int64)
        _check_positions(chunk, position, lists)
    label = chunk["label"].to_numpy()
    _check_labels(label, options.golden)
    features = feature_rows(whole(chunk["features"]), "featuresCol")
    document = whole(chunk["doc_id"]) if options.has_documents else None
    shown = ShownRows(
        lists.offsets,
        np.arange(chunk.num_rows),
        position,
        label,
        features.hashes() if document is None else np.zeros(chunk.num_rows, np.uint64),
        query=whole(chunk["query_id"]),
        document=document,
        segment=whole(chunk["segment"]),
    )
    groups, shown_documents = shown_groups(shown, options.max_position)
    names = shown_documents.names
    if not options.golden:
        nothing = pa.nulls(names.num_rows, pa.int32())
        names = names.set_column(names.schema.get_field_index("label"), "label", nothing)
    values = features.take(shown_documents.row).reshape(-1)
    column = list_array(np.full(names.num_rows, features.width), pa.array(values))
    documents = names.append_column("features", column).select(features_schema.names)
    return groups, documents.cast(features_schema)


def _check_positions(chunk: pa.Table, position: np.ndarray, lists: Ragged) -> None:
    if (lowest := position.min(initial=1)) < 1:
        raise InvalidData(f"positionCol contains {lowest}; positions begin at 1, the top")
    same = np.flatnonzero((np.diff(position, prepend=0) == 0) & (lists.within() > 0))
    if same.size:
        row = int(same[0])
        raise InvalidData(
            f"positionCol: list {chunk['list_id'][row]} has several rows at position "
            f"{position[row]}; a list shows one document at each position"
        )


def _check_labels(label: np.ndarray, golden: bool) -> None:
    if golden:
        wrong = label[(label < 0) | (label != np.rint(label))]
        expected = "golden labels are integers from 0"
    else:
        wrong = label[~np.isin(label, (0, 1))]
        expected = "a click is 0 or 1; use method='labels' for golden labels"
    if wrong.size:
        raise InvalidData(f"labelCol contains {wrong[0]:g}; {expected}")


def _compact(groups: pa.Table) -> pa.Table:
    """Add up equal rankings of a query."""
    return canonical(merge([with_context(groups)])) if groups.num_rows else groups


def _first_rows(documents: pa.Table) -> pa.Table:
    """Return the first row of each document."""
    query, document = hashes(documents["query_id"]), hashes(documents["doc_id"])
    _, first = group_keys(query, document)
    return documents if first.size == documents.num_rows else documents.take(pa.array(first))
