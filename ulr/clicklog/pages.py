"""Read a click log of any format and layout as Arrow batches of pages in Spark tasks.

Parquet pages are read by the tasks themselves (`parquet`): Spark's reader would convert every list
to rows and back. Text formats and the impression layout are read as Spark columns (`text`,
`impressions`) and converted to batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ulr.clicklog.files import LogFiles
from ulr.clicklog.impressions import assemble_pages
from ulr.clicklog.parquet import check_first_file, plan_tasks, read_ids, read_rows
from ulr.clicklog.text import read_typed_rows
from ulr.config.settings import Log
from ulr.engine.session import spark_schema
from ulr.warehouse.schema import impression_schema, page_schema, read_schema, reading

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class PageSource:
    """A log to read with `frame.mapInArrow`.

    read: gives batches with `read_schema`. read_ids: gives only the session ids, at lower cost.
    """

    frame: DataFrame
    read: Callable[[Batches], Batches]
    read_ids: Callable[[Batches], Iterator[pa.Array]]
    sessions_are_unique: bool


def open_pages(spark: SparkSession, log: LogFiles, settings: Log) -> PageSource:
    """Return the log as a source of pages."""
    schema = page_schema if settings.layout == "page" else impression_schema
    if settings.format == "parquet":
        tasks, options = _parquet_tasks(spark, log, schema)
        read = partial(read_rows, **options)
        if settings.layout == "page":
            return PageSource(tasks, read, partial(read_ids, **options), False)
        decode = partial(_decode_source, read=read)
        rows = tasks.mapInArrow(decode, spark_schema(reading(schema)))
    else:
        rows = read_typed_rows(spark, log, settings.format, schema)
    pages = rows if settings.layout == "page" else assemble_pages(rows)
    ordered = pages.select(*read_schema.names)
    return PageSource(ordered, as_read, _ids_as_read, settings.layout == "impression")


def as_read(batches: Batches) -> Batches:
    """Cast batches from Spark to `read_schema` (large strings, time zones)."""
    for batch in batches:
        if batch.num_rows:
            yield batch.cast(read_schema)


def _ids_as_read(batches: Batches) -> Iterator[pa.Array]:
    for batch in as_read(batches):
        yield batch["session_id"]


def _parquet_tasks(
    spark: SparkSession, log: LogFiles, schema: pa.Schema
) -> tuple[DataFrame, dict[str, Any]]:
    """Return one row per task, and the keyword arguments of `read_rows`."""
    check_first_file(log, schema)
    tasks = plan_tasks(log, schema, spark.sparkContext.defaultParallelism)
    options = {"url": log.storage.url, "tasks": tasks, "schema": schema, "day": log.day}
    return spark.range(0, len(tasks), 1, len(tasks)), options


def _decode_source(batches: Batches, *, read: Callable[[Batches], Batches]) -> Batches:
    """Read rows with a plain `source` column: Spark has no dictionary type."""
    for batch in read(batches):
        at = batch.schema.get_field_index("source")
        yield batch.set_column(at, "source", batch["source"].cast(pa.string()))
