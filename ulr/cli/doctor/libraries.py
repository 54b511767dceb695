"""Spark, LightGBM and numba: start a session, load the library, run a kernel.

Each is imported inside its check, so that a broken one is a finding.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module

import numpy as np

from ulr.cli.doctor.checks import ERROR, OK, WARNING, Finding
from ulr.errors import UserError

CLEAR = "data and the token of a training cross the network in clear"
ENCRYPT = "set spark.authenticate and spark.network.crypto.enabled: docs/shipping.md"
SLOTS_WAIT_S = 10.0  # executors of a cluster may still be starting


def spark_slots(settings: Mapping[str, object], workers: int) -> Finding:
    """Start a session and compare its task slots with the workers of a training."""
    session = import_module("ulr.engine.session")
    spark = session.start_session("doctor", settings)
    barrier = import_module("ulr.training.distributed.barrier")
    cluster = import_module("ulr.engine.cluster")
    try:
        barrier.check_slots(spark, workers, timeout=SLOTS_WAIT_S)
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
