"""The engines of benchmarks: two processes, or Spark with two cores."""

from __future__ import annotations

from importlib import import_module

from ulr.cli.main import PRELOAD
from ulr.config.load import load_settings
from ulr.engine.interface import Engine
from ulr.engine.local.engine import LocalEngine

CORES = 2
_SESSION = (
    f"spark.master=local[{CORES}]",
    "spark.driver.memory=4g",
    "spark.ui.enabled=false",
)


def bench_engine(name: str) -> Engine:
    """Return an engine by its name, local or spark."""
    if name == "local":
        return LocalEngine(CORES, preload=PRELOAD)
    spark = import_module("ulr.engine.spark.engine")
    engine: Engine = spark.SparkEngine("bench", load_settings(None, _SESSION).spark)
    return engine
