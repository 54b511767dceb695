"""Spark, LightGBM and numba: that they start, load and compute.

They are loaded inside the checks, so that one that is broken is a line of the result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib import import_module

import numpy as np

from ulr.cli.doctor.found import ERROR, OK, Found
from ulr.errors import UserError

SLOTS_WAIT_S = 10.0  # a cluster's executors may still be on their way


def spark_slots(settings: Mapping[str, object], workers: int) -> Found:
    """A real session, and how many tasks it runs at once: all workers of a training must."""
    spark = import_module("ulr.engine.session").start_session("doctor", settings)
    barrier = import_module("ulr.training.distributed.barrier")
    try:
        barrier.check_slots(spark, workers, wait=SLOTS_WAIT_S)
    except UserError as why:
        return Found(
            ERROR, str(why), f"ulr doctor --set train.num_workers={max(barrier.slots_of(spark), 1)}"
        )
    message = f"Spark {spark.version} on {spark.sparkContext.master} runs {barrier.slots_of(spark)}"
    return Found(OK, f"{message} tasks at once, train.num_workers = {workers}")


def lightgbm_loads() -> Found:
    """The library and what it is linked with."""
    return Found(OK, f"LightGBM {import_module('ulr.models.booster').lightgbm_version()}")


def numba_compiles() -> Found:
    """A kernel is compiled, or comes from the cache, and computes."""
    started = time.monotonic()
    order, spare = np.zeros(3, np.int32), np.zeros(3, np.int32)
    ranking = import_module("ulr.kernels.order")
    ranking.rank_descending(np.array([0.5, 2.0, 1.0]), 3, order, spare)
    if order.tolist() != [1, 2, 0]:
        return Found(ERROR, f"a kernel ranked 0.5, 2, 1 as {order.tolist()}")
    return Found(OK, f"a kernel was ready in {time.monotonic() - started:.1f} s")
