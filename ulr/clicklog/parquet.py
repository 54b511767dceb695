"""Read Parquet logs in Spark tasks, from file splits that the driver assigns.

The files of a log may differ in their columns and types. A row with a value that cannot be cast to
the contract's type gets the reason bad_type.
"""

from __future__ import annotations

import datetime as dt
import heapq
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.clicklog.files import LogFiles, check_columns, folder_columns
from ulr.clicklog.values import typed_columns
from ulr.engine.columns import without_views
from ulr.errors import UserError
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import TIMESTAMP, reading

MAX_SPLIT_BYTES = 128 << 20
MIN_SPLIT_BYTES = 8 << 20
BATCH_ROWS = 131_072
BATCH_DOCUMENTS = 2 << 20  # ids of up to 1 KB stay below the 2 GiB of an Arrow array
_LIST_PATHS = ("doc_ids.", "clicks.")  # Parquet's paths of the list elements

Batches = Iterator[pa.RecordBatch]
Piece = TypeVar("Piece")  # a part of a file


@dataclass(frozen=True)
class Split:
    """Row groups [first, last) of one Parquet file; last = -1: to the end.

    folder: columns that the file's folders define.
    """

    path: str
    first: int
    last: int
    folder: Mapping[str, str | None]


@dataclass(frozen=True)
class ParquetReader:
    """Reads the splits of the tasks whose numbers a batch holds; day: the only date to read."""

    url: str
    tasks: list[list[Split]]
    schema: pa.Schema
    day: dt.date | None

    def rows(self, batches: Batches) -> Batches:
        """Yield rows with the columns of `reading(schema)`."""
        for batch, split in self._stored(batches, self.schema.names):
            rows = conform(batch, split.path, self.schema, split.folder)
            yield rows if self.day is None else rows.filter(on_day(rows["shown_at"], self.day))

    def _stored(
        self, batches: Batches, columns: list[str]
    ) -> Iterator[tuple[pa.RecordBatch, Split]]:
        fs, _ = open_filesystem(self.url)
        numbers = (n for batch in batches for n in batch.column(0).to_pylist())
        for split in (s for n in numbers for s in self.tasks[n]):
            with fs.open_input_file(split.path) as stream:
                file = _open(stream, split.path)
                names = [c for c in columns if c in file.schema_arrow.names]
                last = file.num_row_groups if split.last < 0 else split.last
                groups = list(range(split.first, last))
                rows = _batch_rows(file.metadata, groups)
                for batch in file.iter_batches(rows, groups, names, use_threads=False):
                    yield batch, split


def open_log(log: LogFiles, schema: pa.Schema, parallelism: int) -> ParquetReader:
    """Return a reader of the log; raise UserError for a wrong layout or format."""
    with log.storage.fs.open_input_file(log.paths[0]) as stream:
        names = _open(stream, log.paths[0]).schema_arrow.names
    check_columns([*names, *folder_columns(log.files[0].path, schema)], schema, log.paths[0])
    tasks = plan_tasks(log, parallelism, partial(_splits, log, schema))
    return ParquetReader(log.storage.url, tasks, schema, log.day)


def plan_tasks(
    log: LogFiles, parallelism: int, splits_of: Callable[[int], Iterator[tuple[Piece, int]]]
) -> list[list[Piece]]:
    """Distribute the log's bytes over tasks.

    splits_of: gives parts of files of about a number of bytes, with their sizes.

    There are two tasks per core if the log is large enough, none much over MAX_SPLIT_BYTES. Small
    files share a task, so that it has pages to combine.
    """
    total = sum(f.size for f in log.files)
    target = max(MIN_SPLIT_BYTES, min(MAX_SPLIT_BYTES, total // (2 * parallelism)))
    splits = sorted(splits_of(target), key=lambda s: -s[1])
    tasks: list[list[Piece]] = [[] for _ in range(max(1, min(len(splits), -(-total // target))))]
    loads = [(0, number) for number in range(len(tasks))]
    for split, size in splits:
        load, number = heapq.heappop(loads)
        tasks[number].append(split)
        heapq.heappush(loads, (load + size, number))
    return tasks


def _splits(log: LogFiles, schema: pa.Schema, target: int) -> Iterator[tuple[Split, int]]:
    """Yield splits with their sizes in bytes; reads only the footers of large files."""
    for file, path in zip(log.files, log.paths, strict=True):
        folder = folder_columns(file.path, schema)
        if file.size <= target:
            yield Split(path, 0, -1, folder), file.size
            continue
        with log.storage.fs.open_input_file(path) as stream:
            groups = _open(stream, path).num_row_groups
        pieces = max(1, min(groups, -(-file.size // target)))
        bounds = [groups * p // pieces for p in range(pieces + 1)]
        for first, last in pairwise(bounds):
            yield Split(path, first, last, folder), file.size // pieces


def _batch_rows(file: pq.FileMetaData, groups: list[int]) -> int:
    """Return how many rows to read at a time: fewer if lists are long, to bound memory."""
    rows = BATCH_ROWS
    for group in map(file.row_group, groups):
        columns = map(group.column, range(group.num_columns))
        lists = [c.num_values for c in columns if c.path_in_schema.startswith(_LIST_PATHS)]
        if documents := max(lists, default=0):
            rows = min(rows, BATCH_DOCUMENTS * group.num_rows // documents)
    return max(1, rows)


def _open(stream: pa.NativeFile, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(stream)
    except pa.ArrowInvalid as error:
        reason = str(error).split(". ", maxsplit=1)[0]
        raise UserError(
            f"{path} is not a Parquet file: {reason}; remove it, or see log.format"
        ) from None


def conform(
    batch: pa.RecordBatch,
    source: str,
    schema: pa.Schema,
    folder: Mapping[str, str | None] = MappingProxyType({}),
) -> pa.RecordBatch:
    """Return the batch with the columns of `reading(schema)`.

    A column that the batch lacks is taken from `folder`, or null. Values are cast if no information
    is lost; a row with a value that cannot be cast is a bad_type.
    """
    rows = batch.num_rows
    columns = {n: pa.repeat(pa.scalar(v, pa.string()), rows) for n, v in folder.items()}
    columns |= zip(batch.schema.names, map(without_views, batch.columns), strict=True)
    arrays, bad = typed_columns(columns, schema, rows, _cast)
    problem, raw = pa.nulls(rows, pa.string()), pa.nulls(rows, pa.string())
    if bad.any():
        problem = pa.array(["bad_type" if b else None for b in bad], pa.string())
        text = (json.dumps(row, default=str) for row in batch.filter(pa.array(bad)).to_pylist())
        raw = pa.array([next(text) if b else None for b in bad], pa.string())
    zeros = pa.repeat(pa.scalar(0, pa.int32()), rows)
    arrays += [pa.DictionaryArray.from_arrays(zeros, [source]), problem, raw, zeros]
    return pa.RecordBatch.from_arrays(arrays, schema=reading(schema, inside=True))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast a column; a value that cannot be cast becomes null.

    Arrow reports that there is such a value, not which: it is found by halving the column. Times
    are truncated to microseconds, since pandas writes nanoseconds.
    """
    try:
        return pc.cast(column, options=pc.CastOptions(wanted, allow_time_truncate=True))
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return pa.nulls(len(column), wanted)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, wanted)
    # take, not slice: the cast of a slice of lists also casts the values of the other rows.
    halves = np.array_split(np.arange(len(column)), 2)
    return pa.concat_arrays([_cast(column.take(pa.array(half)), wanted) for half in halves])


def on_day(shown_at: pa.Array, day: dt.date) -> pa.Array:
    """Return which rows are of one UTC date; rows without a time are kept for quarantine."""
    start = dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)
    bounds = [pa.scalar(t, TIMESTAMP) for t in (start, start + dt.timedelta(days=1))]
    within = pc.and_(pc.greater_equal(shown_at, bounds[0]), pc.less(shown_at, bounds[1]))
    return pc.or_kleene(within, shown_at.is_null())
