"""Arrow columns as the numpy arrays that kernels take, without copying."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.kernels.hashing import SEED, hash_strings
from ulr.kernels.layout import Patterns

_NO_BYTES = np.zeros(8, np.uint8)


class Lists(NamedTuple):
    """A list column: where each row's elements start in `values`, and how many there are."""

    starts: np.ndarray
    lengths: np.ndarray
    values: pa.Array


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def lists(column: pa.ChunkedArray | pa.Array) -> Lists:
    """Starts and lengths of a list column; a null row has length 0."""
    array = whole(column)
    offsets = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    if array.null_count:
        lengths = np.where(valid(array), lengths, 0)
    return Lists(offsets[:-1].astype(np.int64), lengths.astype(np.int64), array.values)


def without_views(array: pa.Array) -> pa.Array:
    """A view of lists as lists; others as they are. Arrow's own cast of a view leaves out the last
    offset (25.0), so that the last row ends wherever the memory says."""
    if not (pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)):
        return array
    lengths = pc.list_value_length(array)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths.fill_null(0).to_numpy(), out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, array.flatten(), mask=lengths.is_null())


def valid(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """True where a row is not null."""
    if column.null_count == 0:
        return np.ones(len(column), bool)
    return column.is_valid().to_numpy(zero_copy_only=False)


def bitmap(array: pa.Array) -> tuple[np.ndarray, int]:
    """The bytes of a boolean array's values, and the bit where its first value stands."""
    buffer = array.buffers()[1]
    data = _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)
    return data, array.offset


def hashes(column: pa.ChunkedArray | pa.Array, seeds: np.ndarray | None = None) -> np.ndarray:
    """XXH64 of every string, from Spark's seed or the given ones; a null hashes as if empty."""
    array = whole(column)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else _NO_BYTES
    return hash_strings(offsets, data, np.array([SEED]) if seeds is None else seeds)


def patterns_of(table: pa.Table | pa.RecordBatch) -> Patterns:
    """Return the columns `patterns` and `counts` of groups; the values are not copied."""
    arrays = []
    for name in ("patterns", "counts"):
        column = whole(table[name])
        arrays += [column.offsets.to_numpy().astype(np.int64), column.values.to_numpy()]
    return Patterns(*arrays)


def offsets_and_values(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return a list column's offsets (int64, rows + 1, from 0) and the values of all rows."""
    array = whole(column)
    offsets = np.asarray(array.offsets, np.int64)
    return offsets - offsets[0], array.flatten()


def list_column(lengths: np.ndarray, values: np.ndarray | pa.Array) -> pa.ListArray:
    """A list column from the rows' lengths and all their elements in order."""
    offsets = np.zeros(lengths.size + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, values)


def hash_column(column: pa.ChunkedArray | pa.Array, seeds: np.ndarray | None = None) -> np.ndarray:
    """`hashes`, also of a column without rows, which may have no buffers."""
    return hashes(column, seeds) if len(column) else np.zeros(0, np.uint64)
