"""Click-pattern histograms as a monoid of Arrow tables.

A page is a histogram with one pattern and one session. Merging tables adds the counts of equal
patterns under equal keys, in any order and any grouping, so the same `merge` serves inside a map
task, after the shuffle, and over the days of a window.

A table in transit has the columns of `groups_schema` and `context`, a hash of (query, segment,
bucket, arm). Rows are the same group when (context, ranking) agree: two different groups would
have to share their query or their ranking and collide in the other 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.contract import CheckedPages
from ulr.engine.columns import bitmap, hashes, list_column, lists, patterns_of, valid
from ulr.kernels.hashing import SEED, hash_lists, hash_words
from ulr.kernels.layout import Patterns
from ulr.kernels.merge import group_keys, merge_patterns
from ulr.kernels.patterns import WORD, pack_clicks
from ulr.warehouse.schema import groups_schema

transit_schema = pa.schema([*groups_schema, pa.field("context", pa.uint64(), nullable=False)])

ORDER = [(name, "ascending") for name in ("query_id", "segment", "bucket", "swapped", "ranking")]


def fold_pages(pages: CheckedPages, rows: np.ndarray, max_position: int) -> pa.Table:
    """The histograms of some rows of a batch, lists cut at `max_position`."""
    documents, clicks = pages.documents, pages.clicks
    starts = documents.starts[rows]
    lengths = np.minimum(documents.lengths[rows], max_position)
    bits, first_bit = bitmap(clicks.values)
    word_offsets, words = pack_clicks(clicks.starts[rows] + first_bit, lengths, bits)
    ranking = hash_lists(starts, lengths, pages.document_hashes)
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
    head = [kept["query_id"], kept["segment"], kept["bucket"], swapped]
    return _table(head, ranking[first], doc_ids, merged, context[first])


def merge(tables: Sequence[pa.Table], partitions: int = 1) -> pa.Table:
    """Add up tables in transit; the rows come out ordered by their partition."""
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
    kept = table.select(["query_id", "segment", "bucket", "swapped", "doc_ids"])
    kept = kept.take(pa.array(first))
    head = [kept[name] for name in ("query_id", "segment", "bucket", "swapped")]
    return _table(head, ranking[first], kept["doc_ids"], merged, context[first])


def canonical(table: pa.Table) -> pa.Table:
    """A merged table as it is stored: the schema's columns, rows in their one order."""
    return table.take(pc.sort_indices(table, sort_keys=ORDER)).select(groups_schema.names)


def cut_lists(table: pa.Table, depth: int) -> pa.Table:
    """The first `depth` positions of every group; equal heads of different rankings stay apart."""
    documents, patterns, counts = (lists(table[n]) for n in ("doc_ids", "patterns", "counts"))
    if documents.lengths.max(initial=0) <= depth:
        return table
    kept = np.minimum(documents.lengths, depth)
    old_width, width = -(-documents.lengths // WORD), -(-kept // WORD)
    # One entry per word that stays: which pattern it belongs to, and which of its words it is.
    row = np.repeat(np.arange(table.num_rows), counts.lengths * width)
    first = np.cumsum(counts.lengths * width) - counts.lengths * width
    pattern, word = np.divmod(np.arange(row.size) - first[row], width[row])
    words = patterns.values.to_numpy()[patterns.starts[row] + pattern * old_width[row] + word]
    spare = np.clip((word + 1) * WORD - kept[row], 0, WORD - 1).astype(np.uint64)
    words = words & (np.uint64(2**64 - 1) >> spare).view(np.int64)
    columns = {
        "doc_ids": pc.list_slice(table["doc_ids"], 0, depth),
        "patterns": list_column(counts.lengths * width, words),
    }
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table


def partition_of(table: pa.Table | pa.RecordBatch, partitions: int) -> np.ndarray:
    """Which of the files of a date each row belongs to: a function of its query alone."""
    return (hashes(table["query_id"]) % np.uint64(partitions)).astype(np.int64)


def _context(batch: pa.RecordBatch | pa.Table, rows: np.ndarray) -> np.ndarray:
    """Hash of (query, segment, bucket, arm), chained; a null mixes in a word of its own."""
    nothing = np.zeros(rows.size, np.uint64)
    h = hashes(batch["query_id"])[rows]
    for name in ("segment", "bucket"):
        column = batch[name]
        absent = hash_words(nothing, h)
        if column.null_count < len(column):
            everywhere = np.full(len(column), SEED)
            everywhere[rows] = h
            h = np.where(valid(column)[rows], hashes(column, everywhere)[rows], absent)
        else:
            h = absent
    swapped = batch["swapped"]
    if swapped.null_count == len(swapped):
        return hash_words(nothing, h)
    arm = swapped.cast(pa.int8()).fill_null(-1).to_numpy(zero_copy_only=False)[rows] + 1
    arm = np.where(valid(batch["bucket"])[rows], arm, 0)  # outside an experiment there is no arm
    return hash_words(arm.astype(np.uint64), h)


def _table(
    head: list[pa.Array],
    ranking: np.ndarray,
    doc_ids: pa.Array,
    merged: Patterns,
    context: np.ndarray,
) -> pa.Table:
    columns = [
        *head,
        pa.array(ranking.view(np.int64)),
        doc_ids,
        list_column(np.diff(merged.word_offsets), merged.words),
        list_column(np.diff(merged.count_offsets), merged.counts),
        pa.array(context),
    ]
    return pa.table(columns, schema=transit_schema)
