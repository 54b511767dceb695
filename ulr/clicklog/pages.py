"""Read a click log of any format and layout as Arrow batches of pages in tasks.

Tasks read the files themselves (`parquet`, `text`), on Spark too, whose readers would convert every
list to rows and back. Impressions are sent by hash of the session, to be assembled into pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from ulr.clicklog.contract import CheckedPages, check_pages
from ulr.clicklog.events import CLICKS_ONLY, Levels
from ulr.clicklog.files import LogFiles
from ulr.clicklog.impressions import PARTS_PER_TASK, read_pages, send_fragments
from ulr.clicklog.mapping import stored_names
from ulr.clicklog.parquet import ParquetReader, open_log
from ulr.clicklog.text import TextReader, open_text
from ulr.config.inputs import Log
from ulr.engine.interface import (
    TASKS_PER_CORE,
    Batches,
    Engine,
    Exchange,
    Items,
    Source,
)
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


@dataclass(frozen=True)
class PageReader:
    """Reads and checks pages in a task.

    read: of what a task gets, gives batches with the columns of `reading(pages)`. levels: the
    events of the log. width: the number of features of a document in the log; 0: they are not read.
    """

    read: Callable[[Any], Batches]
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
    """A log to read by the tasks of a source, each with the reader."""

    source: Source
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


def open_pages(engine: Engine, log: LogFiles, settings: Log) -> PageSource:
    """Return files that tasks read as a source of pages."""
    reader = reader_of(log, settings, engine.parallelism)
    # Without sizes, so that a damaged file cannot end this process: Arrow crashes on some of them.
    return page_source(engine, Items(range(len(reader.tasks))), reader.rows, settings)


def reader_of(log: LogFiles, settings: Log, parallelism: int) -> ParquetReader | TextReader:
    """Return the reader of files; raise UserError for a wrong layout, format or column."""
    schema = schema_of(settings)
    stored = stored_names(settings.columns, schema) or {}
    if settings.format == "parquet":
        return open_log(log, schema, parallelism, stored)
    return open_text(log, settings.format, schema, parallelism, stored)


def page_source(
    engine: Engine, rows: Source, read: Callable[[Any], Batches], settings: Log
) -> PageSource:
    """Return rows that `read` gives the contract's types as a source of pages."""
    levels, width = Levels.of(settings.feedback), settings.feature_count
    if settings.layout == "page":
        return PageSource(rows, PageReader(read, levels, width), sessions_are_unique=False)
    tasks = TASKS_PER_CORE * engine.parallelism
    send = partial(
        send_fragments,
        read=read,
        parts=tasks * PARTS_PER_TASK,
        first_position=settings.first_position,
    )
    by_session = Exchange([(rows, send)], tasks * PARTS_PER_TASK, tasks)
    pages = PageReader(read_pages, levels, width)
    return PageSource(by_session, pages, sessions_are_unique=True)


def as_read(batches: Batches) -> Batches:
    """Cast batches that were sent to the types of readers (large strings, time zones)."""
    for batch in batches:
        if batch.num_rows:
            yield batch.cast(reading(pages_of(batch.schema.names), inside=True))
