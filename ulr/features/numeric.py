"""Columns of numbers as float32 vectors. A null is a missing value, NaN; a boolean is 0 or 1.

Numbers are rounded to float32, as LightGBM users expect: integers above 2^24 lose their last
digits. Infinite values stay: LightGBM orders them before and after all other values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import list_array
from ulr.errors import InvalidData

_BLOCK_ROWS = 4096  # a block of about a hundred columns stays in the cache while it is filled


def is_numeric(type_: pa.DataType) -> bool:
    """Return whether values of a type are numbers, or booleans."""
    types = pa.types
    if types.is_dictionary(type_):
        type_ = type_.value_type
    tests = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    return any(test(type_) for test in tests)


def check_numeric(name: str, type_: pa.DataType, source: str) -> None:
    """Raise InvalidData unless a column of the type can be a feature."""
    types = pa.types
    plain = type_.value_type if types.is_dictionary(type_) else type_
    if is_numeric(plain) or types.is_null(plain):
        return
    if types.is_temporal(plain):
        fix = (
            "give a number, such as its age in days: in Spark "
            f"datediff(current_date(), {name}) AS {name}_age"
        )
    elif types.is_nested(plain):
        fix = (
            "give a column for each number, or one array of all features as features.keys.features"
        )
    else:
        fix = (
            "encode it as numbers: ordinal, in Spark StringIndexer(inputCol="
            f"'{name}', outputCol='{name}_index'), or by the mean of a target"
        )
    raise InvalidData(f"{source}: column {name} is {plain}, and features are numbers; {fix}")


def check_array(name: str, schema: pa.Schema, source: str) -> None:
    """Raise InvalidData unless the column of a schema can be the array of all features."""
    types, type_ = pa.types, schema.field(name).type
    listed = (types.is_list, types.is_large_list, types.is_fixed_size_list,
              types.is_list_view, types.is_large_list_view)  # fmt: skip
    if any(test(type_) for test in listed):
        return
    if types.is_struct(type_) and {"indices", "values"} <= {f.name for f in type_}:
        fix = f"a vector of Spark ML becomes one by vector_to_array({name})"
    else:
        fix = "for a column per feature set features.columns"
    raise InvalidData(f"{source}: column {name} is {type_}, expected an array of numbers; {fix}")


def vectors(batch: pa.RecordBatch, names: Sequence[str]) -> pa.ListArray:
    """Return the columns of a batch as one list<float> array, a list per row."""
    columns = [_floats(batch[name]) for name in names]
    matrix = np.empty((batch.num_rows, len(names)), np.float32)
    for start in range(0, batch.num_rows, _BLOCK_ROWS):
        block = matrix[start : start + _BLOCK_ROWS]
        for number, column in enumerate(columns):
            block[:, number] = column[start : start + _BLOCK_ROWS]
    return list_array(np.full(batch.num_rows, len(names)), matrix.reshape(-1))


def _floats(column: pa.Array) -> np.ndarray:
    values = pc.cast(column, pa.float32(), safe=False)
    floats: np.ndarray = values.to_numpy(zero_copy_only=False)
    return floats
