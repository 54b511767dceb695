"""The moments of a window for the regressions on position 1, from the documents of its dates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.kernels.swap_tally import sum_rows
from ulr.kernels.trust_moments import SUMS, add_moments, finish_moments
from ulr.propensity.daily.documents import arm_codes, counts_of_rows, group_documents
from ulr.propensity.schema import moments_schema
from ulr.warehouse.schema import swap_documents_schema

_ROWS_AT_ONCE = 65_536  # their hash table fits the processor's cache
_KEYS = ["segment", "bucket", "block"]
_SUM_NAMES = [f"sum{i}" for i in range(SUMS)]
_DOCUMENT = swap_documents_schema.get_field_index("document")


class DocumentFile(NamedTuple):
    """A file of `swap_documents`: the documents in one of `parts` equal ranges of hashes."""

    path: str
    part: int
    parts: int

    def overlaps(self, part: int, parts: int) -> bool:
        """Return whether the file may hold documents of another division into ranges."""
        return part * self.parts < (self.part + 1) * parts and self.part * parts < (
            (part + 1) * self.parts
        )


class _Day(NamedTuple):
    """Documents of one file, sorted by `document`; int64. counts: rows x 4."""

    arm: np.ndarray
    query: np.ndarray
    document: np.ndarray
    counts: np.ndarray


def sum_moments(
    fs: pafs.FileSystem, files: Sequence[DocumentFile], part: int, parts: int, blocks: int
) -> pa.Table:
    """Return the sums of the documents in one of `parts` equal ranges of hashes.

    files: those of all dates. A row of the result is a (segment, bucket, block) with its sums, as
    integers that add up over parts.
    """
    low, high = ((i << 64) // parts - (1 << 63) for i in (part, part + 1))
    paths = [file.path for file in files if file.overlaps(part, parts)]
    tables = (table for path in paths for table in _read_range(fs, path, low, high))
    return sum_documents(tables, blocks, low, high)


def sum_documents(
    tables: Iterable[pa.Table], blocks: int, low: int = -(1 << 63), high: int = 1 << 63
) -> pa.Table:
    """Return the sums of the documents in tables of `swap_documents_schema`, each sorted.

    low, high: the range of their hashes.
    """
    names: dict[tuple[str | None, str], int] = {}
    days = [_day(table, names) for table in tables]
    sums = np.zeros((len(names), blocks, SUMS), np.int64)
    for rows in _ranges(days, low, high):
        group, first = group_documents(rows.arm, rows.query, rows.document)
        counts = sum_rows(group, first.size, rows.counts)
        add_moments(rows.arm[first], rows.query[first], counts, sums)
    arm, block = np.nonzero(sums[:, :, 0])
    keys = [[name[i] for name in names] for i in range(2)]
    columns = [pa.array(key, pa.string()).take(pa.array(arm)) for key in keys]
    columns += [pa.array(block), *(pa.array(column) for column in sums[arm, block].T)]
    return pa.table(columns, [*_KEYS, *_SUM_NAMES])


def moment_table(sums: Sequence[pa.Table]) -> pa.Table:
    """Return `moments_schema` from the sums of all parts, sorted: the order of later sums."""
    if not sums:
        return moments_schema.empty_table()
    total = pa.concat_tables(sums).group_by(_KEYS)
    table = total.aggregate([(name, "sum") for name in _SUM_NAMES])
    table = table.sort_by([(key, "ascending") for key in _KEYS])
    values = np.stack([table[f"{name}_sum"].to_numpy() for name in _SUM_NAMES], axis=1)
    moments = [pa.array(column) for column in finish_moments(values).T]
    block = table["block"].cast(pa.int32())
    columns = [table["segment"], table["bucket"], block, pa.array(values[:, 0]), *moments]
    return pa.table(columns, schema=moments_schema)


def _read_range(fs: pafs.FileSystem, path: str, low: int, high: int) -> Iterator[pa.Table]:
    """Yield the rows of a file with low <= document < high, if there are any."""
    with fs.open_input_file(path) as source:
        file = pq.ParquetFile(source, read_dictionary=["segment", "bucket"])
        groups = []
        for number in range(file.num_row_groups):
            statistics = file.metadata.row_group(number).column(_DOCUMENT).statistics
            if statistics.max >= low and statistics.min < high:
                groups.append(number)
        if not groups:
            return
        table = file.read_row_groups(groups, use_threads=False)
    start, end = np.searchsorted(table["document"].to_numpy(), [low, min(high, 2**63 - 1)])
    if high == 1 << 63:
        end = table.num_rows
    if end > start:
        yield table.slice(start, end - start)


def _day(table: pa.Table, names: dict[tuple[str | None, str], int]) -> _Day:
    """Return the columns as arrays; new arms are added to `names`."""
    arm, own = arm_codes(table)
    number = np.array([names.setdefault(name, len(names)) for name in own], np.int64)
    query, document = (table[name].to_numpy() for name in ("query", "document"))
    return _Day(number[arm], query, document, counts_of_rows(table))


def _ranges(days: Sequence[_Day], low: int, high: int) -> Iterator[_Day]:
    """Yield the rows of all days together, one small range of hashes after the other."""
    count = -(-sum(day.document.size for day in days) // _ROWS_AT_ONCE)
    inner = [low + (high - low) * i // count for i in range(1, count)]
    bounds = np.array(inner, np.int64)
    cuts = [[0, *np.searchsorted(day.document, bounds).tolist(), day.document.size] for day in days]
    for i in range(count):
        slices = [slice(cut[i], cut[i + 1]) for cut in cuts]
        pieces = [[column[s] for column in day] for day, s in zip(days, slices, strict=True)]
        yield _Day(*(np.concatenate(columns) for columns in zip(*pieces, strict=True)))
