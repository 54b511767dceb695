"""Spark, LightGBM and numba: compare versions, start a session, load the library, run a kernel.

Each is imported inside its check, so that a broken one is a finding.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np

from ulr.cli.doctor.checks import ERROR, OK, WARNING, Finding
from ulr.errors import UserError

CLEAR = "data and the token of a training cross the network in clear"
ENCRYPT = "set spark.authenticate and spark.network.crypto.enabled: docs/shipping.md"
MIN_SPARK, SOCKETS_SINCE = (3, 5), (4, 1)
SLOTS_WAIT_S = 10.0  # executors of a cluster may still be starting


def pyspark_version() -> Finding:
    """Check the version of pyspark, and that of the Spark that SPARK_HOME names."""
    version = import_module("pyspark").__version__
    lowest = ".".join(map(str, MIN_SPARK))
    if _minor(version) < MIN_SPARK:
        message = f"pyspark {version}; needed: {lowest} or later"
        return Finding(ERROR, message, f"pip install 'pyspark>={lowest}'")
    home = os.environ.get("SPARK_HOME")
    other = _version_of(Path(home)) if home else None
    if other and _minor(other) != _minor(version):
        message = f"pyspark {version}, but SPARK_HOME={home} is Spark {other}"
        return Finding(ERROR, message, f"unset SPARK_HOME, or pip install pyspark=={other}")
    message = f"pyspark {version}, supported from {lowest} on"
    if _minor(version) < SOCKETS_SINCE:
        message += "; every Python task starts 40 ms sooner with Spark 4.1 or later"
    return Finding(OK, message)


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def _version_of(home: Path) -> str | None:
    """Return the version of a Spark distribution, None if it does not say."""
    try:
        match = re.match(r"Spark (\S+)", (home / "RELEASE").read_text())
    except OSError:
        return None
    return match[1] if match else None


def spark_slots(settings: Mapping[str, object], workers: int) -> Finding:
    """Start a session and compare its task slots with the workers of a training."""
    session = import_module("ulr.engine.spark.session")
    spark = session.start_session("doctor", settings)
    ranks = import_module("ulr.engine.spark.ranks")
    cluster = import_module("ulr.engine.spark.cluster")
    try:
        ranks.check_slots(spark, workers, timeout=SLOTS_WAIT_S)
    except UserError as error:
        return Finding(
            ERROR,
            str(error),
            f"ulr doctor --set train.num_workers={max(cluster.task_slots(spark), 1)}",
        )
    message = (
        f"Spark {spark.version} on {spark.sparkContext.master} runs {cluster.task_slots(spark)}"
    )
    message += f" tasks at once, train.num_workers = {workers}"
    if session.is_readable_on_the_network(dict(spark.sparkContext.getConf().getAll())):
        return Finding(WARNING, f"{message}; {CLEAR}", ENCRYPT)
    return Finding(OK, message)


def lightgbm_loads() -> Finding:
    """Load the library."""
    return Finding(OK, f"LightGBM {import_module('ulr.models.booster').lightgbm_version()}")


def numba_compiles() -> Finding:
    """Compile a kernel, or load it from the cache, and run it."""
    started = time.monotonic()
    order, spare = np.zeros(3, np.int32), np.zeros(3, np.int32)
    ranking = import_module("ulr.kernels.order")
    ranking.rank_descending(np.array([0.5, 2.0, 1.0]), 3, order, spare)
    if order.tolist() != [1, 2, 0]:
        return Finding(ERROR, f"a kernel ranked 0.5, 2, 1 as {order.tolist()}")
    return Finding(OK, f"a kernel was ready in {time.monotonic() - started:.1f} s")
