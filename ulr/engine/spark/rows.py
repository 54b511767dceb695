"""Rows of a table of Spark: their Arrow types, their dates, and a hash of their content."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame; one without an Arrow type is binary."""
    return pa.schema([(field.name, _arrow_type(field.dataType)) for field in frame.schema])


def _arrow_type(type_: DataType) -> pa.DataType:
    try:
        return to_arrow_type(type_)
    except Exception:  # a type without an Arrow type: no feature
        return pa.binary()


def columns_of(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return some columns of a frame."""
    return frame.select(*(f"`{name}`" for name in names))


def dates_in(frame: DataFrame, column: str) -> list[dt.date]:
    """Return the distinct dates of a column."""
    rows = frame.select(F.to_date(f"`{column}`").alias("date")).distinct().collect()
    return [row.date for row in rows if row.date is not None]


def of_dates(frame: DataFrame, column: str, dates: Sequence[dt.date]) -> DataFrame:
    """Return the rows of some dates."""
    return frame.where(F.to_date(f"`{column}`").isin(list(dates)))


def content_of(rows: DataFrame) -> list[Any]:
    """Return the number of rows and the sum of their hashes, as JSON values."""
    hashed = F.xxhash64(*(f"`{name}`" for name in rows.columns)).cast("decimal(38,0)")
    count, total = rows.agg(F.count("*"), F.sum(hashed)).collect()[0]
    return ["content", count, str(total)]
