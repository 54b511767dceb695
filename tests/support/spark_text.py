"""JSON lines and CSV as Spark reads them: the definition that the readers in tasks must meet.

A row with a value of the wrong type gets `problem` = bad_type, and `raw` contains its text. Lists
in CSV are JSON arrays: `["d1","d2"]`, `[true,false]`.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ulr.clicklog.files import LogFiles, check_columns, folder_columns
from ulr.engine.spark.session import spark_schema
from ulr.errors import UserError

_RAW = "raw"
_GLOB = re.compile(r"([\\*?\[\]{}])")  # special characters of glob patterns in Spark paths
_HEADER_READERS = 16  # threads that read the first lines of CSV files

Folder = tuple[tuple[str, str | None], ...]


def read_typed_rows(spark: SparkSession, log: LogFiles, form: str, schema: pa.Schema) -> DataFrame:
    """Return the log's rows with the columns of `reading(schema)`; form: json or csv."""
    read = {"json": _json, "csv": _csv}[form]
    try:
        rows = reduce(DataFrame.unionByName, read(spark, log, schema))
    except AnalysisException as error:
        first_line = str(error).split("\n", 1)[0]
        raise UserError(f"cannot read {log.paths[0]} as {form}: {first_line}") from None
    rows = rows.withColumn("repeats", F.lit(0).cast("int"))
    if log.day is None:
        return rows
    return rows.where(F.col("shown_at").isNull() | (F.to_date("shown_at") == F.lit(log.day)))


def spark_url(folder: str, path: str) -> str:
    """Return the URL of a file below a folder for Spark, with glob characters escaped."""
    base = folder.partition("?")[0] if "://" in folder else f"file://{folder}"
    return _GLOB.sub(r"\\\1", f"{base.rstrip('/')}/{path}")


def _json(spark: SparkSession, log: LogFiles, schema: pa.Schema) -> Iterator[DataFrame]:
    typed = T.StructType([*spark_schema(schema), T.StructField(_RAW, T.StringType())])
    for (folder, _), urls in _by_header(log, schema, [b""] * len(log.files)).items():
        rows = spark.read.schema(typed).json(
            urls, mode="PERMISSIVE", columnNameOfCorruptRecord=_RAW
        )
        problem = F.when(F.col(_RAW).isNotNull(), F.lit("bad_type"))
        added = {
            name: F.coalesce(name, _try_cast(F.lit(value), typed[name].dataType))
            for name, value in folder
        }
        yield rows.withColumns(
            {"source": F.col("_metadata.file_path"), "problem": problem, **added}
        )


def _csv(spark: SparkSession, log: LogFiles, schema: pa.Schema) -> Iterator[DataFrame]:
    """Yield one DataFrame per distinct header: Spark applies the first file's header to all."""
    with ThreadPoolExecutor(_HEADER_READERS) as pool:
        headers = list(pool.map(partial(_header, log), log.paths))
    nonempty = {key: urls for key, urls in _by_header(log, schema, headers).items() if key[1]}
    if not nonempty:
        check_columns([], schema, log.paths[0])
    for number, ((folder, _), urls) in enumerate(nonempty.items()):
        text = spark.read.csv(urls, header=True, escape='"', multiLine=False)
        added = {name: F.lit(value) for name, value in folder if name not in text.columns}
        text = text.withColumns({"source": F.col("_metadata.file_path"), **added})
        if number == 0:  # rows of other files that lack a column go to quarantine
            check_columns(text.columns, schema, urls[0])
        yield _from_text(text, spark_schema(schema))


def _by_header(
    log: LogFiles, schema: pa.Schema, headers: list[bytes]
) -> dict[tuple[Folder, bytes], list[str]]:
    """Group the files that Spark can read together: those with equal header and folder columns."""
    groups: dict[tuple[Folder, bytes], list[str]] = {}
    for file, header in zip(log.files, headers, strict=True):
        folder = tuple(folder_columns(file.path, schema).items())
        groups.setdefault((folder, header), []).append(spark_url(log.storage.url, file.path))
    return groups


def _header(log: LogFiles, path: str) -> bytes:
    """Return the first line that is not blank, or b"" if there is none."""
    with log.storage.fs.open_input_stream(path) as stream:
        lines = (line.strip() for line in io.BufferedReader(stream))
        return next((line for line in lines if line), b"")


def _from_text(rows: DataFrame, schema: T.StructType) -> DataFrame:
    """Parse every column; a non-null text that parses to null is of the wrong type."""
    texts = {f.name: F.col(f.name) for f in schema if f.name in rows.columns}
    missing = F.lit(None).cast("string")
    typed = {f.name: _parse(texts.get(f.name, missing), f.dataType) for f in schema}
    bad_type = F.lit(False)
    for name, text in texts.items():
        bad_type = bad_type | (text.isNotNull() & typed[name].isNull())
    return rows.select(
        *(column.alias(name) for name, column in typed.items()),
        "source",
        F.when(bad_type, F.lit("bad_type")).alias("problem"),
        F.when(bad_type, F.to_json(F.struct(*texts))).alias(_RAW),
    )


def _parse(text: Column, data_type: T.DataType) -> Column:
    if isinstance(data_type, T.ArrayType):
        return F.from_json(text, data_type)
    return _try_cast(text, data_type)


def _try_cast(value: Column, data_type: T.DataType) -> Column:
    """Return null for a value that cannot be cast; Spark 3.5 does so in every cast."""
    cast = value.try_cast if hasattr(Column, "try_cast") else value.cast
    return cast(data_type)
