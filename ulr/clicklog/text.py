"""JSON lines and CSV as typed rows, in Spark columns.

Every row keeps `source`, and `problem` = bad_type with the row's text in `raw` where a value does
not have its column's type. CSV writes lists as JSON arrays: `["d1","d2"]`, `[true,false]`.
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
from ulr.engine.session import spark_schema
from ulr.errors import UserError

_RAW = "raw"
_PATTERN = re.compile(r"([\\*?\[\]{}])")
Folder = tuple[tuple[str, str | None], ...]
READERS = 16  # files whose first line is asked for at a time


def read_typed_rows(spark: SparkSession, log: LogFiles, form: str, schema: pa.Schema) -> DataFrame:
    """The log's rows with the schema's columns, source, problem, raw and repeats."""
    read = {"json": _json, "csv": _csv}[form]
    try:
        rows = reduce(DataFrame.unionByName, read(spark, log, schema))
    except AnalysisException as why:
        first_line = str(why).split("\n", 1)[0]
        raise UserError(f"cannot read {log.paths[0]} as {form}: {first_line}") from None
    rows = rows.withColumn("repeats", F.lit(0).cast("int"))
    if log.day is None:
        return rows
    return rows.where(F.col("shown_at").isNull() | (F.to_date("shown_at") == F.lit(log.day)))


def spark_url(folder: str, path: str) -> str:
    """A file below a folder as Spark finds it: by host and account too, and never as a pattern."""
    base = folder.partition("?")[0] if "://" in folder else f"file://{folder}"
    return _PATTERN.sub(r"\\\1", f"{base.rstrip('/')}/{path}")


def _json(spark: SparkSession, log: LogFiles, schema: pa.Schema) -> Iterator[DataFrame]:
    typed = T.StructType([*spark_schema(schema), T.StructField(_RAW, T.StringType())])
    for (folder, _), urls in _alike(log, schema, [b""] * len(log.files)).items():
        rows = spark.read.schema(typed).json(
            urls, mode="PERMISSIVE", columnNameOfCorruptRecord=_RAW
        )
        problem = F.when(F.col(_RAW).isNotNull(), F.lit("bad_type"))
        added = {
            name: F.coalesce(name, F.lit(value).try_cast(typed[name].dataType))
            for name, value in folder
        }
        yield rows.withColumns(
            {"source": F.col("_metadata.file_path"), "problem": problem, **added}
        )


def _csv(spark: SparkSession, log: LogFiles, schema: pa.Schema) -> Iterator[DataFrame]:
    """Files of one header at a time: Spark would read them all by the order of the first."""
    with ThreadPoolExecutor(READERS) as pool:
        headers = list(pool.map(partial(_header, log), log.paths))
    by_header = {key: urls for key, urls in _alike(log, schema, headers).items() if key[1]}
    if not by_header:
        check_columns([], schema, log.paths[0])
    for number, ((folder, _), urls) in enumerate(by_header.items()):
        text = spark.read.csv(urls, header=True, escape='"', multiLine=False)
        added = {name: F.lit(value) for name, value in folder if name not in text.columns}
        text = text.withColumns({"source": F.col("_metadata.file_path"), **added})
        if number == 0:  # elsewhere a column may be absent: its rows are set aside
            check_columns(text.columns, schema, urls[0])
        yield _from_text(text, spark_schema(schema))


def _alike(
    log: LogFiles, schema: pa.Schema, headers: list[bytes]
) -> dict[tuple[Folder, bytes], list[str]]:
    """URLs of the files that can be read at once: of one header, in folders of one meaning."""
    found: dict[tuple[Folder, bytes], list[str]] = {}
    for file, header in zip(log.files, headers, strict=True):
        folder = tuple(folder_columns(file.path, schema).items())
        found.setdefault((folder, header), []).append(spark_url(log.storage.url, file.path))
    return found


def _header(log: LogFiles, path: str) -> bytes:
    """The first line with something in it, nothing where there is none."""
    with log.storage.fs.open_input_stream(path) as stream:
        lines = (line.strip() for line in io.BufferedReader(stream))
        return next((line for line in lines if line), b"")


def _from_text(rows: DataFrame, schema: T.StructType) -> DataFrame:
    """Read every column; a value that is there before and not after has the wrong type."""
    given = {f.name: F.col(f.name) for f in schema if f.name in rows.columns}
    typed = {
        f.name: _read(given[f.name], f.dataType)
        if f.name in given
        else F.lit(None).cast(f.dataType)
        for f in schema
    }
    broken = F.lit(False)
    for name, text in given.items():
        broken = broken | (text.isNotNull() & typed[name].isNull())
    return rows.select(
        *(column.alias(name) for name, column in typed.items()),
        "source",
        F.when(broken, F.lit("bad_type")).alias("problem"),
        F.when(broken, F.to_json(F.struct(*given))).alias(_RAW),
    )


def _read(text: Column, wanted: T.DataType) -> Column:
    if isinstance(wanted, T.ArrayType):
        return F.from_json(text, wanted)
    return text if isinstance(wanted, T.StringType) else text.try_cast(wanted)
