"""Spark tasks that tally the groups of dates, and tasks that sum the documents of a window.

Map tasks read whole files; reducers write one file per date and range of documents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ulr.engine.shuffle import BLOCK, open_table, partition_blocks, unpack
from ulr.engine.spark_versions import repartition_by_part, to_arrow
from ulr.engine.tasks import TASKS_PER_CORE, Batches, map_batches, map_items
from ulr.propensity.daily.arms import ArmTally, sum_counts
from ulr.propensity.daily.documents import merge_documents, part_of
from ulr.propensity.daily.moments import DocumentFile, sum_moments
from ulr.propensity.daily.tally import tally_file
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.table_files import TableFiles

DRIVER_BYTES = 16 << 20  # of groups that are tallied without a Spark job, in a quarter of a second
BYTES_PER_PART = 64 << 20  # of groups, per file of `swap_documents`
ROWS_PER_PART = 1_000_000  # of `swap_documents`, per task that sums a window
COUNTS, DOCUMENTS = "counts", "documents"
_WRITTEN = "day int, kind string, rows long"


class Day(NamedTuple):
    """A date to tally. files, bytes: its groups; the URLs: of the folders to write to."""

    files: list[str]
    bytes: list[int]
    counts_url: str
    documents_url: str

    @property
    def parts(self) -> int:
        """Number of ranges of documents, a power of two."""
        return power_of_two(sum(self.bytes) / BYTES_PER_PART)


class _Part(NamedTuple):
    """One range of the documents of a date; the first also takes the date's counts."""

    day: int
    number: int


def tally_days(
    start_spark: Callable[[], SparkSession], url: str, days: Sequence[Day]
) -> list[dict[str, int]]:
    """Write both tallies of all days, in one job or, if they are small, in this process.

    url: of the filesystem with the files. Returns the rows by kind of each day.
    """
    parts = [_Part(number, i) for number, day in enumerate(days) for i in range(day.parts)]
    first = [parts.index(_Part(number, 0)) for number in range(len(days))]
    files = [(number, path) for number, day in enumerate(days) for path in day.files]
    sizes = [size for day in days for size in day.bytes]
    tally = partial(_tally, url=url, first=first, parts=[day.parts for day in days])
    write = partial(_write_parts, days=[(d.counts_url, d.documents_url) for d in days], parts=parts)
    if sum(sizes) <= DRIVER_BYTES:
        written = list(write(tally(files)))
    else:
        spark = start_spark()
        reducers = min(len(parts), TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
        blocks = map_items(spark, files, tally, BLOCK, sizes=sizes)
        blocks = repartition_by_part(blocks, reducers, F.col("part") % reducers)
        written = to_arrow(map_batches(blocks, write, _WRITTEN)).to_batches()  # one row per file
    rows = [dict.fromkeys((COUNTS, DOCUMENTS), 0) for _ in days]
    for row in (row for batch in written for row in batch.to_pylist()):
        rows[row["day"]][row["kind"]] += row["rows"]
    return rows


def sum_window(
    spark: SparkSession, url: str, files: Sequence[DocumentFile], *, rows: int, blocks: int
) -> list[pa.Table]:
    """Return the sums of each range of documents, as `moments.moment_table` takes them.

    rows: the number of rows of all files.
    """
    least = max(rows / ROWS_PER_PART, TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    parts = power_of_two(max(least, *(file.parts for file in files)))
    run = partial(_sum_parts, url=url, files=list(files), parts=parts, blocks=blocks)
    table = to_arrow(map_items(spark, range(parts), run, BLOCK))
    return [open_table(content) for _, _, content in unpack(iter(table.to_batches()))]


def power_of_two(least: float) -> int:
    """Return the smallest power of two that is not below `least`."""
    return 1 << max(int(np.ceil(least)) - 1, 0).bit_length()


def _tally(
    files: Sequence[tuple[int, str]], *, url: str, first: Sequence[int], parts: Sequence[int]
) -> Batches:
    """Tally (day, path), sorted, date after date. first: the first part of each date."""
    fs, _ = open_filesystem(url)
    for day, own in groupby(files, key=lambda file: file[0]):
        arms = ArmTally()
        for _, path in own:
            for table in tally_file(fs, path, arms):
                part = first[day] + part_of(table["document"].to_numpy(), parts[day])
                yield from partition_blocks(DOCUMENTS, table, part)
        counts = arms.rows()
        yield from partition_blocks(COUNTS, counts, np.full(counts.num_rows, first[day]))


def _write_parts(
    batches: Batches, *, days: Sequence[tuple[str, str]], parts: Sequence[_Part]
) -> Batches:
    """Merge and write the reducer's parts; same input, same bytes: a retry may overwrite."""
    tables: dict[tuple[int, str], list[pa.Table]] = {}
    for number, kind, content in unpack(batches):
        tables.setdefault((number, kind), []).append(open_table(content))
    for number, kind in sorted(tables):
        part, own = parts[number], tables.pop((number, kind))
        merged = sum_counts(own) if kind == COUNTS else merge_documents(own)
        url = days[part.day][0 if kind == COUNTS else 1]
        TableFiles(url).write_table(merged, f"part-{part.number:05d}.parquet")
        row = {"day": [part.day], "kind": [kind], "rows": [merged.num_rows]}
        types = [pa.int32(), pa.string(), pa.int64()]
        yield pa.RecordBatch.from_pydict(row, pa.schema(zip(row, types, strict=True)))


def _sum_parts(
    numbers: Sequence[int], *, url: str, files: Sequence[DocumentFile], parts: int, blocks: int
) -> Batches:
    fs, _ = open_filesystem(url)
    for number in numbers:
        table = sum_moments(fs, files, number, parts, blocks)
        yield from partition_blocks(DOCUMENTS, table, np.zeros(table.num_rows, np.int64))
