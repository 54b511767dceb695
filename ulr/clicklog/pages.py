"""Read a click log of any format and layout as Arrow batches of pages in Spark tasks.

Parquet pages are read by the tasks themselves (`parquet`): Spark's reader would convert every list
to rows and back. Text formats and the impression layout are read as Spark columns (`text`,
`impressions`) and converted to batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from ulr.clicklog.files import LogFiles
from ulr.clicklog.impressions import assemble_pages
from ulr.clicklog.parquet import ParquetReader, open_log
from ulr.clicklog.text import TextReader, open_text
from ulr.config.settings import Log
from ulr.engine.session import spark_schema
from ulr.warehouse.schema import impression_schema, page_schema, read_schema, reading

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class PageSource:
    """A log to read with `frame.mapInArrow`.

    read: gives batches with `read_schema`.
    """

    frame: DataFrame
    read: Callable[[Batches], Batches]
    sessions_are_unique: bool


def open_pages(spark: SparkSession, log: LogFiles, settings: Log) -> PageSource:
    """Return the log as a source of pages."""
    by_page = settings.layout == "page"
    schema = page_schema if by_page else impression_schema
    parallelism = spark.sparkContext.defaultParallelism
    reader: ParquetReader | TextReader
    if settings.format == "parquet":
        reader = open_log(log, schema, parallelism)
    else:
        reader = open_text(log, settings.format, schema, parallelism)
    tasks = spark.range(0, len(reader.tasks), 1, len(reader.tasks))
    if by_page:
        return PageSource(tasks, reader.rows, sessions_are_unique=False)
    decode = partial(_decode_source, read=reader.rows)
    rows = tasks.mapInArrow(decode, spark_schema(reading(schema)))
    ordered = assemble_pages(rows).select(*read_schema.names)
    return PageSource(ordered, as_read, sessions_are_unique=True)


def as_read(batches: Batches) -> Batches:
    """Cast batches from Spark to `read_schema` (large strings, time zones)."""
    for batch in batches:
        if batch.num_rows:
            yield batch.cast(read_schema)


def _decode_source(batches: Batches, *, read: Callable[[Batches], Batches]) -> Batches:
    """Read rows with a plain `source` column: Spark has no dictionary type."""
    for batch in read(batches):
        at = batch.schema.get_field_index("source")
        yield batch.set_column(at, "source", batch["source"].cast(pa.string()))
