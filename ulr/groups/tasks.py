"""Spark tasks that turn pages into groups.

Map tasks check their pages, fold them into histograms and send each reducer its part; reducers
merge the parts and write one file each. This takes one shuffle of data already combined, and one
pass over the log. If a session id occurs more than once, a second pass subtracts all but the first
page of each such id; counts are integers, so the result is exact. Counts of rows are sent with the
data, not in accumulators, so that a retried task counts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ulr.clicklog.contract import CheckedPages, check_pages
from ulr.clicklog.events import Levels
from ulr.clicklog.pages import PageSource, as_read
from ulr.clicklog.quarantine import count_reasons, quarantine_rows, sort_quarantine
from ulr.engine.columns import hashes
from ulr.engine.shuffle import (
    BLOCK,
    hash_parts,
    open_table,
    pack_bytes,
    partition_blocks,
    unpack,
)
from ulr.engine.spark_versions import repartition_by_part
from ulr.engine.tasks import map_batches
from ulr.groups.deduplicate import (
    collect_repeated,
    hash_blocks,
    keep_repeated,
    later_pages,
    reducer_limit,
)
from ulr.groups.histograms import fold_pages, merge, negate, partition_of, with_context
from ulr.groups.levels import schema_with
from ulr.groups.parts import PART_BYTES, GroupsPart
from ulr.warehouse.table_files import TableFiles

MERGE_ROWS = 1_000_000  # partial groups held in memory before they are merged
QUARANTINE_BYTES = 64 << 20  # bad rows held in memory before they are sent
_RESULT = "part int, counts string, file string, repeated binary"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class _Written:
    """One reducer's result: counts of rows, counts of its file, hashes of repeated ids."""

    part: int
    counts: Counter[str]
    file: Counter[str]
    repeated: np.ndarray


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
    levels, schema = source.levels, schema_with(source.levels.names)
    fold = partial(_fold_pages, read=source.read, partitions=partitions, max_position=max_position,
                   unique=source.sessions_are_unique, levels=levels)  # fmt: skip
    finish = partial(_write_part, groups_url=groups_url, quarantine_url=quarantine_url,
                     schema=schema, limit=reducer_limit(max_repeated_ids, partitions))  # fmt: skip
    written = _reduce(map_batches(source.frame, fold, BLOCK), partitions, finish)
    repeated = collect_repeated([w.repeated for w in written], partitions, max_repeated_ids)
    corrected: list[_Written] = []
    if not repeated.none:
        fold = partial(_fold_later, partitions=partitions, max_position=max_position, levels=levels)
        blocks = map_batches(later_pages(source, repeated), fold, BLOCK)
        subtract = partial(_subtract, groups_url=groups_url, schema=schema)
        corrected = _reduce(blocks, partitions, subtract)
        for w in corrected:
            TableFiles(groups_url).delete(_file_name(w.part))
    return _total(written, corrected)


def _reduce(
    blocks: DataFrame, partitions: int, finish: Callable[[Batches], Batches]
) -> list[_Written]:
    parts = map_batches(repartition_by_part(blocks, partitions, F.col("part")), finish, _RESULT)
    return [
        _Written(row.part, Counter(json.loads(row.counts)), Counter(json.loads(row.file)),
                 np.frombuffer(row.repeated, np.uint64))
        for row in parts.collect()  # one row per file
    ]  # fmt: skip


def _total(written: list[_Written], corrected: list[_Written]) -> Counter[str]:
    """Add up the counts; a corrected file replaces the one that was written first.

    `longest` is the number of documents of the longest list in any file.
    """
    total = Counter(read=0, pages=0, duplicates=0, duplicate_rows=0, cut=0)
    for w in (*written, *corrected):
        total.update(w.counts)
    files = {w.part: w.file for w in written} | {w.part: w.file for w in corrected}
    for file in files.values():
        total.update(file)
    total["longest"] = max((file["longest"] for file in files.values()), default=0)
    return total


def _fold_pages(
    batches: Batches,
    *,
    read: Callable[[Batches], Batches],
    partitions: int,
    max_position: int,
    unique: bool,
    levels: Levels,
) -> Batches:
    """Fold the good pages, send the hashes of their session ids, and quarantine bad pages."""
    folder = _Folder(partitions, max_position)
    bad: list[pa.Table] = []
    keys: list[np.ndarray] = []
    for batch in read(batches):
        pages = check_pages(batch, levels)
        good = pages.good
        folder.counts["read"] += batch.num_rows
        folder.counts["duplicate_rows"] += pc.sum(batch["repeats"]).as_py() or 0
        if not unique:
            keys.append(hashes(batch["session_id"])[good])
        if pages.bad.size:
            bad.append(quarantine_rows(pages))
        if sum(rows.nbytes for rows in bad) >= QUARANTINE_BYTES:
            yield from _send_quarantine(bad, partitions)
            bad = []
        yield from folder.add(pages, good)
    yield from folder.finish()
    yield from hash_blocks(keys, partitions)
    if bad:
        yield from _send_quarantine(bad, partitions)


def _send_quarantine(bad: list[pa.Table], partitions: int) -> Batches:
    rows = pa.concat_tables(bad)
    yield pack_bytes(0, "counts", json.dumps(count_reasons(rows)).encode())
    yield from partition_blocks("quarantine", rows, hash_parts(rows["source"], partitions))


def _fold_later(batches: Batches, *, partitions: int, max_position: int, levels: Levels) -> Batches:
    """Fold pages to drop, with negative counts."""
    folder = _Folder(partitions, max_position, sign=-1)
    for batch in as_read(batches):
        pages = check_pages(batch, levels)
        folder.counts["duplicates"] += batch.num_rows
        yield from folder.add(pages, pages.good)
    yield from folder.finish()


class _Folder:
    """Folds pages into partial groups, merges these, and sends them when there are many."""

    def __init__(self, partitions: int, max_position: int, sign: int = 1) -> None:
        self.partitions, self.max_position, self.sign = partitions, max_position, sign
        self.counts: Counter[str] = Counter()
        self._pending: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, pages: CheckedPages, rows: np.ndarray) -> Batches:
        self.counts["pages"] += self.sign * rows.size
        cut = int((pages.documents.lengths[rows] > self.max_position).sum())
        self.counts["cut"] += self.sign * cut
        table = fold_pages(pages, rows, self.max_position)
        self._hold([*self._pending, table if self.sign > 0 else negate(table)])
        if self._full(1):
            self._hold([merge(self._pending)])
            if self._full(2):  # most groups are distinct: merging frees little
                yield from self._send()

    def finish(self) -> Batches:
        yield from self._send()
        yield pack_bytes(0, "counts", json.dumps(self.counts).encode())  # any reducer will do

    def _hold(self, tables: list[pa.Table]) -> None:
        self._pending = tables
        self._rows = sum(t.num_rows for t in tables)
        self._bytes = sum(t.nbytes for t in tables)

    def _full(self, divisor: int) -> bool:
        return self._rows >= MERGE_ROWS // divisor or self._bytes >= PART_BYTES // divisor

    def _send(self) -> Batches:
        merged = merge(self._pending, self.partitions)
        self._hold([])
        if merged.num_rows:
            yield from partition_blocks("groups", merged, partition_of(merged, self.partitions))


def _write_part(
    batches: Batches, *, groups_url: str, quarantine_url: str, schema: pa.Schema, limit: int
) -> Batches:
    """Merge and write a reducer's part; same input, same bytes, so that a retry may overwrite."""
    counts: Counter[str] = Counter()
    groups, bad, keys = GroupsPart(), list[pa.Table](), list[pa.Buffer]()
    number = None
    for part, kind, content in unpack(batches):
        number = part
        if kind == "counts":
            counts.update(json.loads(bytes(content)))
        elif kind == "hashes":
            keys.append(content)
        elif kind == "groups":
            groups.add(open_table(content))
        else:
            bad.append(open_table(content))
    if number is None:
        return
    name = _file_name(number)
    file = groups.write(TableFiles(groups_url), name, schema)
    if bad:
        rows = sort_quarantine(pa.concat_tables(bad))
        counts["quarantine_bytes"] += TableFiles(quarantine_url).write_table(rows, name)
    yield _result(number, counts, file, keep_repeated(keys, limit))


def _subtract(batches: Batches, *, groups_url: str, schema: pa.Schema) -> Batches:
    """Write a reducer's part again, without the pages to drop.

    The new file has another name, so that a retry reads the same input.
    """
    counts: Counter[str] = Counter()
    groups = GroupsPart()
    number = None
    for part, kind, content in unpack(batches):
        number = part
        if kind == "counts":
            counts.update(json.loads(bytes(content)))
        else:
            groups.add(open_table(content))
    if number is None:
        return
    storage = TableFiles(groups_url)
    if storage.exists(_file_name(number)):
        with storage.fs.open_input_file(storage.path(_file_name(number))) as stream:
            for batch in pq.ParquetFile(stream).iter_batches():
                groups.add(with_context(pa.Table.from_batches([batch])))
    file = groups.write(storage, _file_name(number, "-unique"), schema)
    yield _result(number, counts, file, np.zeros(0, np.uint64))


def _file_name(part: int, suffix: str = "") -> str:
    return f"part-{part:05d}{suffix}.parquet"


def _result(
    part: int, counts: Counter[str], file: Counter[str], repeated: np.ndarray
) -> pa.RecordBatch:
    row = {"part": pa.array([part], pa.int32()), "counts": [json.dumps(counts)],
           "file": [json.dumps(file)], "repeated": [repeated.tobytes()]}  # fmt: skip
    return pa.RecordBatch.from_pydict(row)
