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

from ulr.clicklog.contract import CheckedPages, check_pages
from ulr.clicklog.events import CLICKS_ONLY, Levels
from ulr.clicklog.files import LogFiles
from ulr.clicklog.impressions import PARTS_PER_TASK, read_pages, send_fragments
from ulr.clicklog.mapping import stored_names
from ulr.clicklog.parquet import ParquetReader, open_log
from ulr.clicklog.text import TextReader, open_text
from ulr.config.inputs import Log
from ulr.engine.shuffle import BLOCK
from ulr.engine.spark_versions import repartition_by_part
from ulr.engine.tasks import map_batches
from ulr.warehouse.schema import (
    FEATURES,
    FEEDBACK,
    RANKER,
    impression_schema,
    page_schema,
    pages_of,
    reading,
    with_columns,
)

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class PageReader:
    """Reads and checks pages in a task.

    read: gives batches with the columns of `reading(pages)`. levels: the events of the log. width:
    the number of features of a document in the log; 0: they are not read.
    """

    read: Callable[[Batches], Batches]
    levels: Levels = CLICKS_ONLY
    width: int = 0

    @property
    def pages(self) -> pa.Schema:
        """The columns of pages that are read."""
        return pages_of(_further(self.levels.names, self.width))

    def check(self, batch: pa.RecordBatch) -> CheckedPages:
        """Check every page of a batch."""
        return check_pages(batch, self.levels, self.width)


@dataclass(frozen=True)
class PageSource:
    """A log to read with `map_batches` of `frame`, each task with the reader."""

    frame: DataFrame
    reader: PageReader
    sessions_are_unique: bool


def _further(feedback: object, features: object) -> list[str]:
    """Return the further columns to read. A log without rankers has nulls in their column."""
    chosen = {FEEDBACK: feedback, FEATURES: features, RANKER: True}
    return [name for name, wanted in chosen.items() if wanted]


def schema_of(settings: Log) -> pa.Schema:
    """Return the schema of the log's rows: pages or impressions."""
    schema = page_schema if settings.layout == "page" else impression_schema
    return with_columns(schema, _further(settings.feedback, settings.features))


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
    levels, width = Levels.of(settings.feedback), settings.feature_count
    if settings.layout == "page":
        return PageSource(rows, PageReader(read, levels, width), sessions_are_unique=False)
    send = partial(send_fragments, read=read, parts=reducers * PARTS_PER_TASK,
                   first_position=settings.first_position)  # fmt: skip
    blocks = map_batches(rows, send, BLOCK)
    by_session = repartition_by_part(blocks, reducers, F.col("part") % reducers)
    pages = PageReader(read_pages, levels, width)
    return PageSource(by_session, pages, sessions_are_unique=True)


def as_read(batches: Batches) -> Batches:
    """Cast batches from Spark to the types of readers (large strings, time zones)."""
    for batch in batches:
        if batch.num_rows:
            yield batch.cast(reading(pages_of(batch.schema.names), inside=True))
