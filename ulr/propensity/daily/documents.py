"""Clicks of documents at both positions of a bucket 1:k, for the test of trust bias.

Queries and documents are 64-bit hashes. The hash of a document is seeded with that of its query:
for two documents to be confused, they would have to share segment, bucket and query, or collide in
128 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes, lists, patterns_of
from ulr.experiments.buckets import parse_bucket
from ulr.kernels.hashing import splitmix64
from ulr.kernels.merge import group_keys
from ulr.kernels.swap_tally import count_places, sum_rows
from ulr.propensity.daily.arms import codes_of
from ulr.warehouse.schema import swap_documents_schema

DOCUMENT_COLUMNS = ["query_id", "doc_ids"]
COUNTS = swap_documents_schema.names[4:]
_SIGN = np.uint64(1 << 63)


def second_index(buckets: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return k - 1 of every bucket 1:k, int64, and 0 for other buckets and for null."""
    code, names = codes_of(buckets)
    index = np.zeros(len(names), np.int64)
    for number, name in enumerate(names):
        bucket = parse_bucket(name) if name is not None else None
        if bucket is not None and bucket.target == (1,):
            index[number] = bucket.source[0] - 1
    return index[code]


def document_rows(groups: pa.RecordBatch, rows: np.ndarray, second: np.ndarray) -> pa.Table:
    """Return clicks and impressions at both positions: `swap_documents_schema`, unmerged.

    rows: int64, the groups of buckets 1:k. second: int64, k - 1 of each of these rows.
    """
    documents = lists(groups["doc_ids"])
    second = np.where(second < documents.lengths[rows], second, -1)  # lists may have been cut
    sessions, at_first, at_second = count_places(rows, second, patterns_of(groups))
    deep = np.flatnonzero(second >= 0)
    owner = np.concatenate([np.arange(rows.size), deep])
    start = documents.starts[rows[owner]]
    start[rows.size :] += second[deep]
    counts = np.zeros((owner.size, len(COUNTS)), np.int64)
    counts[: rows.size, 0], counts[: rows.size, 1] = at_first, sessions
    counts[rows.size :, 2], counts[rows.size :, 3] = at_second[deep], sessions[deep]
    names = groups.select(["query_id", "segment", "bucket"]).take(pa.array(rows))
    query = hashes(names["query_id"])[owner]
    document = hashes(documents.values.take(pa.array(start)), query)
    names = pa.Table.from_batches([names]).take(pa.array(owner))
    return _table(names, query.view(np.int64), document.view(np.int64), counts)


def merge_documents(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up the counts of equal (segment, bucket, query, document); the result is sorted.

    The order is that of the stored table, so equal counts give equal bytes.
    """
    table = pa.concat_tables([swap_documents_schema.empty_table(), *tables])
    arm, _ = arm_codes(table)
    query, document = (table[name].to_numpy() for name in ("query", "document"))
    group, first = group_documents(arm, query, document)
    order = np.lexsort((arm[first], document[first]))
    counts = sum_rows(group, first.size, counts_of_rows(table))
    kept = first[order]
    return _table(table.take(pa.array(kept)), query[kept], document[kept], counts[order])


def group_documents(
    arm: np.ndarray, query: np.ndarray, document: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct (arm, query, document), all int64, as `group_keys` does."""
    high = query.view(np.uint64) ^ splitmix64(arm.view(np.uint64))
    return group_keys(high, document.view(np.uint64))


def arm_codes(table: pa.Table) -> tuple[np.ndarray, list[tuple[str | None, str]]]:
    """Return a code (int64) per row and the (segment, bucket) of each code, sorted, null last."""
    segment, segments = codes_of(table["segment"])
    bucket, buckets = codes_of(table["bucket"])
    code = segment * len(buckets) + bucket
    used = np.flatnonzero(np.bincount(code, minlength=1)).tolist()
    name = {c: (segments[c // len(buckets)], buckets[c % len(buckets)] or "") for c in used}
    used.sort(key=lambda c: (name[c][0] is None, name[c][0] or "", name[c][1]))
    rank = np.zeros(len(segments) * len(buckets), np.int64)
    rank[used] = np.arange(len(used))
    return rank[code], [name[c] for c in used]


def counts_of_rows(table: pa.Table) -> np.ndarray:
    """Return the counts of a table of `swap_documents_schema`: int64, rows x 4."""
    return np.stack([table[name].to_numpy() for name in COUNTS], axis=1)


def part_of(document: np.ndarray, parts: int) -> np.ndarray:
    """Return which of `parts` (a power of two) equal ranges holds each hash (int64), int64."""
    if parts == 1:
        return np.zeros(document.size, np.int64)
    shift = np.uint64(64 - (parts.bit_length() - 1))
    return ((document.view(np.uint64) ^ _SIGN) >> shift).astype(np.int64)


def _table(
    names: pa.Table, query: np.ndarray, document: np.ndarray, counts: np.ndarray
) -> pa.Table:
    strings = [names[name].cast(pa.string()) for name in ("segment", "bucket")]
    arrays = [pa.array(query), pa.array(document), *(pa.array(column) for column in counts.T)]
    return pa.table([*strings, *arrays], schema=swap_documents_schema)
