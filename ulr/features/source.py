"""The features that the settings name: files, or a table that Spark knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from ulr.config.inputs import Features
from ulr.engine.table_versions import estimated_bytes, files_of, pin_version
from ulr.engine.tables import find_table
from ulr.engine.tasks import Batches, map_batches, map_items
from ulr.errors import UserError
from ulr.features.files import (
    NAMES,
    FeatureFiles,
    FeaturePart,
    chosen_days,
    date_of,
    day_number,
    find_features,
)
from ulr.features.layout import DATE, FeatureLayout, day_field, valid_names
from ulr.features.logged import open_logged
from ulr.features.reading import read_features
from ulr.features.shown import ShownQueries
from ulr.warehouse.tables import Warehouse

if TYPE_CHECKING:  # pyspark-client has none
    from pyspark import Broadcast

# Tables of rows, each with its place among all; rows of one place have no order.
Rows = Iterator[tuple[int, pa.Table]]


@dataclass(frozen=True)
class FeatureTable:
    """The rows of a table that are read, of the dates that are read.

    identity: a JSON value that changes with the rows. size: bytes, about. by_day: rows are read
    with their day.
    """

    frame: DataFrame
    where: str
    layout: FeatureLayout
    identity: Any
    size: int
    by_day: bool

    def names(self) -> list[str]:
        """Return the names of the features; empty if neither columns nor metadata have them."""
        column = self.layout.column("features")
        if self.layout.columns is None and column in self.frame.columns:
            return valid_names(self.frame.schema[column].metadata.get(NAMES, []), self.where)
        return self.layout.names


FeatureSource = FeatureFiles | FeatureTable


def open_features(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    features: Features,
    dates: Sequence[dt.date] = (),
) -> FeatureSource:
    """Return the features of some dates; raise UserError if a column is missing or is no number.

    dates: of the window, ascending; empty: the latest. Spark is started for a table only, and the
    warehouse is read for features of the log only.
    """
    chosen = features.columns
    columns = tuple(chosen) if isinstance(chosen, list) else chosen
    layout = FeatureLayout({str(name): own for name, own in features.keys.items()}, columns)
    by_day = features.as_of == "day"
    if features.source == "log":
        return open_logged(warehouse, dates, by_day=by_day)
    if features.table is not None:
        return _open_table(start_spark(), features.table, layout, dates, by_day)
    return find_features(features.path, layout, dates=dates, by_day=by_day)


def _open_table(
    spark: SparkSession, name: str, layout: FeatureLayout, dates: Sequence[dt.date], by_day: bool
) -> FeatureTable:
    where = f"features.table {name}"
    found = pin_version(spark, name, find_table(spark, name, setting="features.table"))
    schema = pa.schema([(f.name, _arrow_type(f.dataType)) for f in found.frame.schema])
    layout = layout.resolved(schema, where)
    columns = layout.check(schema, where)
    frame = _of_dates(found.frame, layout, dates, by_day, where)
    rows = frame.select(*(f"`{name}`" for name in columns))
    # The version of a table without one: the files that are left, or the content of the rows.
    version = found.identity if found.pinned else files_of(frame) or _content(rows)
    identity = {"table": name, "version": version, "keys": dict(layout.keys),
                "columns": layout.columns, "by_day": by_day}  # fmt: skip
    size = estimated_bytes(rows) or 0
    return FeatureTable(rows, where, layout, identity, size, by_day)


def _arrow_type(type_: DataType) -> pa.DataType:
    try:
        return to_arrow_type(type_)
    except Exception:  # a type without an Arrow type: no feature
        return pa.binary()


def _of_dates(
    frame: DataFrame, layout: FeatureLayout, dates: Sequence[dt.date], by_day: bool, where: str
) -> DataFrame:
    """Return the rows of the latest date up to the last, or of all dates, if they have dates."""
    column = layout.column(DATE)
    if column not in frame.columns:
        if by_day or DATE in layout.keys:
            setting = "features.as_of=day" if by_day else "features.keys.dt"
            raise UserError(
                f"{setting}: {where} has no column {column} with the date of each row; set "
                "features.keys.dt to such a column"
            )
        return frame
    date = F.to_date(f"`{column}`")
    found = frame.select(date.alias("date")).distinct().collect()
    days = {day_number(row.date) for row in found if row.date is not None}
    if not days:
        raise UserError(f"{where}: {column} has no date, such as 2026-01-31")
    chosen = chosen_days(days, dates, by_day, where)
    return frame.where(date.isin([date_of(day) for day in chosen]))


def _content(rows: DataFrame) -> list[Any]:
    """Return the number of rows and the sum of their hashes."""
    hashed = F.xxhash64(*(f"`{name}`" for name in rows.columns)).cast("decimal(38,0)")
    count, total = rows.agg(F.count("*"), F.sum(hashed)).collect()[0]
    return ["content", count, str(total)]


def map_features(
    spark: SparkSession,
    features: FeatureSource,
    function: Callable[[Rows], Batches],
    schema: str | StructType,
    *,
    shown: Broadcast[ShownQueries] | None = None,
) -> DataFrame:
    """Run a function on the rows of features, tables with `features_schema`, in Spark tasks.

    Rows by day have a further column `day_field`. shown: the queries to read.
    """
    if isinstance(features, FeatureTable):
        read = partial(_of_batches, function=function, layout=features.layout,
                       where=features.where, by_day=features.by_day, shown=shown)  # fmt: skip
        return map_batches(features.frame, read, schema)
    parts = features.parts()
    of_parts = partial(_of_parts, function=function, features=features, names=features.names(),
                       shown=shown)  # fmt: skip
    return map_items(spark, parts, of_parts, schema, sizes=[part.size for part in parts])


def _of_parts(
    parts: list[FeaturePart],
    *,
    function: Callable[[Rows], Batches],
    features: FeatureFiles,
    names: Sequence[str],
    shown: Broadcast[ShownQueries] | None,
) -> Batches:
    only = None if shown is None else shown.value

    def rows() -> Rows:
        for part in parts:
            for number, table in enumerate(read_features(features, part, names, only)):
                yield (part.file << 40) + (part.k << 20) + number, table

    return function(rows())


def _of_batches(
    batches: Batches,
    *,
    function: Callable[[Rows], Batches],
    layout: FeatureLayout,
    where: str,
    by_day: bool,
    shown: Broadcast[ShownQueries] | None,
) -> Batches:
    def rows() -> Rows:
        for batch in batches:
            table = layout.rows(batch, where)
            if by_day:
                days = pa.array(layout.days(batch, where), pa.int32())
                table = table.append_column(day_field, days)
            if shown is not None:
                table = table.filter(pa.array(shown.value.contains(table["query_id"])))
            yield 0, table

    return function(rows())
