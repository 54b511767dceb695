"""Numbers as clicks and flags: 0 and 1 are booleans, every other number is not valid."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ulr.engine.columns import valid
from ulr.kernels.layout import offsets_of


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is one of integers, floating-point or decimal numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def flags(numbers: pa.Array) -> pa.Array:
    """Return 0 as false and 1 as true; any other number, and NaN, gives null."""
    if pa.types.is_decimal(numbers.type) or pa.types.is_float16(numbers.type):
        numbers = numbers.cast(pa.float64())
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    true = values == 1
    return pa.array(true, pa.bool_(), mask=~valid(numbers) | ~(true | (values == 0)))


def flag_lists(lists: pa.Array) -> pa.Array:
    """Return lists of numbers as lists of flags; a list with another number than 0 or 1 is null."""
    lists = lists.cast(pa.list_(lists.type.value_type))
    offsets = np.array(lists.offsets)  # a copy: Arrow takes no mask with a slice
    typed = flags(lists.values)
    if typed.null_count == 0 and lists.null_count == 0:
        return pa.ListArray.from_arrays(offsets, typed)
    wrong = offsets_of(valid(lists.values) & ~valid(typed))
    null = ~valid(lists) | (wrong[offsets[1:]] > wrong[offsets[:-1]])
    return pa.ListArray.from_arrays(offsets, typed, mask=pa.array(null))


def is_number_list(kind: pa.DataType) -> bool:
    """Return whether a type is one of lists of numbers."""
    listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool((listed or pa.types.is_fixed_size_list(kind)) and is_number(kind.value_type))


def without_loss(column: pa.Array, typed: pa.Array | None) -> pa.Array | None:
    """Return a converted column; None if a value was lost."""
    return None if typed is None or typed.null_count > column.null_count else typed
