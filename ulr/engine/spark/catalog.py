"""Tables, views and queries of the user's catalogs, with mapped columns and errors of one line.

A user's expressions are analysed before any job starts. They are evaluated without ANSI mode on
every version of Spark, so that a cast that fails gives null instead of ending the job.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.names import missing_column, nearest
from ulr.engine.spark.versions import SPARK_FAILED
from ulr.errors import UserError

CORRUPT = "_corrupt_record"  # the text of a line that Spark cannot read
_ANSI = "spark.sql.ansi.enabled"
_CSV = {"header": "true", "escape": '"'}
_MAX_REASON = 300
_UNRESOLVED = re.compile(r"UNRESOLVED_COLUMN[^`]*?with name (?P<name>(?:`[^`]+`\.?)+)")
_CLASS = re.compile(r"^\[(?P<name>[A-Z_0-9.]+)\] *")
_NO_TABLE = re.compile(r"\[(TABLE_OR_VIEW|SCHEMA|DATABASE|NAMESPACE)_NOT_FOUND\]")
_JAVA = re.compile(r"^An error occurred while calling [^\n]*\n: (?:[\w.$]+: )?")  # of py4j
_AGGREGATE = ("MISSING_GROUP_BY", "MISSING_AGGREGATION", "GROUP_BY_AGGREGATE")


@contextlib.contextmanager
def without_ansi(spark: SparkSession) -> Iterator[None]:
    """Analyse expressions without ANSI mode; an expression keeps the mode it was analysed with."""
    before = spark.conf.get(_ANSI, "false")
    spark.conf.set(_ANSI, "false")
    try:
        yield
    finally:
        spark.conf.set(_ANSI, before or "false")


def find_table(spark: SparkSession, name: str, *, setting: str) -> DataFrame:
    """Return a table or view of any catalog; raise UserError if there is none.

    setting: the setting that holds the name, for messages.
    """
    with contextlib.suppress(*SPARK_FAILED):  # files that other programs have written since
        spark.catalog.refreshTable(name)
    try:
        return spark.table(name)
    except SPARK_FAILED as error:
        if not _NO_TABLE.search(str(error)):
            raise UserError(f"{setting} = {name}: {reason_of(error)}") from None
    near = nearest(name.replace("`", ""), _tables_beside(spark, name))
    raise UserError(
        f"{setting} = {name}: there is no such table or view{near}; check the name, its catalog in "
        "the section spark, and your permissions"
    ) from None


def run_query(spark: SparkSession, query: str, *, setting: str) -> DataFrame:
    """Return the rows of a query, as a plan that was analysed; raise UserError if it is wrong."""
    try:
        with without_ansi(spark):
            return spark.sql(query)
    except SPARK_FAILED as error:
        raise UserError(f"{setting}: {reason_of(error)}") from None


def filter_rows(frame: DataFrame, condition: str, *, setting: str, source: str) -> DataFrame:
    """Return the rows for which an SQL condition is true; raise UserError if it is wrong."""
    try:
        with without_ansi(frame.sparkSession):
            return frame.where(F.expr(condition))
    except SPARK_FAILED as error:
        raise _expression_error(error, setting, condition, frame.columns, source) from None


def expressions(
    frame: DataFrame, columns: Mapping[str, str], *, setting: str, source: str
) -> dict[str, Column]:
    """Return each name's SQL expression over the columns of a frame; raise UserError for a bad one.

    columns: a column's name or an SQL expression by name. Every expression is analysed by itself,
    so that the message names the one that is wrong. setting: the mapping, such as log.columns.
    Select them within `without_ansi`.
    """
    with without_ansi(frame.sparkSession):
        found = {}
        for name, text in columns.items():
            try:
                found[name] = F.expr(text).alias(name)
                frame.select("*", found[name])
            except SPARK_FAILED as error:
                raise _expression_error(
                    error, f"{setting}.{name}", text, frame.columns, source
                ) from None
    return found


def select(frame: DataFrame, columns: Sequence[Column], *, setting: str) -> DataFrame:
    """Return the columns; raise UserError if they cannot be selected together."""
    try:
        return frame.select(*columns)
    except SPARK_FAILED as error:
        raise UserError(f"{setting}: {reason_of(error)}") from None


def read_files(
    spark: SparkSession, paths: list[str], form: str, ddl: str | None, setting: str
) -> DataFrame:
    """Return the rows of files; raise UserError if there are none.

    ddl: names and types of the columns, as `id string, at bigint`; inferred if None. The text of a
    line of JSON or CSV that cannot be read is in the column CORRUPT.
    """
    reader = spark.read.format(form)
    if form == "parquet":
        reader = reader.option("mergeSchema", "true")
    else:
        reader = reader.option("columnNameOfCorruptRecord", CORRUPT)
    if form == "csv":
        reader = reader.options(**_CSV)
    try:
        if ddl is not None:
            extra = "" if form == "parquet" or CORRUPT in ddl else f", {CORRUPT} string"
            reader = reader.schema(ddl + extra)
        return reader.load(paths)
    except SPARK_FAILED as error:
        raise UserError(f"{setting} = {paths[0]}: {reason_of(error)}") from None


def keep_on_disk(frame: DataFrame) -> DataFrame:
    """Return the rows, which are computed once and kept on the disks of the executors."""
    return frame.persist(StorageLevel.DISK_ONLY)


def reason_of(error: Exception) -> str:
    """Return Spark's reason for rejecting a plan as one line without its class and plan."""
    text = str(error).strip()
    text = _JAVA.sub("", text.partition("JVM stacktrace")[0].strip()) or type(error).__name__
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = _CLASS.sub("", lines[0]) if lines else type(error).__name__
    first = re.split(r" SQLSTATE: |; line \d+ pos|\.\(line \d+, pos", first)[0]
    return first.rstrip(" .:;")[:_MAX_REASON]


def _expression_error(
    error: Exception, setting: str, text: str, columns: Sequence[str], source: str
) -> UserError:
    message = str(error)
    if match := _UNRESOLVED.search(message):
        name = match["name"].replace("`", "")
        return UserError(f"{setting} = {text!r}: {missing_column(source, name, columns)}")
    if any(name in message for name in _AGGREGATE):
        return UserError(
            f"{setting} = {text!r}: an aggregate is not the value of one row; write a query that "
            "groups the rows, as in log.sql"
        )
    return UserError(f"{setting} = {text!r}: {reason_of(error)}")


def _tables_beside(spark: SparkSession, name: str) -> list[str]:
    """Return the names of the tables in the same namespace, or none."""
    folder, dot, _ = name.replace("`", "").rpartition(".")
    try:
        rows = spark.sql(f"SHOW TABLES IN {folder}" if dot else "SHOW TABLES").collect()
    except SPARK_FAILED:
        return []
    return [f"{folder}{dot}{row['tableName']}" for row in rows]
