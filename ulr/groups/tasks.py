"""Pages to groups: click-pattern histograms per (query, segment, bucket, arm, shown ranking).

Map tasks check their pages, fold them into histograms and send each reducer its part; reducers
merge and write one file each. That is one shuffle, of data already combined. Counts travel with
the data, never in accumulators, so a retried task counts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ulr.clicklog.contract import CheckedPages, check_pages
from ulr.clicklog.pages import PageSource, as_read
from ulr.engine.columns import hashes, lists
from ulr.engine.shuffle import BLOCK, open_table, pack_bytes, partition_blocks, unpack
from ulr.groups.deduplicate import (
    RepeatedIds,
    find_repeated_ids,
    first_pages,
    rows_with_repeated_ids,
)
from ulr.groups.histograms import canonical, fold_pages, merge, partition_of, transit_schema
from ulr.kernels.hashing import hash_lists
from ulr.warehouse.schema import page_schema, plain_read_schema, quarantine_schema
from ulr.warehouse.storage import Storage

MERGE_ROWS = 1_000_000  # partial groups held before they are merged

Batches = Iterator[pa.RecordBatch]
Reader = Callable[[Batches], Batches]


def write_groups(
    source: PageSource,
    *,
    groups_url: str,
    quarantine_url: str,
    partitions: int,
    max_position: int,
    max_repeated_ids: int,
) -> Counter[str]:
    """Write a date's groups and quarantine files under the two URLs; return what was counted."""
    suspects = find_repeated_ids(source, partitions, max_repeated_ids)
    options = {"partitions": partitions, "max_position": max_position}
    everyone = partial(_fold_source, read=source.read, suspects=suspects, **options)
    parcels = source.frame.mapInArrow(everyone, BLOCK)
    if not suspects.none:
        compared = first_pages(source, suspects)
        parcels = parcels.union(compared.mapInArrow(partial(_fold_compared, **options), BLOCK))
    finish = partial(_write_part, groups_url=groups_url, quarantine_url=quarantine_url)
    placed = parcels.repartitionById(partitions, F.col("part"))
    return _total(placed.mapInArrow(finish, "counts string"))


def _total(rows: DataFrame) -> Counter[str]:
    total = Counter(read=0, pages=0, duplicate_rows=0, cut=0)  # also where no page was read
    for row in rows.collect():  # one row per file
        total.update(json.loads(row.counts))
    total["duplicates"] += total.pop("held", 0) - total.pop("compared", 0)
    return total


def _fold_source(
    batches: Batches, *, read: Reader, suspects: RepeatedIds, partitions: int, max_position: int
) -> Batches:
    """All pages of the task's part of the log, the suspects held back for comparison."""
    counts: Counter[str] = Counter()
    folder = _Folder(partitions)
    bad: list[pa.Table] = []
    for batch in read(batches):
        pages = check_pages(batch)
        held = rows_with_repeated_ids(pages, suspects)
        rows = pages.good if held.size == 0 else np.setdiff1d(pages.good, held, True)
        counts["read"] += batch.num_rows
        counts["held"] += held.size
        counts["duplicate_rows"] += pc.sum(batch["repeats"]).as_py() or 0
        bad.append(_quarantine(pages, counts))
        yield from folder.add(fold_pages(pages, rows, max_position))
        _count_folded(counts, pages, rows, max_position)
    yield from folder.flush()
    yield from _send(counts, pa.concat_tables(bad) if bad else None, partitions)


def _fold_compared(batches: Batches, *, partitions: int, max_position: int) -> Batches:
    """The pages that comparison has left, one per suspect session."""
    counts: Counter[str] = Counter()
    folder = _Folder(partitions)
    for batch in as_read(batches):
        pages = check_pages(batch)
        counts["compared"] += batch.num_rows
        yield from folder.add(fold_pages(pages, pages.good, max_position))
        _count_folded(counts, pages, pages.good, max_position)
    yield from folder.flush()
    yield from _send(counts, None, partitions)


class _Folder:
    """Merges partial groups as they come, and sends them on when there are many."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.pending: list[pa.Table] = []
        self.rows = 0

    def add(self, table: pa.Table) -> Batches:
        self.pending.append(table)
        self.rows += table.num_rows
        if self.rows >= MERGE_ROWS:
            merged = merge(self.pending)
            self.pending, self.rows = [merged], merged.num_rows
            if self.rows >= MERGE_ROWS // 2:  # merging no longer helps: hand over
                yield from self.flush()

    def flush(self) -> Batches:
        merged = merge(self.pending, self.partitions)
        self.pending, self.rows = [], 0
        if merged.num_rows:
            yield from partition_blocks("groups", merged, partition_of(merged, self.partitions))


def _count_folded(
    counts: Counter[str], pages: CheckedPages, rows: np.ndarray, max_position: int
) -> None:
    counts["pages"] += rows.size
    counts["cut"] += int((pages.documents.lengths[rows] > max_position).sum())


def _quarantine(pages: CheckedPages, counts: Counter[str]) -> pa.Table:
    bad = pa.array(pages.bad)
    reason = pages.reason.take(bad)
    for entry in reason.value_counts().to_pylist():
        counts[f"bad:{entry['values']}"] += entry["counts"]
    rows = pages.batch.take(bad).cast(plain_read_schema)
    columns = [reason if n == "reason" else rows[n] for n in quarantine_schema.names]
    return pa.table(columns, schema=quarantine_schema)


def _send(counts: Counter[str], bad: pa.Table | None, partitions: int) -> Batches:
    """A task's counts go to any reducer; bad rows to the reducer that their source names."""
    yield pack_bytes(0, "counts", json.dumps(counts).encode())
    if bad is not None and bad.num_rows:
        part = (hashes(bad["source"]) % np.uint64(partitions)).astype(np.int64)
        yield from partition_blocks("quarantine", bad, part)


def _write_part(batches: Batches, *, groups_url: str, quarantine_url: str) -> Batches:
    """Merge what was sent here and write it; same input, same bytes, so a retry overwrites."""
    counts: Counter[str] = Counter()
    groups: list[pa.Table] = []
    bad: list[pa.Table] = []
    number = None
    for part, kind, content in unpack(batches):
        number = part
        if kind == "counts":
            counts.update(json.loads(bytes(content)))
        else:
            (groups if kind == "groups" else bad).append(open_table(content))
    if number is None:
        return
    name = f"part-{number:05d}.parquet"
    merged = canonical(merge(groups) if groups else transit_schema.empty_table())
    if merged.num_rows:
        counts["groups"] += merged.num_rows
        counts["queries"] += pc.count_distinct(merged["query_id"]).as_py()
        counts["patterns"] += len(merged["counts"].combine_chunks().values)
        counts["groups_bytes"] += Storage(groups_url).write_table(merged, name)
    if bad:
        table = in_one_order(pa.concat_tables(bad))
        counts["quarantine_bytes"] += Storage(quarantine_url).write_table(table, name)
    yield pa.RecordBatch.from_pydict({"counts": [json.dumps(counts)]})


def in_one_order(bad: pa.Table) -> pa.Table:
    """Quarantined rows sorted by all that they say, however the tasks cut the log."""
    bad = bad.combine_chunks()
    words = {
        "doc_ids": hashes,
        "clicks": lambda values: values.cast(pa.uint64()).fill_null(2).to_numpy(),
    }
    keys = {n: bad[n] for n in ("source", "reason", "session_id", "raw", *page_schema.names)}
    for name, word in words.items():
        rows = lists(bad[name])
        keys[name] = hash_lists(rows.starts, rows.lengths, word(rows.values))
    order = [(name, "ascending") for name in keys]
    return bad.take(pc.sort_indices(pa.table(keys), sort_keys=order))
