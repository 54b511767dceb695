"""Spark tasks that turn pages into groups.

Map tasks check their pages, fold them into histograms and send each reducer its part; reducers
merge the parts and write one file each. This takes one shuffle of data already combined. Counts
are sent with the data, not in accumulators, so that a retried task counts once.
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
from ulr.clicklog.quarantine import count_reasons, quarantine_rows, sort_quarantine
from ulr.engine.columns import hashes
from ulr.engine.shuffle import BLOCK, open_table, pack_bytes, partition_blocks, unpack
from ulr.groups.deduplicate import RepeatedIds, find_repeated_ids, first_pages
from ulr.groups.histograms import canonical, fold_pages, merge, partition_of
from ulr.warehouse.storage import Storage

MERGE_ROWS = 1_000_000  # partial groups held in memory before they are merged

Batches = Iterator[pa.RecordBatch]


def write_groups(
    source: PageSource,
    *,
    groups_url: str,
    quarantine_url: str,
    partitions: int,
    max_position: int,
    max_repeated_ids: int,
) -> Counter[str]:
    """Write a date's groups and quarantine files under the two URLs; return the counts."""
    repeated = find_repeated_ids(source, partitions, max_repeated_ids)
    fold = partial(_fold_unique, read=source.read, repeated=repeated,
                   partitions=partitions, max_position=max_position)  # fmt: skip
    blocks = source.frame.mapInArrow(fold, BLOCK)
    if not repeated.none:
        fold = partial(_fold_resolved, partitions=partitions, max_position=max_position)
        blocks = blocks.union(first_pages(source, repeated).mapInArrow(fold, BLOCK))
    finish = partial(_write_part, groups_url=groups_url, quarantine_url=quarantine_url)
    parts = blocks.repartitionById(partitions, F.col("part"))
    return _total(parts.mapInArrow(finish, "counts string"))


def _total(rows: DataFrame) -> Counter[str]:
    total = Counter(read=0, pages=0, duplicate_rows=0, cut=0)  # present even if no page was read
    for row in rows.collect():  # one row per file
        total.update(json.loads(row.counts))
    total["duplicates"] += total.pop("deferred", 0) - total.pop("resolved", 0)
    return total


def _fold_unique(
    batches: Batches,
    *,
    read: Callable[[Batches], Batches],
    repeated: RepeatedIds,
    partitions: int,
    max_position: int,
) -> Batches:
    """Fold the pages with unique session ids; quarantine bad pages; defer the others."""
    folder = _Folder(partitions, max_position)
    bad: list[pa.Table] = []
    for batch in read(batches):
        pages = check_pages(batch)
        deferred = repeated.rows(pages)
        unique = np.setdiff1d(pages.good, deferred, True) if deferred.size else pages.good
        folder.counts["read"] += batch.num_rows
        folder.counts["deferred"] += deferred.size
        folder.counts["duplicate_rows"] += pc.sum(batch["repeats"]).as_py() or 0
        if pages.bad.size:
            bad.append(quarantine_rows(pages))
        yield from folder.add(pages, unique)
    yield from folder.finish()
    if bad:
        rows = pa.concat_tables(bad)
        yield pack_bytes(0, "counts", json.dumps(count_reasons(rows)).encode())
        part = (hashes(rows["source"]) % np.uint64(partitions)).astype(np.int64)
        yield from partition_blocks("quarantine", rows, part)


def _fold_resolved(batches: Batches, *, partitions: int, max_position: int) -> Batches:
    """Fold the one page of each repeated session id."""
    folder = _Folder(partitions, max_position)
    for batch in as_read(batches):
        pages = check_pages(batch)
        folder.counts["resolved"] += batch.num_rows
        yield from folder.add(pages, pages.good)
    yield from folder.finish()


class _Folder:
    """Folds pages into partial groups, merges these, and sends them when there are many."""

    def __init__(self, partitions: int, max_position: int) -> None:
        self.partitions, self.max_position = partitions, max_position
        self.counts: Counter[str] = Counter()
        self._pending: list[pa.Table] = []
        self._rows = 0

    def add(self, pages: CheckedPages, rows: np.ndarray) -> Batches:
        self.counts["pages"] += rows.size
        self.counts["cut"] += int((pages.documents.lengths[rows] > self.max_position).sum())
        table = fold_pages(pages, rows, self.max_position)
        self._pending.append(table)
        self._rows += table.num_rows
        if self._rows >= MERGE_ROWS:
            merged = merge(self._pending)
            self._pending, self._rows = [merged], merged.num_rows
            if self._rows >= MERGE_ROWS // 2:  # most groups are distinct: merging frees little
                yield from self._send()

    def finish(self) -> Batches:
        yield from self._send()
        yield pack_bytes(0, "counts", json.dumps(self.counts).encode())  # any reducer will do

    def _send(self) -> Batches:
        merged = merge(self._pending, self.partitions)
        self._pending, self._rows = [], 0
        if merged.num_rows:
            yield from partition_blocks("groups", merged, partition_of(merged, self.partitions))


def _write_part(batches: Batches, *, groups_url: str, quarantine_url: str) -> Batches:
    """Merge and write a reducer's part; same input, same bytes, so that a retry may overwrite."""
    counts: Counter[str] = Counter()
    tables: dict[str, list[pa.Table]] = {"groups": [], "quarantine": []}
    number = None
    for part, kind, content in unpack(batches):
        number = part
        if kind == "counts":
            counts.update(json.loads(bytes(content)))
        else:
            tables[kind].append(open_table(content))
    if number is None:
        return
    name = f"part-{number:05d}.parquet"
    groups = canonical(merge(tables["groups"]))
    if groups.num_rows:
        counts["groups"] += groups.num_rows
        counts["queries"] += pc.count_distinct(groups["query_id"]).as_py()
        counts["patterns"] += len(groups["counts"].combine_chunks().values)
        counts["groups_bytes"] += Storage(groups_url).write_table(groups, name)
    if tables["quarantine"]:
        bad = sort_quarantine(pa.concat_tables(tables["quarantine"]))
        counts["quarantine_bytes"] += Storage(quarantine_url).write_table(bad, name)
    yield pa.RecordBatch.from_pydict({"counts": [json.dumps(counts)]})
