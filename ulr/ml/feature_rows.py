"""Feature rows of any kind of matrix: names, float32 blocks, chosen rows, hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists, whole
from ulr.errors import UserError
from ulr.features.matrix import check_width
from ulr.kernels.hashing import SEED, hash_strings
from ulr.kernels.threads import thread_count
from ulr.ml.frames import is_pandas, to_table

_BLOCK_BYTES = 16 << 20  # converted at once
_NUMBERS = "biuf"  # kinds of numpy's types


@dataclass(frozen=True)
class FeatureRows:
    """Rows of features. names: of the features, or empty. read: gives the rows of a slice or of an
    index array as float32, rows x width, C-contiguous."""

    rows: int
    width: int
    names: list[str]
    read: Callable[[slice | np.ndarray], np.ndarray]

    def blocks(self) -> Iterator[np.ndarray]:
        """Yield all rows in order as float32 blocks of bounded size."""
        return map(self.read, self._slices())

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return the chosen rows (int64 indices) as float32, rows x width."""
        return self.read(rows)

    def hashes(self) -> np.ndarray:
        """Return a hash (uint64) of every row; equal rows have equal hashes."""
        result = np.empty(self.rows, np.uint64)

        def fill(part: slice) -> None:
            block = self.read(part) + np.float32(0)  # -0 equals 0
            offsets = np.arange(len(block) + 1, dtype=np.int32) * np.int32(4 * self.width)
            result[part] = hash_strings(offsets, block.reshape(-1).view(np.uint8), np.array([SEED]))

        with ThreadPoolExecutor(thread_count()) as pool:
            list(pool.map(fill, self._slices()))
        return result

    def _slices(self) -> list[slice]:
        step = max(1, _BLOCK_BYTES // max(4 * self.width, 1))
        return [slice(start, start + step) for start in range(0, self.rows, step)]


def feature_rows(x: Any, what: str = "X") -> FeatureRows:
    """Return the rows of a matrix: numpy, pandas, polars, Arrow, or a list of lists.

    A null is NaN. An Arrow array of lists has one row per list.
    """
    if isinstance(x, pa.ListArray):
        return _of_lists(x)
    if is_pandas(x):
        return _of_pandas(x, what)
    if isinstance(x, pa.Table | pa.RecordBatch) or hasattr(x, "__arrow_c_stream__"):
        return _of_table(to_table(x, what), what)
    if hasattr(x, "toarray"):
        raise UserError(f"{what} is a sparse matrix; give {what}.toarray()")
    try:
        matrix = np.asarray(x)
    except ValueError as error:
        raise UserError(f"{what}: expected rows of equal length; {error}") from None
    if matrix.dtype == object:
        matrix = _numbers(matrix, what)
    if matrix.dtype.kind == "c":
        raise UserError(f"{what}: Complex data not supported; expected real numbers")
    if matrix.dtype.kind not in _NUMBERS:
        raise UserError(f"{what} has values of type {matrix.dtype}; expected numbers")
    if matrix.ndim != 2:
        raise UserError(
            f"{what}: expected 2D array, got {matrix.ndim}D array instead. Reshape your data: "
            "one row per document, one column per feature"
        )
    rows, width = matrix.shape
    return _checked(FeatureRows(rows, width, [], lambda part: _floats(matrix[part])), what)


def _numbers(matrix: np.ndarray, what: str) -> np.ndarray:
    try:
        return matrix.astype(np.float32)
    except (TypeError, ValueError) as error:
        raise UserError(f"{what}: expected numbers; {error}") from None


def _checked(rows: FeatureRows, what: str) -> FeatureRows:
    """Raise UserError, in the words that scikit-learn's checks expect, if there is no feature."""
    counts = {"sample(s)": rows.rows, "feature(s)": rows.width}
    for name, count in counts.items():
        if not count:
            raise UserError(
                f"{what}: found array with 0 {name} (shape=({rows.rows}, {rows.width})) while a "
                "minimum of 1 is required"
            )
    return rows


def _floats(matrix: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(matrix, np.float32)


def _of_pandas(frame: Any, what: str) -> FeatureRows:
    names = list(frame.columns)
    for name, kind in zip(names, frame.dtypes, strict=True):
        if getattr(kind, "kind", "O") not in _NUMBERS:
            raise UserError(f"{what}: column {name} has type {kind}; expected numbers")

    def read(part: slice | np.ndarray) -> np.ndarray:
        rows = frame.iloc[part]
        return _floats(rows.to_numpy(np.float32, na_value=np.nan))

    texts = names if all(isinstance(name, str) for name in names) else []
    return _checked(FeatureRows(len(frame), len(names), texts, read), what)


def _of_table(table: pa.Table, what: str) -> FeatureRows:
    for field in table.schema:
        kind = field.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
                or pa.types.is_decimal(kind) or pa.types.is_null(kind)):  # fmt: skip
            raise UserError(f"{what}: column {field.name} has type {kind}; expected numbers")
    columns = [whole(column) for column in table.columns]

    def read(part: slice | np.ndarray) -> np.ndarray:
        chosen = [_part(column, part) for column in columns]
        return np.stack([_column(column) for column in chosen], axis=1)

    rows, names = table.num_rows, table.column_names
    return _checked(FeatureRows(rows, len(names), names, read), what)


def _part(column: pa.Array, part: slice | np.ndarray) -> pa.Array:
    if isinstance(part, slice):
        return column[part]
    return column.take(pa.array(part))


def _column(column: pa.Array) -> np.ndarray:
    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        column = column.cast(pa.int8())
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False).astype(np.float32)


def _of_lists(column: pa.ListArray) -> FeatureRows:
    rows = lists(column)
    width = check_width(rows.lengths, name="row {}".format)
    values = column.flatten().to_numpy(zero_copy_only=False)
    matrix = values.reshape(len(column), width)
    return FeatureRows(len(column), width, [], lambda part: _floats(matrix[part]))
