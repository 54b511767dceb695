"""Tables of click-pattern histograms: fold pages into them, merge them, cut them.

A page is a histogram with one pattern and one session. Merging tables adds the counts of equal
patterns under equal keys, in any order and any grouping, so map tasks and reducers use one `merge`.

A table in transit has the columns of `groups_schema` and `context`, a hash of (query, segment,
bucket, arm). Rows with equal (context, ranking) are one group: for two groups to be confused, they
would have to share the query or the ranking and collide in the other 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.contract import CheckedPages
from ulr.engine.blocks import hash_parts
from ulr.engine.columns import bitmap, hashes, list_array, patterns_of, valid
from ulr.kernels.hashing import SEED, hash_lists, hash_words
from ulr.kernels.layout import Patterns, Ragged
from ulr.kernels.merge import group_keys, merge_patterns
from ulr.kernels.patterns import pack_clicks, pack_levels
from ulr.warehouse.schema import groups_schema

transit_schema = pa.schema([*groups_schema, pa.field("context", pa.uint64(), nullable=False)])

_KEYS = ["query_id", "segment", "bucket", "swapped"]
ORDER = [(name, "ascending") for name in (*_KEYS, "ranking")]


def fold_pages(pages: CheckedPages, rows: np.ndarray, max_position: int) -> pa.Table:
    """Return the histograms of some rows of a batch, lists cut at `max_position`.

    rows: int64 indices of good pages. The table has `transit_schema`.
    """
    documents = pages.documents
    lengths = np.minimum(documents.lengths[rows], max_position)
    word_offsets, words = pack_pages(pages, rows, lengths)
    ranking = hash_lists(documents.starts[rows], lengths, pages.document_hashes)
    context = _context(pages.batch, rows)
    group, first = group_keys(context, ranking)
    pages_each = Patterns(
        word_offsets, words, np.arange(rows.size + 1), np.ones(rows.size, np.int64)
    )
    merged = merge_patterns(group, first.size, pages_each)
    kept = pages.batch.take(pa.array(rows[first]))
    doc_ids = kept["doc_ids"]
    if documents.lengths.max(initial=0) > max_position:
        doc_ids = pc.list_slice(doc_ids, 0, max_position)
    swapped = pc.if_else(kept["bucket"].is_valid(), kept["swapped"], None)
    keys = [kept["query_id"], kept["segment"], kept["bucket"], swapped]
    return _table(keys, ranking[first], doc_ids, merged, context[first])


def pack_pages(
    pages: CheckedPages, rows: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets and the words of the patterns of some pages (int64).

    lengths: int64, how many documents of each page to pack. The words of the lowest level are the
    first ones of a page.
    """
    clicks, feedback, levels = pages.clicks, pages.feedback, pages.levels
    bits, first_bit = bitmap(clicks.values)
    starts = clicks.starts[rows] + first_bit
    complete = (clicks.lengths[rows] == pages.documents.lengths[rows]).all()
    if levels.count == 1 and complete and (feedback is None or not feedback.values.any()):
        return pack_clicks(starts, lengths, bits)
    has_clicks, graded = clicks.lengths[rows] > 0, np.zeros(rows.size, bool)
    graded_starts, grades = starts, np.zeros(0, np.uint8)
    if feedback is not None:
        graded, graded_starts = feedback.lengths[rows] > 0, feedback.starts[rows]
        grades = feedback.values
    return pack_levels(
        lengths, np.where(has_clicks, starts, -1), bits, levels.click,
        np.where(graded, graded_starts, -1), grades, levels.count,
    )  # fmt: skip


def merge(tables: Sequence[pa.Table], partitions: int = 1) -> pa.Table:
    """Add up tables in transit; the result is ordered by partition."""
    if not tables:
        return transit_schema.empty_table()
    table = pa.concat_tables(tables).combine_chunks()
    if table.num_rows == 0:
        return table
    context = table["context"].to_numpy()
    ranking = table["ranking"].to_numpy().view(np.uint64)
    group, first = group_keys(context, ranking)
    if partitions > 1:
        order = np.argsort(partition_of(table, partitions)[first], kind="stable")
        group, first = np.argsort(order)[group], first[order]
    merged = merge_patterns(group, first.size, patterns_of(table))
    kept = table.select([*_KEYS, "doc_ids"]).take(pa.array(first))
    keys = [kept[name] for name in _KEYS]
    return _table(keys, ranking[first], kept["doc_ids"], merged, context[first])


def negate(table: pa.Table) -> pa.Table:
    """Return a table in transit with negative counts: merging it subtracts its sessions."""
    at = table.schema.get_field_index("counts")
    counts = patterns_of(table)
    column = list_array(np.diff(counts.count_offsets), -counts.counts)
    return table.set_column(at, transit_schema.field(at), column)


def remove_zeros(table: pa.Table) -> pa.Table:
    """Return a merged table without patterns that no session has left, and without empty groups."""
    word_offsets, words, count_offsets, counts = patterns_of(table)
    keep = counts != 0
    if keep.all():
        return table
    sizes = np.diff(count_offsets)
    widths = np.diff(word_offsets) // np.maximum(sizes, 1)
    keep_words = np.repeat(keep, np.repeat(widths, sizes))
    columns = {
        "patterns": list_array(Ragged(word_offsets).select(keep_words).lengths, words[keep_words]),
        "counts": list_array(Ragged(count_offsets).select(keep).lengths, counts[keep]),
    }
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table.filter(pc.greater(pc.list_value_length(table["counts"]), 0))


def ordered(table: pa.Table) -> pa.Table:
    """Return a table in transit in the order in which groups are stored."""
    return table.take(pc.sort_indices(table, sort_keys=ORDER))


def canonical(table: pa.Table) -> pa.Table:
    """Return a merged table in the form that is stored: schema `groups_schema`, rows sorted."""
    return ordered(table).select(groups_schema.names)


def with_context(groups: pa.Table) -> pa.Table:
    """Return stored groups as a table in transit."""
    batch = groups.combine_chunks().to_batches()[0]
    context = _context(batch, np.arange(batch.num_rows))
    return groups.append_column(transit_schema.field("context"), pa.array(context))


def partition_of(table: pa.Table | pa.RecordBatch, partitions: int) -> np.ndarray:
    """Return the partition (int64) of each row, a function of its query alone."""
    return hash_parts(table["query_id"], partitions)


def _context(batch: pa.RecordBatch, rows: np.ndarray) -> np.ndarray:
    """Hash (query, segment, bucket, arm) of the rows, chained; a null adds the word 0."""
    null = np.zeros(rows.size, np.uint64)
    h = hashes(batch["query_id"])[rows]
    for name in ("segment", "bucket"):
        column = batch[name]
        if column.null_count == len(column):
            h = hash_words(null, h)
            continue
        seeds = np.full(len(column), SEED)
        seeds[rows] = h
        h = np.where(valid(column)[rows], hashes(column, seeds)[rows], hash_words(null, h))
    swapped = batch["swapped"]
    if swapped.null_count == len(swapped):
        return hash_words(null, h)
    arm = swapped.cast(pa.int8()).fill_null(-1).to_numpy(zero_copy_only=False)[rows] + 1
    arm = np.where(valid(batch["bucket"])[rows], arm, 0)  # pages in no experiment have no arm
    return hash_words(arm.astype(np.uint64), h)


def _table(
    keys: list[pa.Array],
    ranking: np.ndarray,
    doc_ids: pa.Array,
    merged: Patterns,
    context: np.ndarray,
) -> pa.Table:
    columns = [
        *keys,
        pa.array(ranking.view(np.int64)),
        doc_ids,
        list_array(np.diff(merged.word_offsets), merged.words),
        list_array(np.diff(merged.count_offsets), merged.counts),
        pa.array(context),
    ]
    return pa.table(columns, schema=transit_schema)
