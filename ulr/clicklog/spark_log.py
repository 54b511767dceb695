"""A log that Spark reads: a table, a query over named views, or files with expressions.

Rows pass through the same checks as those of files.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.batches import cut_batch
from ulr.clicklog.conform import conform, with_problems
from ulr.clicklog.files import find_log
from ulr.clicklog.pages import PageSource, page_source, schema_of
from ulr.clicklog.parquet import on_day
from ulr.clicklog.text import source_url
from ulr.clicklog.times import END_TIME, FIRST_TIME
from ulr.config.inputs import Log, View
from ulr.dates import has_date, with_date
from ulr.engine.interface import Batches, Engine, Rows
from ulr.engine.spark.catalog import (
    filter_rows,
    find_table,
    keep_on_disk,
    read_files,
    run_query,
)
from ulr.engine.spark.engine import SparkEngine
from ulr.engine.spark.log_columns import CORRUPT, Contract, select_log, unreadable_rows
from ulr.engine.spark.table_versions import (
    VersionedFrame,
    estimated_bytes,
    files_of,
    pin_version,
    relations_in,
)
from ulr.engine.spark.versions import to_arrow
from ulr.warehouse.schema import OPTIONAL_COLUMNS

_SOME_ROWS = 1000
_PROBLEM, _RAW = "problem", "raw"  # columns that Spark adds


@dataclass(frozen=True)
class TableReader:
    """Gives the batches of `select_log` the types of the contract; day: the only date to read."""

    source: str
    schema: pa.Schema
    day: dt.date | None

    def rows(self, batches: Batches) -> Batches:
        """Yield rows with the columns of `reading(schema)`."""
        for batch in batches:
            if not batch.num_rows:
                continue
            for piece in cut_batch(batch):
                rows = self._conform(piece.rows, piece.large)
                yield rows if self.day is None else rows.filter(on_day(rows["shown_at"], self.day))

    def _conform(self, batch: pa.RecordBatch, large: bool) -> pa.RecordBatch:
        own = [n for n in batch.schema.names if n not in (_PROBLEM, _RAW)]
        values = batch.select(own)
        if large:
            arrays = [pa.nulls(batch.num_rows, field.type) for field in self.schema]
            problems = {"too_large": np.ones(batch.num_rows, bool)}
            return with_problems(values, arrays, problems, self.source, self.schema)
        rows = conform(values, self.source, self.schema)
        for name in (_PROBLEM, _RAW):
            if batch[name].null_count < batch.num_rows:
                at = rows.schema.get_field_index(name)
                text = pc.coalesce(pc.cast(batch[name], pa.string()), rows[name])
                rows = rows.set_column(at, rows.schema.field(at), text)
        return rows


@dataclass
class SparkLog:
    """Rows of a date that Spark reads.

    identity: a JSON value that changes with the rows, None if unknown. pinned: a second pass reads
    the same rows. columns: the names that the log has.
    """

    engine: SparkEngine
    log: Log
    date: dt.date
    rows: Any
    identity: list[Any] | None
    pinned: bool
    bytes: int | None
    columns: list[str]
    kept: bool = False

    def pages(self, engine: Engine) -> PageSource:
        """Return the rows as a source of pages.

        Rows without a known version are kept on disk until `close`, so that a second pass reads
        the same ones.
        """
        if self.identity is None and not self.kept:
            self.rows, self.kept = keep_on_disk(self.rows), True
        return page_source(engine, Rows(self.rows), self._reader().rows, self.log)

    def _reader(self) -> TableReader:
        return TableReader(self.log.source, schema_of(self.log), _day(self.log, self.date))

    def names(self) -> list[str]:
        """Return the columns of the table, the query or the files."""
        return self.columns

    def first_rows(self) -> pa.RecordBatch | None:
        """Return some rows of the date."""
        batches = to_arrow(self.rows.limit(_SOME_ROWS)).combine_chunks().to_batches()
        return next((rows for rows in self._reader().rows(iter(batches)) if rows.num_rows), None)

    def size(self) -> int | None:
        """Return Spark's estimate of the bytes, None if there is none."""
        return self.bytes

    def difference(self) -> str:
        """Return that the files of the log have changed, if they have."""
        if self.pinned or self.identity is None:
            return ""
        now = open_spark_log(self.engine, self.log, self.date).identity
        return "" if now == self.identity else f"the files of {self.log.source} were replaced"

    def failure(self, error: Exception) -> Exception | None:
        """Return None: Spark's errors are explained where they are printed."""
        return None

    def close(self) -> None:
        """Release the rows that were kept."""
        if self.kept:
            self.rows.unpersist()
            self.kept = False


def open_spark_log(engine: SparkEngine, log: Log, date: dt.date) -> SparkLog:
    """Return the log of a date; raise UserError for a wrong table, query, condition or column."""
    spark = engine.session
    views = {name: _view(spark, name, view, date) for name, view in log.views.items()}
    source = _source(spark, log, date, views)
    unreadable = [rows for view in views.values() for rows in unreadable_rows(view.frame)]
    frame = source.frame
    if log.where is not None:
        unreadable += unreadable_rows(frame)
        condition = with_date(log.where, date)
        frame = filter_rows(frame, condition, setting="log.where", source=log.source)
    if source.identity is None or log.where is not None:
        source = _identified(replace(source, frame=frame))
    columns = {name: with_date(text, date) for name, text in log.columns.items()}
    contract = Contract(schema_of(log), OPTIONAL_COLUMNS, FIRST_TIME, END_TIME)
    rows = select_log(frame, columns, contract, log.source, _day(log, date))
    for lines in unreadable:
        rows = rows.unionByName(lines, allowMissingColumns=True)
    size = estimated_bytes(frame)
    names = [name for name in frame.columns if name != CORRUPT]
    return SparkLog(engine, log, date, rows, source.identity, source.pinned, size, names)


def _day(log: Log, date: dt.date) -> dt.date | None:
    """Return the date to filter rows by; None if the settings already choose the rows of a date."""
    paths = [text for view in log.views.values() for text in (view.path, view.table)]
    chosen = has_date(log.path, log.table, log.sql, log.where, *(paths if log.sql else ()))
    if chosen or (log.path and not find_log(log.path, date).filtered):
        return None
    return date


def _source(
    spark: Any, log: Log, date: dt.date, views: Mapping[str, VersionedFrame]
) -> VersionedFrame:
    if log.table is not None:
        return _table(spark, with_date(log.table, date), "log.table")
    if log.path is not None:
        files = find_log(log.path, date)
        paths = [source_path(files.storage.url, path) for path in files.paths]
        frame = read_files(spark, paths, log.format, None, "log.path")
        return VersionedFrame(frame, files.identity, pinned=False)
    return _query(spark, with_date(log.sql or "", date), views)


def _table(spark: Any, name: str, setting: str) -> VersionedFrame:
    return pin_version(spark, name, find_table(spark, name, setting=setting))


def _query(spark: Any, query: str, views: Mapping[str, VersionedFrame]) -> VersionedFrame:
    """Return the rows of a query; its version is known if those of all its tables are."""
    for name, view in views.items():
        view.frame.createOrReplaceTempView(name)
    frame = run_query(spark, query, setting="log.sql")
    used = relations_in(spark, query)
    lowered = {name.lower(): view for name, view in views.items()}
    known = used is not None and all(name.lower() in lowered for name in used)
    read = [(n.lower(), lowered[n.lower()]) for n in sorted(used or ()) if n.lower() in lowered]
    identities = [[name, view.identity] for name, view in read]
    if not known or not read or any(identity is None for _, identity in identities):
        return VersionedFrame(frame, None, pinned=False)
    return VersionedFrame(frame, identities, pinned=all(view.pinned for _, view in read))


def _view(spark: Any, name: str, view: View, date: dt.date) -> VersionedFrame:
    if view.table is not None:
        return _identified(_table(spark, with_date(view.table, date), f"log.views.{name}.table"))
    path = with_date(view.path or "", date)
    frame = read_files(spark, [path], view.format, view.ddl, f"log.views.{name}.path")
    return _identified(VersionedFrame(frame, None, pinned=False))


def _identified(source: VersionedFrame) -> VersionedFrame:
    """Return a source whose identity is that of its files, unless it has a version."""
    if source.pinned:
        return source
    return replace(source, identity=files_of(source.frame) or source.identity)


def source_path(url: str, path: str) -> str:
    """Return a file's path as Spark opens it, given the URL of its folder."""
    if "://" not in url:
        return f"file://{path}"
    scheme = url.partition("://")[0]
    return f"{scheme}://{path}" if scheme != "file" else source_url("", path)
