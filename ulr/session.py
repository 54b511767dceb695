"""The Spark session, and Spark's view of an Arrow schema."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from os import environ

import pyarrow as pa
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def start_session(name: str, settings: Mapping[str, object]) -> SparkSession:
    """A session with the given settings, each under `spark.`.

    Under spark-submit the command line has chosen the master and may have chosen more: what it
    said stands.
    """
    builder = SparkSession.builder.appName(f"ulr {name}")
    chosen: dict[str, str] = {}
    if "PYSPARK_GATEWAY_PORT" in environ:  # set by spark-submit
        SparkContext._ensure_initialized()
        chosen = dict(SparkConf().getAll())
    else:
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if f"spark.{key}" not in chosen:
            builder = builder.config(f"spark.{key}", text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns as Spark names their types."""
    return from_arrow_schema(schema)
