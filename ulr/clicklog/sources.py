"""The log of a date: files that tasks read, or rows that Spark reads.

Files with the contract's columns, or with other names for them, are read by tasks themselves
(`pages`). A table, a query, a condition or an expression needs Spark (`spark_log`).
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from ulr.clicklog import parquet, text
from ulr.clicklog.crashes import crash_of
from ulr.clicklog.files import LogFiles, find_log, list_log
from ulr.clicklog.mapping import check_names, stored_names
from ulr.clicklog.pages import PageSource, open_pages, reader_of, schema_of
from ulr.config.inputs import Log
from ulr.engine.interface import TEXT_BYTES, Engine
from ulr.errors import UserError


class LogSource(Protocol):
    """The log of a date.

    identity: a JSON value that changes with the rows; None: unknown, so the log is always read.
    """

    @property
    def identity(self) -> Any:
        """Files, versions or snapshots that hold the rows."""

    def pages(self, engine: Engine) -> PageSource:
        """Return the rows to read."""

    def names(self) -> list[str]:
        """Return the columns that the log has, under its own names."""

    def first_rows(self) -> pa.RecordBatch | None:
        """Return some rows as they are read, impressions not assembled; None if there are none.

        Files are not filtered by date for it.
        """

    def size(self) -> int | None:
        """Return about how many bytes the log has as compressed Parquet, None if unknown."""

    def difference(self) -> str:
        """Return how the log has changed since it was found; "" if it has not."""

    def failure(self, error: Exception) -> Exception | None:
        """Return an error that names the cause of a failed read, if it is known."""

    def close(self) -> None:
        """Release what reading has left in the engine."""


class FileLog:
    """Files that tasks read."""

    def __init__(self, files: LogFiles, log: Log) -> None:
        self._files, self._log = files, log
        self._path = log.path or ""

    @property
    def identity(self) -> Any:
        """Path, size and time of each file."""
        return self._files.identity

    def pages(self, engine: Engine) -> PageSource:
        """Return the files as a source of pages."""
        return open_pages(engine, self._files, self._log)

    def names(self) -> list[str]:
        """Return the columns of the first file and of its folders."""
        schema = schema_of(self._log)
        if self._log.format == "parquet":
            return parquet.column_names(self._files, schema)
        return text.column_names(self._files, self._log.format, schema)[0]

    def first_rows(self) -> pa.RecordBatch | None:
        """Return the first batch of the first files."""
        reader = replace(reader_of(self._files, self._log, 1), day=None)
        return next((rows for rows in reader.rows([0]) if rows.num_rows), None)

    def size(self) -> int:
        """Return the bytes of the files."""
        size = sum(file.size for file in self._files.files)
        return size if self._log.format == "parquet" else size // TEXT_BYTES

    def difference(self) -> str:
        """Return which file was added, removed or replaced."""
        return self._files.difference(list_log(self._path, self._files.date))

    def failure(self, error: Exception) -> Exception | None:
        """Return an error that names a damaged file."""
        return crash_of(error, self._files, self._log.format)

    def close(self) -> None:
        """Do nothing: tasks hold the files."""


def find_source(engine: Engine, log: Log, date: dt.date) -> LogSource:
    """Return the log of a date; raise UserError if there is none, or a column is wrong."""
    schema = schema_of(log)
    check_names(log.columns, schema, log.layout)
    if is_read_by_tasks(log):
        return FileLog(find_log(log.path or "", date), log)
    if engine.name != "spark":
        raise UserError(
            f"{_needing_spark(log)} is read by Spark: --set engine=spark (pip install "
            "'ulr[spark]', and Java), or files with the names of the columns in log.columns"
        )
    opened: LogSource = import_module("ulr.clicklog.spark_log").open_spark_log(engine, log, date)
    return opened


def is_read_by_tasks(log: Log) -> bool:
    """Return whether tasks read the files themselves, without Spark's readers."""
    plain = stored_names(log.columns, schema_of(log)) is not None
    return log.path is not None and log.where is None and plain


def _needing_spark(log: Log) -> str:
    """Return the first setting of a log that only Spark can read."""
    for name in ("table", "sql", "where"):
        if getattr(log, name) is not None:
            return f"log.{name}"
    return "an expression in log.columns"
