"""JSON lines, CSV and impression Parquet as typed rows, in Spark columns.

Every row keeps `source`, and `problem` = bad_type with the row's text in `raw` where a value does
not have its column's type. CSV writes lists as JSON arrays: `["d1","d2"]`, `[true,false]`.
"""

from __future__ import annotations

import datetime as dt

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ulr.errors import UserError
from ulr.logfiles import LogFiles
from ulr.schema import OPTIONAL_COLUMNS

_RAW = "raw"


def read_typed_rows(
    spark: SparkSession, log: LogFiles, form: str, schema: T.StructType, day: dt.date | None
) -> DataFrame:
    """The log's rows with the schema's columns, source, problem, raw and repeats."""
    urls = [_spark_url(log, path) for path in log.paths]
    try:
        rows = {"json": _json, "csv": _csv, "parquet": _parquet}[form](spark, urls, schema)
    except AnalysisException as why:
        first_line = str(why).split("\n", 1)[0]
        raise UserError(f"cannot read {urls[0]} as {form}: {first_line}") from None
    rows = rows.withColumn("repeats", F.lit(0).cast("int"))
    if day is None:
        return rows
    return rows.where(F.col("shown_at").isNull() | (F.to_date("shown_at") == F.lit(day)))


def _spark_url(log: LogFiles, path: str) -> str:
    scheme, separator, _ = log.storage.url.partition("://")
    return f"{scheme}://{path}" if separator else f"file://{path}"


def _json(spark: SparkSession, urls: list[str], schema: T.StructType) -> DataFrame:
    typed = T.StructType([*schema.fields, T.StructField(_RAW, T.StringType())])
    rows = spark.read.schema(typed).json(urls, mode="PERMISSIVE", columnNameOfCorruptRecord=_RAW)
    problem = F.when(F.col(_RAW).isNotNull(), F.lit("bad_type"))
    return rows.withColumns({"source": F.col("_metadata.file_path"), "problem": problem})


def _csv(spark: SparkSession, urls: list[str], schema: T.StructType) -> DataFrame:
    text = spark.read.csv(urls, header=True, escape='"', multiLine=False)
    return _from_text(text.withColumn("source", F.col("_metadata.file_path")), schema, urls[0])


def _parquet(spark: SparkSession, urls: list[str], schema: T.StructType) -> DataFrame:
    rows = spark.read.parquet(*urls).withColumn("source", F.col("_metadata.file_path"))
    _check_columns(rows, schema, urls[0])
    return _from_text(rows, schema, urls[0])


def _from_text(rows: DataFrame, schema: T.StructType, url: str) -> DataFrame:
    """Cast every column; a value that is there before and not after has the wrong type."""
    _check_columns(rows, schema, url)
    given = {f.name: F.col(f.name) for f in schema if f.name in rows.columns}
    typed = {
        f.name: _cast(given[f.name], rows.schema[f.name].dataType, f.dataType)
        if f.name in given
        else F.lit(None).cast(f.dataType)
        for f in schema
    }
    lost = [given[name].isNotNull() & typed[name].isNull() for name in given]
    broken = F.lit(False)
    for condition in lost:
        broken = broken | condition
    return rows.select(
        *(column.alias(name) for name, column in typed.items()),
        "source",
        F.when(broken, F.lit("bad_type")).alias("problem"),
        F.when(broken, F.to_json(F.struct(*given))).alias(_RAW),
    )


def _cast(column: Column, given: T.DataType, wanted: T.DataType) -> Column:
    if given == wanted:
        return column
    if isinstance(wanted, T.ArrayType) and isinstance(given, T.StringType):
        return F.from_json(column, wanted)
    return column.try_cast(wanted)


def _check_columns(rows: DataFrame, schema: T.StructType, url: str) -> None:
    missing = [n for n in schema.names if n not in rows.columns and n not in OPTIONAL_COLUMNS]
    if missing:
        found = ", ".join(c for c in rows.columns if c != "source")
        raise UserError(
            f"{url} has no column {', '.join(missing)}; it has {found}. "
            "Check sessions.layout (page or impression)"
        )
