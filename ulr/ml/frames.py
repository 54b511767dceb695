"""pandas, polars and Arrow frames as Arrow tables, and back."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.engine.columns import whole
from ulr.errors import UserError


def to_table(frame: Any, what: str) -> pa.Table:
    """Return a frame as an Arrow table.

    frame: a pandas or polars DataFrame, an Arrow table or batch, any other object with Arrow's C
    interface, or a mapping of names to columns. what: names the frame in errors.
    """
    if isinstance(frame, pa.Table):
        return frame
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    try:
        if is_pandas(frame):
            return pa.Table.from_pandas(frame, preserve_index=False)
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        if isinstance(frame, Mapping):
            return pa.table(dict(frame))
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise UserError(f"{what}: Arrow cannot hold this frame: {reason}") from None
    raise UserError(
        f"{what}: expected a pandas or polars DataFrame or an Arrow table, got "
        f"{type(frame).__name__}"
    )


def like(frame: Any, table: pa.Table) -> Any:
    """Return a table as pandas or polars if `frame` is, else as it is."""
    if is_pandas(frame):
        return table.to_pandas()
    if type(frame).__module__.partition(".")[0] == "polars":
        return import_module("polars").from_arrow(table)
    return table


def is_pandas(frame: Any) -> bool:
    """Return whether this is a pandas DataFrame; does not import pandas."""
    return type(frame).__module__.partition(".")[0] == "pandas" and hasattr(frame, "columns")


def to_numbers(values: Any, what: str, rows: int) -> np.ndarray:
    """Return one number per row as a numpy array; raise UserError for anything else."""
    column = to_column(values, what, rows)
    if column.null_count:
        raise UserError(f"{what} has {column.null_count:,} null values; every row needs a value")
    numbers = column.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in "biuf":
        raise UserError(f"{what} has values of type {column.type}; expected numbers")
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        raise UserError(f"{what} contains NaN or infinity; every row needs a number")
    return numbers


def to_texts(values: Any, what: str, rows: int, *, nulls: bool = False) -> pa.Array:
    """Return one text per row; numbers become texts. nulls: whether a row may have none."""
    column = to_column(values, what, rows)
    if column.null_count and not nulls:
        raise UserError(f"{what} has {column.null_count:,} null values; every row needs an id")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        raise UserError(f"{what} has values of type {column.type}; expected texts") from None


def to_column(values: Any, what: str, rows: int) -> pa.Array:
    """Return a column with one value per row as an Arrow array."""
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            column = whole(values)
        elif hasattr(values, "__arrow_c_stream__") and not is_pandas(values):
            column = whole(pa.chunked_array(values))
        else:
            array = np.asarray(values) if not hasattr(values, "to_numpy") else values.to_numpy()
            if array.ndim == 2 and array.shape[1] == 1:
                array = array[:, 0]
            column = pa.array(array, from_pandas=array.dtype == object)
    except (pa.ArrowException, TypeError, ValueError) as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise UserError(f"{what}: expected one value per row; {reason}") from None
    if len(column) != rows:
        raise UserError(f"{what} has {len(column):,} values for {rows:,} rows; give one per row")
    return column
