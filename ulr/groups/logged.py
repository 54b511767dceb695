"""Features that pages recorded: the last vector of every (query, document) of a date.

A page gives a row of `logged_features_schema` for every document with a vector. Merging tables
keeps the largest (time, hash of the vector) of each document and adds up the pages that showed it,
in any order and any grouping. Pages that are dropped later are subtracted from that number. Where
none is left, an earlier vector is the last one, and the rows are counted as stale.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.contract import CheckedPages
from ulr.clicklog.vectors import bits_of, hash_vectors, take_vectors
from ulr.engine.columns import hashes, lists, valid, whole
from ulr.kernels.hashing import hash_lists
from ulr.kernels.latest import latest_rows
from ulr.kernels.layout import Ragged
from ulr.kernels.merge import group_keys
from ulr.warehouse.schema import FEATURES, logged_features_schema

KIND = "logged"  # of blocks
_ORDER = [("query_id", "ascending"), ("doc_id", "ascending")]


def schema_named(names: Sequence[str]) -> pa.Schema:
    """Return the schema of the table with the names of the features, if they have names."""
    at = logged_features_schema.get_field_index(FEATURES)
    field = logged_features_schema.field(at)
    if not names:
        return logged_features_schema
    named = field.with_metadata({"names": json.dumps(list(names))})
    return logged_features_schema.set(at, named)


def fold_features(pages: CheckedPages, rows: np.ndarray, max_position: int) -> pa.Table:
    """Return the last vector of each document of some pages (int64), down to `max_position`."""
    recorded = pages.features
    if recorded is None or not rows.size:
        return logged_features_schema.empty_table()
    shown = Ragged.from_lengths(np.minimum(recorded.lengths[rows], max_position))
    page, place = rows[shown.owner()], shown.within()
    at = recorded.starts[page] + place
    if recorded.values.null_count:
        present = valid(recorded.values)[at]
        page, place, at = page[present], place[present], at[present]
    starts, lengths, numbers = lists(recorded.values)
    document = pages.documents.starts[page] + place
    key, first = group_keys(hashes(pages.batch["query_id"])[page], pages.document_hashes[document])
    time = whole(pages.batch["shown_at"]).cast(pa.int64()).fill_null(0).to_numpy()[page]
    content = hash_lists(starts[at], lengths[at], bits_of(numbers))
    best, count = latest_rows(key, first.size, time, content, np.ones(page.size, np.int64))
    columns = [
        pages.batch["query_id"].take(pa.array(page[best])),
        pages.documents.values.take(pa.array(document[best])),
        take_vectors(recorded.values, at[best]),
        pages.batch["shown_at"].take(pa.array(page[best])),
        pa.array(count),
    ]
    return pa.table(columns, schema=logged_features_schema)


def merge_features(tables: Sequence[pa.Table], partitions: int = 1) -> pa.Table:
    """Return the last vector of each document of all tables."""
    table = pa.concat_tables(tables).combine_chunks()
    if table.num_rows == 0:
        return table
    key, first = group_keys(hashes(table["query_id"]), hashes(table["doc_id"]))
    time = table["shown_at"].cast(pa.int64()).to_numpy()
    content, pages = hash_vectors(table[FEATURES]), table["pages"].to_numpy()
    best, count = latest_rows(key, first.size, time, content, pages)
    merged = table if best.size == key.size else table.take(pa.array(best))
    at = table.schema.get_field_index("pages")
    return merged.set_column(at, table.schema.field(at), pa.array(count))


def negate_features(table: pa.Table) -> pa.Table:
    """Return rows that subtract their pages when they are merged."""
    at = table.schema.get_field_index("pages")
    return table.set_column(at, table.schema.field(at), pc.negate(table["pages"]))


def sorted_features(table: pa.Table) -> pa.Table:
    """Return the rows in the order in which they are stored, without those of no page."""
    kept = table.filter(pc.greater(table["pages"], 0))
    return kept.take(pc.sort_indices(kept, sort_keys=_ORDER))


def count_stale(table: pa.Table) -> int:
    """Return the number of documents whose last vector was only on pages that were dropped."""
    return int(pc.sum(pc.less_equal(table["pages"], 0)).as_py() or 0)
