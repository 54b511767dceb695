"""Read a click log of any format and layout as Arrow batches of pages in Spark tasks.

Tasks read the files themselves (`parquet`, `text`): Spark's readers would convert every list to
rows and back. Impressions are sent by hash of the session, to be assembled into pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.clicklog.events import CLICKS_ONLY, Levels
from ulr.clicklog.files import LogFiles
from ulr.clicklog.impressions import PARTS_PER_TASK, read_pages, send_fragments
from ulr.clicklog.mapping import stored_names
from ulr.clicklog.parquet import ParquetReader, open_log
from ulr.clicklog.text import TextReader, open_text
from ulr.config.settings import Log
from ulr.engine.shuffle import BLOCK
from ulr.engine.spark_versions import repartition_by_part
from ulr.engine.tasks import map_batches
from ulr.warehouse.schema import graded, impression_schema, page_schema, pages_of, reading

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class PageSource:
    """A log to read with `map_batches` of `frame`.

    read: gives batches with `read_schema`, with feedback if the levels have names.
    """

    frame: DataFrame
    read: Callable[[Batches], Batches]
    sessions_are_unique: bool
    levels: Levels = CLICKS_ONLY


def schema_of(settings: Log) -> pa.Schema:
    """Return the schema of the log's rows: pages or impressions."""
    schema = page_schema if settings.layout == "page" else impression_schema
    return graded(schema) if settings.feedback else schema


def open_pages(spark: SparkSession, log: LogFiles, settings: Log) -> PageSource:
    """Return files that tasks read as a source of pages."""
    reader = reader_of(log, settings, spark.sparkContext.defaultParallelism)
    tasks = spark.range(0, len(reader.tasks), 1, len(reader.tasks))
    return page_source(tasks, reader.rows, settings, len(reader.tasks))


def reader_of(log: LogFiles, settings: Log, parallelism: int) -> ParquetReader | TextReader:
    """Return the reader of files; raise UserError for a wrong layout, format or column."""
    schema = schema_of(settings)
    stored = stored_names(settings.columns, schema) or {}
    if settings.format == "parquet":
        return open_log(log, schema, parallelism, stored)
    return open_text(log, settings.format, schema, parallelism, stored)


def page_source(
    rows: DataFrame, read: Callable[[Batches], Batches], settings: Log, reducers: int
) -> PageSource:
    """Return rows that `read` gives the contract's types as a source of pages.

    reducers: tasks that assemble impressions.
    """
    levels = Levels.of(settings.feedback)
    if settings.layout == "page":
        return PageSource(rows, read, sessions_are_unique=False, levels=levels)
    send = partial(send_fragments, read=read, parts=reducers * PARTS_PER_TASK,
                   first_position=settings.first_position)  # fmt: skip
    blocks = map_batches(rows, send, BLOCK)
    by_session = repartition_by_part(blocks, reducers, F.col("part") % reducers)
    return PageSource(by_session, read_pages, sessions_are_unique=True, levels=levels)


def as_read(batches: Batches) -> Batches:
    """Cast batches from Spark to the types of readers (large strings, time zones)."""
    for batch in batches:
        if batch.num_rows:
            yield batch.cast(reading(pages_of(batch.schema.names), inside=True))
