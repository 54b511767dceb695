"""Row groups of a Parquet file as batches of bounded bytes.

The sizes in a file's metadata do not bound its rows: a dictionary holds a long value once, and any
number of rows refer to it. The dictionary of each row group is therefore looked at first
(`dictionaries`). If rows could be large, the row group is read as dictionary and indices, and
decoded a few rows at a time. A row of more than MAX_ROW_BYTES is not decoded. A column of texts
with more than MAX_STORED_BYTES, and more than MAX_MEAN_BYTES each on average, is not read:
Parquet's pages, of about 1000 values, are decompressed whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.clicklog.contract import MAX_DOCUMENTS, MAX_ROW_BYTES
from ulr.clicklog.dictionaries import longest_value
from ulr.engine.columns import valid
from ulr.kernels.layout import offsets_of

BATCH_ROWS = 131_072
BATCH_DOCUMENTS = 2 << 20
BATCH_BYTES = 64 << 20
MAX_MEAN_BYTES, MAX_STORED_BYTES = 128 << 10, 256 << 20
_LEAST_ROWS = 4096  # of a batch that is read without looking at the size of each row
_UNKNOWN_BYTES = 1 << 40
_LIST_PATHS = ("doc_ids.", "clicks.", "feedback.")  # Parquet's paths of the list elements


class Piece(NamedTuple):
    """Rows of a file, as they are stored; large: the rows are too large to be read."""

    rows: pa.RecordBatch
    large: bool


class _Plan(NamedTuple):
    """How to read a row group: rows at a time, through dictionaries, and columns to leave out."""

    rows: int
    encoded: bool = False
    left_out: tuple[str, ...] = ()


def read_pieces(
    stream: pa.NativeFile, file: pq.ParquetFile, groups: Sequence[int], names: Sequence[str]
) -> Iterator[Piece]:
    """Yield the rows of some row groups of a file, columns `names` only."""
    texts = _text_paths(file.metadata, names)
    encoded = pq.ParquetFile(stream, metadata=file.metadata, read_dictionary=texts,
                             page_checksum_verification=True)  # fmt: skip
    plans = [(_plan(stream, encoded, g, texts), g) for g in groups]
    for (through_dictionary, left_out), run in groupby(plans, key=lambda p: p[0][1:]):
        chosen = list(run)
        rows = min(plan.rows for plan, _ in chosen)
        source = encoded if through_dictionary else file
        columns = [n for n in names if n not in left_out]
        for batch in source.iter_batches(rows, [g for _, g in chosen], columns, use_threads=False):
            if left_out:
                yield Piece(batch, large=True)
            else:
                yield from cut_batch(batch)


def cut_batch(batch: pa.RecordBatch) -> Iterator[Piece]:
    """Yield the rows of a batch in order, in pieces of about BATCH_BYTES when decoded."""
    encoded = any(_has_dictionary(kind) for kind in batch.schema.types)
    if not encoded and _is_small(batch):
        yield Piece(batch, large=False)
        return
    sizes = sum((_row_bytes(column) for column in batch.columns), np.zeros(batch.num_rows))
    large = sizes > MAX_ROW_BYTES
    part = np.cumsum(np.where(large, 0.0, sizes)) // BATCH_BYTES
    changes = (np.diff(large.astype(np.int8)) != 0) | (np.diff(part) != 0)
    bounds = [0, *(np.flatnonzero(changes) + 1), batch.num_rows]
    for start, end in pairwise(bounds):
        rows = batch.slice(start, end - start)
        if large[start:end].any():
            yield Piece(rows, large=True)
        elif end > start:
            yield Piece(_decoded(rows) if encoded else rows, large=False)


def _is_small(batch: pa.RecordBatch) -> bool:
    """Return whether a batch is a piece without large rows, without looking at each row.

    No row is larger than the slice that it is in.
    """
    size = batch.nbytes
    if size > BATCH_BYTES:
        return False
    step = max(1, batch.num_rows * MAX_ROW_BYTES // max(2 * size, 1))
    starts = range(0, batch.num_rows, step)
    return all(batch.slice(start, step).nbytes <= MAX_ROW_BYTES for start in starts)


def _plan(
    stream: pa.NativeFile, encoded: pq.ParquetFile, number: int, texts: Sequence[str]
) -> _Plan:
    group = encoded.metadata.row_group(number)
    columns = [group.column(n) for n in range(group.num_columns)]
    lists = [c.num_values for c in columns if c.path_in_schema.startswith(_LIST_PATHS)]
    rows = max(1, min(BATCH_ROWS, BATCH_DOCUMENTS * group.num_rows // max([*lists, 1])))
    total, unknown = 0, {}
    for column in (c for c in columns if c.path_in_schema in texts):
        stored, values = column.total_uncompressed_size, max(column.num_values, 1)
        if stored > MAX_MEAN_BYTES * values and stored > MAX_STORED_BYTES:
            return _Plan(rows, left_out=(column.path_in_schema.partition(".")[0],))
        total += stored
        enough = BATCH_BYTES // len(texts) // values
        longest = stored if stored <= enough else longest_value(stream, column, enough)
        if longest is None:
            unknown[column.path_in_schema] = values
        else:
            total += values * longest
    longest_values = _longest_values(encoded, number, list(unknown))
    total += sum(values * longest_values[path] for path, values in unknown.items())
    fitting = max(1, BATCH_BYTES * group.num_rows // max(total, 1))
    if fitting >= min(rows, group.num_rows, _LEAST_ROWS):
        return _Plan(min(rows, fitting))
    return _Plan(rows, encoded=True)


def _longest_values(file: pq.ParquetFile, group: int, paths: Sequence[str]) -> dict[str, int]:
    """Return the length in bytes of the longest value in the dictionary of each column, by Arrow.

    Without a value in the first row Arrow may not read a dictionary: then the length is unknown.
    """
    if not paths:
        return {}
    names = list(dict.fromkeys(path.partition(".")[0] for path in paths))
    first = next(file.iter_batches(1, [group], names, use_threads=False))
    return {path: _longest(first[path.partition(".")[0]]) for path in paths}


def _longest(column: pa.Array) -> int:
    while _is_list(column.type):
        column = column.flatten()
    values = column.dictionary if pa.types.is_dictionary(column.type) else None
    if values is None or not len(values):
        return _UNKNOWN_BYTES
    return pc.max(pc.binary_length(values)).as_py() or 0


def _text_paths(metadata: pq.FileMetaData, names: Sequence[str]) -> list[str]:
    """Return the Parquet paths of the columns of bytes below the columns `names`."""
    schema = metadata.schema
    leaves = [schema.column(n) for n in range(len(schema))]
    return [c.path for c in leaves
            if c.physical_type == "BYTE_ARRAY" and c.path.partition(".")[0] in names]  # fmt: skip


def _has_dictionary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or (
        _is_list(kind) and pa.types.is_dictionary(kind.value_type)))  # fmt: skip


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list,
             pa.types.is_list_view, pa.types.is_large_list_view)  # fmt: skip
    return any(test(kind) for test in tests)


def _row_bytes(column: pa.Array) -> np.ndarray:
    """Return the bytes of each row when decoded, about: float64."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        sizes = np.append(_row_bytes(column.dictionary), 0.0)
        present = valid(column)
        return np.where(present, sizes[np.where(present, column.indices.fill_null(0), -1)], 0.0)
    if _is_list(kind):
        lengths = pc.list_value_length(column).fill_null(0).to_numpy()
        long = lengths > MAX_DOCUMENTS
        if long.any():  # their elements are not looked at
            column, lengths = column.filter(pa.array(~long)), lengths[~long]
        elements = offsets_of(_row_bytes(column.flatten()))
        sizes = np.full(long.size, np.inf)
        sizes[~long] = np.diff(elements[offsets_of(lengths)])
        return sizes
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return pc.binary_length(column).fill_null(0).to_numpy() + 8.0
    return np.full(len(column), 8.0)


def _decoded(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows without dictionaries."""
    return pa.RecordBatch.from_arrays(list(map(_decode, rows.columns)), names=rows.schema.names)


def _decode(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return column.dictionary_decode()
    if not _has_dictionary(column.type):
        return column
    # take: the cast of a slice of lists also casts the values of the other rows.
    own = column.take(pa.array(np.arange(len(column))))
    return own.cast(pa.list_(column.type.value_type.value_type))
