"""Pages, clicks and first clicks by the ranker that served the page, for A/B tests.

They are a file beside the groups of a date, which it does not split: `ulr ab` reads it, training
does not. Logs without the column `ranker` have no such file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.contract import CheckedPages
from ulr.engine.columns import hashes, valid, whole
from ulr.groups.histograms import pack_pages
from ulr.kernels.hashing import hash_words
from ulr.kernels.merge import group_keys
from ulr.kernels.patterns import first_clicks
from ulr.warehouse.schema import RANKER, rankers_schema

KIND = "rankers"  # of blocks
FILE_PREFIX = "_rankers-"  # the underscore: no file of rows of `groups`
_KEYS = ("query_id", RANKER, "segment", "first_click")
_SUMS = ("pages", "clicks")


def fold_rankers(pages: CheckedPages, rows: np.ndarray, max_position: int) -> pa.Table | None:
    """Return the counts of some pages (int64) with a ranker; None if no page has one."""
    column = pages.batch[RANKER] if RANKER in pages.batch.schema.names else None
    if column is None or column.null_count == len(column):
        return None
    named = valid(column)[rows] & (pc.binary_length(column).fill_null(0).to_numpy()[rows] > 0)
    rows = rows[named]
    if not rows.size:
        return None
    lengths = np.minimum(pages.documents.lengths[rows], max_position)
    first, clicks = first_clicks(lengths, *pack_pages(pages, rows, lengths))
    taken = pages.batch.select(["query_id", RANKER, "segment"]).take(pa.array(rows))
    counts = [pa.array(first.astype(np.int32)), pa.array(np.ones(rows.size, np.int64)),
              pa.array(clicks)]  # fmt: skip
    return merge_rankers([pa.table([*taken.columns, *counts], schema=rankers_schema)])


def merge_rankers(tables: Sequence[pa.Table], partitions: int = 1) -> pa.Table:
    """Add up the counts of equal keys."""
    table = pa.concat_tables(tables).combine_chunks()
    if table.num_rows == 0:
        return table
    rest = table["first_click"].to_numpy().astype(np.uint64)
    segment = whole(table["segment"])
    rest = np.where(valid(segment), hashes(segment, hash_words(rest, rest)), rest)
    key, first = group_keys(hashes(table["query_id"]), hashes(table[RANKER], rest))
    kept = table.select(_KEYS).take(pa.array(first))
    sums = [pa.array(_add(table[name].to_numpy(), key, first.size)) for name in _SUMS]
    return pa.table([*kept.columns, *sums], schema=rankers_schema)


def _add(values: np.ndarray, key: np.ndarray, keys: int) -> np.ndarray:
    total = np.zeros(keys, np.int64)
    np.add.at(total, key, values)
    return total


def negate_rankers(table: pa.Table) -> pa.Table:
    """Return negative counts: merging them subtracts their pages."""
    sums = [pc.negate(table[name]) for name in _SUMS]
    return pa.table([*table.select(_KEYS).columns, *sums], schema=rankers_schema)


def sorted_rankers(table: pa.Table) -> pa.Table:
    """Return the rows in the order in which they are stored, without those of no page."""
    kept = table.filter(pc.not_equal(table["pages"], 0))
    return kept.take(pc.sort_indices(kept, sort_keys=[(name, "ascending") for name in _KEYS]))
