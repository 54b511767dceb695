"""The engine of a command: the setting `engine`, or the one that its inputs need."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import print_line
from ulr.config.settings import Settings
from ulr.engine.interface import Engine
from ulr.engine.local.engine import LocalEngine
from ulr.engine.quiet import SUBMITTED
from ulr.errors import UserError

LOCAL, SPARK = "local", "spark"


def open_engine(name: str, settings: Settings) -> Engine:
    """Return the engine of a command, and print which one it is and why. name: of the command."""
    kind, reason = chosen_engine(name, settings)
    print_line(f"engine: {kind} ({reason})")
    TERMINAL.engine = make_engine(name, settings)
    return TERMINAL.engine


def chosen_engine(name: str, settings: Settings) -> tuple[str, str]:
    """Return the engine to use for a command, and the reason."""
    if settings.engine != "auto":
        return settings.engine, f"engine = {settings.engine}"
    reasons = _OF_THE_SESSION | (_OF_THE_FEATURES if name not in _WITHOUT_FEATURES else {})
    for reason, needed in (reasons | (_OF_THE_LOG if name in _READ_THE_LOG else {})).items():
        if needed(settings):
            return SPARK, reason
    return LOCAL, "engine = auto: files on one machine"


def _master(settings: Settings) -> str:
    return str(settings.spark.get("master", "local"))


def _reads_expressions(settings: Settings) -> bool:
    sources = import_module("ulr.clicklog.sources")
    return not sources.is_read_by_tasks(settings.log)


_READ_THE_LOG = ("groups", "nightly", "doctor")
_WITHOUT_FEATURES = ("groups", "simulate", "ab", "judgments", "plan-swaps", "train")
Reasons = dict[str, Callable[[Settings], bool]]
_OF_THE_SESSION: Reasons = {
    "started by spark-submit": lambda s: SUBMITTED in os.environ,
    "spark.remote names a server": lambda s: "remote" in s.spark or "SPARK_REMOTE" in os.environ,
    "spark.master names a cluster": lambda s: not re.match(r"local(\[|$)", _master(s)),
}
_OF_THE_LOG: Reasons = {
    "log.table is a table of Spark": lambda s: s.log.table is not None,
    "log.sql is a query": lambda s: s.log.sql is not None,
    "log.where is a condition": lambda s: s.log.where is not None,
    "log.columns has expressions": _reads_expressions,
}
_OF_THE_FEATURES: Reasons = {
    "features.table is a table of Spark": lambda s: (
        s.features.table is not None and s.features.source == "table"
    ),
}


def make_engine(name: str, settings: Settings) -> Engine:
    """Return the engine of a command."""
    if chosen_engine(name, settings)[0] == LOCAL:
        own = settings.local
        return _local(own.processes, own.scratch, own.memory_fraction)
    try:
        spark = import_module("ulr.engine.spark.engine")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise UserError(
            "engine = spark: pyspark is not installed; run `pip install 'ulr[spark]'`, submit the "
            "job to a cluster, or use files with engine = local"
        ) from None
    engine: Engine = spark.SparkEngine(name, settings.spark)
    return engine


@lru_cache
def _local(processes: int | None, scratch: str | None, memory_fraction: float) -> LocalEngine:
    """Return one engine per process: several commands may share it."""
    return LocalEngine(processes, scratch, memory_fraction)
