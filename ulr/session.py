"""The Spark session, and Spark's view of an Arrow schema."""

from __future__ import annotations

import contextlib
import getpass
import sys
import tempfile
from collections.abc import Iterator, Mapping
from os import close, dup, dup2, environ, getpid
from pathlib import Path

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
    with contextlib.nullcontext() if chosen else _stderr_to(log_path(name)):
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def log_path(name: str) -> Path:
    """Where the JVM and the Python workers that this process starts write what they have to say."""
    folder = Path(tempfile.gettempdir()) / f"ulr-logs-{getpass.getuser()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}-{getpid()}.log"


@contextlib.contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """What is started in the block inherits a file as its stderr: Spark's noise stays there."""
    sys.stderr.flush()
    terminal = dup(2)
    with path.open("ab") as file:
        dup2(file.fileno(), 2)
        try:
            yield
        finally:
            dup2(terminal, 2)
            close(terminal)


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns as Spark names their types."""
    return from_arrow_schema(schema)
