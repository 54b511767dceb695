"""Start the Spark session, and convert Arrow schemas to Spark schemas."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from os import environ
from types import FrameType
from typing import NoReturn

import pyarrow as pa
import pyspark
from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from ulr.engine.quiet import SUBMITTED, output_to_log
from ulr.engine.spark.stopped_children import watch_children
from ulr.engine.spark.watchdog import WORKER_TIMEOUT
from ulr.folders import private_folder
from ulr.redact import is_secret

_SOCKETS, _SHARED = "spark.python.unix.domain.socket.dir", "/tmp"
_JVM_EXIT_S = 10.0  # time for the JVM to exit before it is killed


def start_session(name: str, settings: Mapping[str, object]) -> SparkSession:
    """Start a Spark session, or return the running one.

    settings: Spark properties without the prefix `spark.`. Under spark-submit, the options of its
    command line take precedence. Secret settings do not reach the command line of the JVM.
    """
    builder = SparkSession.builder.appName(f"ulr {name}")
    submitted: dict[str, str] = {}
    if SUBMITTED in environ:
        pyspark.SparkContext._ensure_initialized()
        submitted = dict(SparkConf().getAll())
    else:
        environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if address := settings.get("driver.bindAddress"):
            # Without it Java resolves the machine's host name, and exits if that fails.
            environ.setdefault("SPARK_LOCAL_IP", str(address))
    properties = {
        f"spark.{key}": str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in settings.items()
        if f"spark.{key}" not in submitted
    }
    if SUBMITTED not in environ:
        properties |= _private_sockets(properties)
    for key, text in properties.items():
        builder = builder.config(key, text)
    with output_to_log(name):  # the JVM inherits the log as its stdout and stderr
        pyspark.SparkContext._ensure_initialized(conf=_visible(properties))
        spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if SUBMITTED not in environ and _is_local(properties):
        watch_children(float(properties.get(WORKER_TIMEOUT, "0")))
    if SUBMITTED not in environ and threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)
    return spark


def _visible(properties: Mapping[str, str]) -> SparkConf:
    """Return the properties for the command line of the JVM, which every user can read.

    Secrets are not among them: the running JVM receives them over its local connection.
    """
    conf = SparkConf(loadDefaults=False)
    for key, text in properties.items():
        if not is_secret(key, text):
            conf.set(key, text)
    return conf


def _private_sockets(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a folder for the sockets of Python workers that no other user can enter.

    They have no other protection: workers accept every connection. On a cluster the folder has to
    exist on every machine, and the setting is used as it is.
    """
    if not _is_local(properties) or properties.get(_SOCKETS) != _SHARED:
        return {}
    return {_SOCKETS: str(private_folder("ulr-sockets", _SHARED))}


def _is_local(properties: Mapping[str, str]) -> bool:
    return re.match(r"local(\[|$)", properties.get("spark.master", "local")) is not None


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """Stop the JVM, so that no task writes during the clean-up; then raise KeyboardInterrupt."""
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, signal.SIG_IGN)
    jvm = getattr(pyspark.SparkContext._gateway, "proc", None)
    if jvm is not None:
        jvm.terminate()
        try:
            jvm.wait(_JVM_EXIT_S)
        except subprocess.TimeoutExpired:
            jvm.kill()
            jvm.wait()
    raise KeyboardInterrupt(number)


def is_readable_on_the_network(conf: Mapping[str, str]) -> bool:
    """Return whether Spark's messages, with the token of a training, cross a network in clear.

    conf: properties of the session, with their prefix.
    """
    if conf.get("spark.master", "local").startswith("local"):
        return False
    names = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
    return all(conf.get(name, "false").lower() != "true" for name in names)


def spark_schema(schema: pa.Schema) -> StructType:
    """Return an Arrow schema as a Spark schema."""
    return from_arrow_schema(schema)
