"""Arrow columns as the numpy arrays that kernels take, and back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.kernels.hashing import SEED, hash_strings
from ulr.kernels.layout import Patterns, offsets_of

_NO_BYTES = np.zeros(8, np.uint8)


class Lists(NamedTuple):
    """A list column: where the elements of each row start in `values`, and their number (int64)."""

    starts: np.ndarray
    lengths: np.ndarray
    values: pa.Array


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the column as one array; a single chunk is not copied."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def valid(column: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Return whether each row is not null, bool."""
    if column.null_count == 0:
        return np.ones(len(column), bool)
    return column.is_valid().to_numpy(zero_copy_only=False)


def lists(column: pa.ChunkedArray | pa.Array) -> Lists:
    """Return the starts and lengths of a list column; a null row has length 0. Copies nothing."""
    array = whole(column)
    offsets = array.offsets.to_numpy()
    lengths = np.diff(offsets)
    if array.null_count:
        lengths = np.where(valid(array), lengths, 0)
    return Lists(offsets[:-1].astype(np.int64), lengths.astype(np.int64), array.values)


def offsets_and_values(column: pa.ChunkedArray | pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return a list column's offsets (int64, rows + 1, from 0) and the values of all rows."""
    array = whole(column)
    offsets = np.asarray(array.offsets, np.int64)
    return offsets - offsets[0], array.flatten()


def list_array(lengths: np.ndarray, values: np.ndarray | pa.Array) -> pa.ListArray:
    """Return a list array from the lengths of its rows and all elements in order."""
    return pa.ListArray.from_arrays(offsets_of(lengths).astype(np.int32), values)


def patterns_of(table: pa.Table | pa.RecordBatch) -> Patterns:
    """Return the columns `patterns` and `counts` of groups; the values are not copied."""
    arrays = []
    for name in ("patterns", "counts"):
        column = whole(table[name])
        arrays += [column.offsets.to_numpy().astype(np.int64), column.values.to_numpy()]
    return Patterns(*arrays)


def without_views(array: pa.Array) -> pa.Array:
    """Return a list view as a list array, other arrays unchanged.

    Arrow's own cast omits the last offset (pyarrow 25.0): the end of the last row is undefined.
    """
    if not (pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type)):
        return array
    lengths = pc.list_value_length(array)
    offsets = offsets_of(lengths.fill_null(0).to_numpy()).astype(np.int32)
    return pa.ListArray.from_arrays(offsets, array.flatten(), mask=lengths.is_null())


def bitmap(array: pa.Array) -> tuple[np.ndarray, int]:
    """Return the bytes (uint8) of a boolean array's values and the bit of its first value."""
    buffer = array.buffers()[1]
    data = _NO_BYTES if buffer is None else np.frombuffer(buffer, np.uint8)
    return data, array.offset


def hashes(column: pa.ChunkedArray | pa.Array, seeds: np.ndarray | None = None) -> np.ndarray:
    """Return XXH64 (uint64) of every string, with Spark's seed or the given seeds (uint64).

    A null hashes like the empty string.
    """
    array = whole(column)
    if not len(array):  # may have no buffers
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else _NO_BYTES
    return hash_strings(offsets, data, np.array([SEED]) if seeds is None else seeds)
