"""What differs between Spark 3.5, 4.0 and later versions, and between installations of pyspark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

JVM_ERRORS: tuple[type[Exception], ...] = ()
SPARK_FAILED: tuple[type[Exception], ...] = (PySparkException,)
if find_spec("py4j"):  # not installed with pyspark-client, which has Spark Connect only
    _py4j = import_module("py4j.protocol")
    JVM_ERRORS, SPARK_FAILED = (_py4j.Py4JError,), (PySparkException, _py4j.Py4JJavaError)

_SEED = 42  # of Spark's hash partitioning
_KEYS = 1 << 12


def repartition_by_part(frame: DataFrame, partitions: int, part: Column) -> DataFrame:
    """Return the frame with the rows of part p (from 0) in partition p.

    Spark 4.1 and later have `repartitionById`. All versions partition by a hash, and here the hash
    of the key of a part is the part, so that one code path serves all of them.
    """
    keys = F.expr(f"array({', '.join(map(str, _keys_of(partitions)))})")
    return frame.repartition(partitions, keys[part.cast("int")])


@lru_cache
def _keys_of(partitions: int) -> tuple[int, ...]:
    """Return for each partition the least integer from 0 that Spark's hash assigns to it."""
    keys = np.full(partitions, -1, np.int64)
    start = 0
    while (keys < 0).any():
        candidates = np.arange(start, start + _KEYS, dtype=np.uint32)
        assigned = _spark_hash(candidates).view(np.int32).astype(np.int64) % partitions
        found, first = np.unique(assigned, return_index=True)
        new = keys[found] < 0
        keys[found[new]] = start + first[new]
        start += _KEYS
    return tuple(keys.tolist())


def _spark_hash(values: np.ndarray) -> np.ndarray:
    """Return Spark's `hash` of integers: Murmur3 of 32 bits. values, result: uint32."""

    def rotated(x: np.ndarray, bits: int) -> np.ndarray:
        return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))

    k = rotated(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    h = rotated(np.uint32(_SEED) ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h = h ^ np.uint32(4)  # bytes
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    mixed: np.ndarray = h ^ (h >> np.uint32(16))
    return mixed


def to_arrow(frame: DataFrame) -> pa.Table:
    """Return all rows; `DataFrame.toArrow`, which Spark 3.5 does not have."""
    if hasattr(DataFrame, "toArrow"):
        return frame.toArrow()
    collect: Any = frame._collect_as_arrow
    batches = collect()
    schema = batches[0].schema if batches else to_arrow_schema(frame.schema)
    return pa.Table.from_batches(batches, schema)


def arrow_udf(
    function: Callable[[Iterator[pa.Array]], Iterator[pa.Array]], return_type: str
) -> Callable[[Column], Column]:
    """Return a function of a column that computes Arrow arrays; through pandas before Spark 4.1."""
    if hasattr(F, "arrow_udf"):
        # Spark infers the UDF's kind from type hints; pyspark's stubs have no overload for this.
        udf: Callable[[Column], Column] = F.arrow_udf(function, return_type)  # type: ignore[call-overload]
        return udf

    def by_pandas(columns: Any) -> Any:
        for values in function(pa.Array.from_pandas(column) for column in columns):
            yield values.to_pandas()

    pandas: Any = import_module("pandas")  # slow to import, and rarely needed
    series = Iterator[pandas.Series]
    by_pandas.__annotations__ = {"columns": series, "return": series}
    pandas_udf: Any = F.pandas_udf
    converted: Callable[[Column], Column] = pandas_udf(by_pandas, return_type)
    return converted
