"""Features in a table or view that Spark knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from ulr.engine.spark import rows as spark_rows
from ulr.engine.spark.catalog import find_table
from ulr.engine.spark.engine import SparkEngine
from ulr.engine.spark.table_versions import estimated_bytes, files_of, pin_version
from ulr.errors import UserError
from ulr.features.files import chosen_days, date_of, day_number
from ulr.features.layout import DATE, FeatureLayout
from ulr.features.source import FeatureTable


def open_table(
    engine: SparkEngine, name: str, layout: FeatureLayout, dates: Sequence[dt.date], by_day: bool
) -> FeatureTable:
    """Return the rows of some dates of a table; raise UserError if a column is missing."""
    where = f"features.table {name}"
    spark = engine.session
    found = pin_version(spark, name, find_table(spark, name, setting="features.table"))
    schema = spark_rows.arrow_schema(found.frame)
    layout = layout.resolved(schema, where)
    columns = layout.check(schema, where)
    frame = _of_dates(found.frame, layout, dates, by_day, where)
    rows = spark_rows.columns_of(frame, columns)
    # The version of a table without one: the files that are left, or the content of the rows.
    version = found.identity if found.pinned else files_of(frame) or spark_rows.content_of(rows)
    identity = {
        "table": name,
        "version": version,
        "keys": dict(layout.keys),
        "columns": layout.columns,
        "by_day": by_day,
    }
    return FeatureTable(rows, where, layout, identity, estimated_bytes(rows) or 0, by_day)


def _of_dates(
    frame: Any, layout: FeatureLayout, dates: Sequence[dt.date], by_day: bool, where: str
) -> Any:
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
    days = {day_number(date) for date in spark_rows.dates_in(frame, column)}
    if not days:
        raise UserError(f"{where}: {column} has no date, such as 2026-01-31")
    chosen = chosen_days(days, dates, by_day, where)
    return spark_rows.of_dates(frame, column, [date_of(day) for day in chosen])
