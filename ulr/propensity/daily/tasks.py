"""Tasks that tally the groups of dates, and tasks that sum the documents of a window.

Map tasks read whole files; reducers write one file per date and range of documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.engine.blocks import open_table, partition_blocks
from ulr.engine.interface import TASKS_PER_CORE, Batches, Blocks, Engine, Exchange, Items
from ulr.propensity.daily.arms import ArmTally, sum_counts
from ulr.propensity.daily.documents import merge_documents, part_of
from ulr.propensity.daily.moments import DocumentFile, sum_moments
from ulr.propensity.daily.tally import tally_file
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.table_files import TableFiles

BYTES_PER_PART = 64 << 20  # of groups, per file of `swap_documents`
ROWS_PER_PART = 1_000_000  # of `swap_documents`, per task that sums a window
COUNTS, DOCUMENTS = "counts", "documents"


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


def tally_days(engine: Engine, url: str, days: Sequence[Day]) -> list[dict[str, int]]:
    """Write both tallies of all days.

    url: of the filesystem with the files. Returns the rows by kind of each day.
    """
    parts = [_Part(number, i) for number, day in enumerate(days) for i in range(day.parts)]
    first = [parts.index(_Part(number, 0)) for number in range(len(days))]
    files = [(number, path) for number, day in enumerate(days) for path in day.files]
    sizes = [size for day in days for size in day.bytes]
    tally = partial(_tally, url=url, first=first, parts=[day.parts for day in days])
    write = partial(_write_parts, days=[(d.counts_url, d.documents_url) for d in days], parts=parts)
    tasks = TASKS_PER_CORE * engine.parallelism
    blocks = Exchange([(Items(files, sizes), tally)], len(parts), tasks)
    written = engine.map(blocks, write)  # one row per file
    rows = [dict.fromkeys((COUNTS, DOCUMENTS), 0) for _ in days]
    for row in (row for batch in written for row in batch.to_pylist()):
        rows[row["day"]][row["kind"]] += row["rows"]
    return rows


def sum_window(
    engine: Engine,
    url: str,
    files: Sequence[DocumentFile],
    *,
    size: int,
    rows: int,
    blocks: int,
) -> list[pa.Table]:
    """Return the sums of each range of documents, as `moments.moment_table` takes them.

    size, rows: bytes and rows of all files.
    """
    if not files:
        return []
    least = max(rows / ROWS_PER_PART, TASKS_PER_CORE * engine.parallelism)
    parts = power_of_two(max(least, *(file.parts for file in files)))
    run = partial(_sum_parts, url=url, files=list(files), parts=parts, blocks=blocks)
    batches = engine.map(Items(range(parts), size=size), run)
    return [pa.Table.from_batches([batch]) for batch in batches]


def power_of_two(least: float) -> int:
    """Return the smallest power of two that is not below `least`."""
    return 1 << max(int(np.ceil(least)) - 1, 0).bit_length()


def _tally(
    files: Sequence[tuple[int, str]], *, url: str, first: Sequence[int], parts: Sequence[int]
) -> Blocks:
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
    blocks: Blocks, *, days: Sequence[tuple[str, str]], parts: Sequence[_Part]
) -> Batches:
    """Merge and write the reducer's parts; same input, same bytes: a retry may overwrite."""
    tables: dict[tuple[int, str], list[pa.Table]] = {}
    for number, kind, content in blocks:
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
        yield from sum_moments(fs, files, number, parts, blocks).combine_chunks().to_batches()
