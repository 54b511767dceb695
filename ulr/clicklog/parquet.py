"""Read Parquet logs in tasks, from file splits that the driver assigns.

Batches are bounded in bytes (`batches`) and get the contract's types (`conform`).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.clicklog.batches import Piece, read_pieces
from ulr.clicklog.conform import conform, with_problems
from ulr.clicklog.damaged import naming_file
from ulr.clicklog.files import LogFiles, check_columns, folder_columns
from ulr.clicklog.mapping import stored_schema
from ulr.clicklog.times import out_of_range
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import TIMESTAMP, reading

MAX_SPLIT_BYTES = 128 << 20
MIN_SPLIT_BYTES = 8 << 20
_FIX = "replace it, remove it, or see log.format"

Batches = Iterator[pa.RecordBatch]
Part = TypeVar("Part")  # a part of a file


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
    """Reads the splits of tasks, by their numbers; day: the only date to read.

    schema: under the names of the file. names: those of the rows that are read.
    """

    url: str
    tasks: list[list[Split]]
    schema: pa.Schema
    day: dt.date | None
    names: list[str]

    def rows(self, numbers: Iterable[int]) -> Batches:
        """Yield rows with the columns of `reading` of the contract's schema."""
        for piece, split in self._stored(numbers):
            if piece.large:
                rows = _without_values(piece.rows, split.path, self.schema)
            else:
                rows = conform(piece.rows, split.path, self.schema, split.folder)
            rows = rows.rename_columns(self.names)
            yield rows if self.day is None else rows.filter(on_day(rows["shown_at"], self.day))

    def _stored(self, numbers: Iterable[int]) -> Iterator[tuple[Piece, Split]]:
        fs, _ = open_filesystem(self.url)
        for split in (s for n in numbers for s in self.tasks[n]):
            with _opened(fs, split.path) as (stream, file):
                present = file.schema_arrow.names
                names = [n for n in self.schema.names if n in present]
                last = file.num_row_groups if split.last < 0 else split.last
                for piece in read_pieces(stream, file, range(split.first, last), names):
                    yield piece, split


def open_log(
    log: LogFiles,
    schema: pa.Schema,
    parallelism: int,
    stored: Mapping[str, str] = MappingProxyType({}),
) -> ParquetReader:
    """Return a reader of the log; raise UserError for a wrong layout or format.

    stored: the name in the files of each column that has another name there.
    """
    renamed = stored_schema(schema, stored)
    check_columns(column_names(log, renamed), schema, log.paths[0], stored)
    tasks = plan_tasks(log, parallelism, partial(_splits, log, renamed))
    return ParquetReader(log.storage.url, tasks, renamed, log.day, reading(schema).names)


def column_names(log: LogFiles, schema: pa.Schema) -> list[str]:
    """Return the columns of the first file and of its folders."""
    with _opened(log.storage.fs, log.paths[0]) as (_, file):
        return [*file.schema_arrow.names, *folder_columns(log.files[0].path, schema)]


def plan_tasks(
    log: LogFiles, parallelism: int, splits_of: Callable[[int], Iterator[tuple[Part, int]]]
) -> list[list[Part]]:
    """Distribute the log's bytes over tasks.

    splits_of: gives parts of files of about a number of bytes, with their sizes.

    There are two tasks per core if the log is large enough, none much over MAX_SPLIT_BYTES. Small
    files share a task, so that it has pages to combine.
    """
    total = sum(f.size for f in log.files)
    target = max(MIN_SPLIT_BYTES, min(MAX_SPLIT_BYTES, total // (2 * parallelism)))
    splits = sorted(splits_of(target), key=lambda s: -s[1])
    tasks: list[list[Part]] = [[] for _ in range(max(1, min(len(splits), -(-total // target))))]
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
        with _opened(log.storage.fs, path) as (_, opened):
            groups = opened.num_row_groups
        pieces = max(1, min(groups, -(-file.size // target)))
        bounds = [groups * p // pieces for p in range(pieces + 1)]
        for first, last in pairwise(bounds):
            yield Split(path, first, last, folder), file.size // pieces


@contextlib.contextmanager
def _opened(fs: pafs.FileSystem, path: str) -> Iterator[tuple[pa.NativeFile, pq.ParquetFile]]:
    """Open a file; an error of reading it names the file, also in the body of the statement."""
    with naming_file(path, "Parquet file", _FIX), fs.open_input_file(path) as stream:
        yield stream, pq.ParquetFile(stream, page_checksum_verification=True)


def _without_values(batch: pa.RecordBatch, path: str, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows that are too large as rows without values, with the beginning of their text."""
    arrays = [pa.nulls(batch.num_rows, field.type) for field in schema]
    problems = {"too_large": np.ones(batch.num_rows, bool)}
    return with_problems(batch, arrays, problems, path, schema)


def on_day(shown_at: pa.Array, day: dt.date) -> pa.Array:
    """Return which rows are of one UTC date.

    Rows whose time is null or not accepted belong to no date: they are kept for quarantine.
    """
    start = dt.datetime(day.year, day.month, day.day, tzinfo=dt.timezone.utc)
    bounds = [pa.scalar(t, TIMESTAMP) for t in (start, start + dt.timedelta(days=1))]
    within = pc.and_(pc.greater_equal(shown_at, bounds[0]), pc.less(shown_at, bounds[1]))
    if (outside := out_of_range(shown_at)) is not None:
        within = pc.or_(within, pa.array(outside))
    return pc.or_kleene(within, shown_at.is_null())
