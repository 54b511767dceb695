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


def open_pages(spark: SparkSession, log: LogFiles, settings: Log) -> PageSource:
    """Return the log as a source of pages."""
    by_page = settings.layout == "page"
    levels = Levels.of(settings.feedback)
    schema = page_schema if by_page else impression_schema
    if levels.names:
        schema = graded(schema)
    parallelism = spark.sparkContext.defaultParallelism
    reader: ParquetReader | TextReader
    if settings.format == "parquet":
        reader = open_log(log, schema, parallelism)
    else:
        reader = open_text(log, settings.format, schema, parallelism)
    tasks = spark.range(0, len(reader.tasks), 1, len(reader.tasks))
    if by_page:
        return PageSource(tasks, reader.rows, sessions_are_unique=False, levels=levels)
    reducers = len(reader.tasks)
    send = partial(send_fragments, read=reader.rows, parts=reducers * PARTS_PER_TASK)
    blocks = map_batches(tasks, send, BLOCK)
    by_session = repartition_by_part(blocks, reducers, F.col("part") % reducers)
    return PageSource(by_session, read_pages, sessions_are_unique=True, levels=levels)


def as_read(batches: Batches) -> Batches:
    """Cast batches from Spark to the types of readers (large strings, time zones)."""
    for batch in batches:
        if batch.num_rows:
            yield batch.cast(reading(pages_of(batch.schema.names), inside=True))
