"""The Spark session, and Spark's view of an Arrow schema."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from os import environ
from types import FrameType
from typing import NoReturn

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ulr.engine.quiet import SUBMITTED, noise_to_log

SPARK_FAILED = (PySparkException, Py4JJavaError)
JVM_ENDS_S = 10.0  # how long the JVM may take to end by itself


def start_session(name: str, settings: Mapping[str, object]) -> SparkSession:
    """A session with the given settings, each under `spark.`.

    Under spark-submit the command line has chosen the master and may have chosen more: what it
    said stands.
    """
    builder = SparkSession.builder.appName(f"ulr {name}")
    chosen: dict[str, str] = {}
    if SUBMITTED in environ:
        SparkContext._ensure_initialized()
        chosen = dict(SparkConf().getAll())
    else:
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if bound := settings.get("driver.bindAddress"):
            # Java would look up this machine's own name, and end where nothing resolves it.
            environ.setdefault("SPARK_LOCAL_IP", str(bound))
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if f"spark.{key}" not in chosen:
            builder = builder.config(f"spark.{key}", text)
    with noise_to_log(name):  # the JVM inherits the log as its stdout and stderr
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if SUBMITTED not in environ and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _stopped)
    return spark


def _stopped(number: int, frame: FrameType | None) -> NoReturn:
    """End the JVM first: once the blocks of this process clean up, no task writes any more."""
    for again in (signal.SIGINT, signal.SIGTERM):
        signal.signal(again, signal.SIG_IGN)
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        jvm.terminate()
        try:
            jvm.wait(JVM_ENDS_S)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()
    raise KeyboardInterrupt(number)


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns as Spark names their types."""
    return from_arrow_schema(schema)
