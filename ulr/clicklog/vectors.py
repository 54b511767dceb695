"""Vectors of numbers: the column `features` of a log, a list of float32 per document.

Numbers are rounded to float32, a boolean is 0 or 1. A null in a vector is a missing value; a null
instead of a vector means that the document has none.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import list_array, lists, valid, without_views
from ulr.kernels.hashing import hash_lists
from ulr.kernels.layout import offsets_of


def is_vector(kind: pa.DataType) -> bool:
    """Return whether a type of the contract is a vector, or a list of vectors."""
    while pa.types.is_list(kind):
        kind = kind.value_type
    return bool(pa.types.is_float32(kind))


def in_text(kind: pa.DataType) -> pa.DataType:
    """Return the type as which text is read: float64, so that every format rounds alike."""
    if pa.types.is_list(kind):
        return pa.list_(in_text(kind.value_type))
    return pa.float64() if pa.types.is_float32(kind) else kind


def as_vectors(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return lists of numbers of any type as `wanted`; null where the type holds no numbers."""
    if column.type == wanted:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    typed = _typed(column, wanted)
    return pa.nulls(len(column), wanted) if typed is None else typed


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column = without_views(column)
    kind = column.type
    if not pa.types.is_list(wanted):
        tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal,
                 pa.types.is_boolean, pa.types.is_null)  # fmt: skip
        return pc.cast(column, wanted, safe=False) if any(test(kind) for test in tests) else None
    if pa.types.is_null(kind):
        return pa.nulls(len(column), wanted)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)
            or pa.types.is_fixed_size_list(kind)):  # fmt: skip
        return None
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    values = _typed(column.flatten(), wanted.value_type)
    if values is None:
        return None
    mask = pa.array(~valid(column)) if column.null_count else None
    return pa.ListArray.from_arrays(offsets_of(lengths).astype(np.int32), values, mask=mask)


def bits_of(values: pa.Array) -> np.ndarray:
    """Return float32 numbers as words (uint64) of their bits; missing values are equal."""
    numbers = values.to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(numbers), np.float32(np.nan), numbers).view(np.uint32)
    return bits.astype(np.uint64)


def hash_vectors(features: pa.ChunkedArray) -> np.ndarray:
    """Return a hash of the bits of each vector, uint64; missing values are equal."""
    parts = [np.zeros(0, np.uint64)]
    for chunk in features.chunks:
        starts, lengths, values = lists(chunk)
        parts.append(hash_lists(starts, lengths, bits_of(values)))
    return np.concatenate(parts)


def take_vectors(column: pa.ListArray, rows: np.ndarray) -> pa.ListArray:
    """Return the vectors of some rows (int64), none of them null, with NaN for missing values."""
    starts, lengths, values = lists(column)
    numbers = values.to_numpy(zero_copy_only=False)
    chosen = lengths[rows]
    offsets = offsets_of(chosen)
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - starts[rows], chosen)
    return list_array(chosen, pa.array(numbers[at], pa.float32()))
