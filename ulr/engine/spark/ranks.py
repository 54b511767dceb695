"""Ranks as tasks of a Spark barrier stage. The only file that uses BarrierTaskContext.

Spark starts the tasks together and exchanges their addresses once. Its `allGather` takes one
second per call, so ranks use it for nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from ulr.engine.failures import CANCELLED, summarize, user_error_in, was_cancelled
from ulr.engine.interface import Batches, Rank, RanksFailed
from ulr.engine.spark.cluster import get_property, is_local, task_slots
from ulr.engine.spark.tasks import map_batches, result_batch
from ulr.engine.spark.versions import SPARK_FAILED
from ulr.errors import TemporaryFailure, UserError

SLOTS_TIMEOUT_S = 30.0  # executors of a new application take a while to register


class BarrierRank:
    """A rank in its task."""

    def __init__(self, context: BarrierTaskContext) -> None:
        infos = context.getTaskInfos()
        self.number, self.size = context.partitionId(), len(infos)
        self.host = host_of(infos[self.number].address)
        self._context = context

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order."""
        return list(self._context.allGather(text))


def run_ranks(
    spark: SparkSession, count: int, function: Callable[[Rank], bytes], timeout: float
) -> list[bytes]:
    """Run a function in one task per rank, and return the results in order."""
    numbers = spark.range(0, count, 1, count)
    run = partial(_run_rank, function=function)
    try:
        rows = map_batches(
            numbers, run, "content binary", barrier=True, worker_timeout=timeout
        ).collect()
    except SPARK_FAILED as error:
        text = str(error)
        if user_error := user_error_in(text):
            raise user_error from None
        if was_cancelled(text):
            raise TemporaryFailure(CANCELLED) from None
        raise RanksFailed(summarize(text)) from error
    return [bytes(row.content) for row in rows]


def _run_rank(batches: Batches, *, function: Callable[[Rank], bytes]) -> Batches:
    for _ in batches:  # the number of the task
        pass
    yield result_batch(function(BarrierRank(BarrierTaskContext.get())))


def host_of(address: str) -> str:
    """Return the host of Spark's HOST:PORT, where HOST may be [IPv6]."""
    host, colon, port = address.rpartition(":")
    return (host if colon and port.isdigit() and host else address).strip("[]")


def check_slots(spark: SparkSession, workers: int, timeout: float = SLOTS_TIMEOUT_S) -> None:
    """Raise if the cluster cannot run all workers at once; a barrier stage would hang."""
    if get_property(spark, "spark.dynamicAllocation.enabled", "false") == "true":
        raise UserError(
            "spark.dynamicAllocation.enabled = true: training needs a fixed set of executors; "
            "set it to false for `ulr train`"
        )
    deadline = time.monotonic() + timeout
    while (slots := task_slots(spark)) < workers:
        if time.monotonic() > deadline or is_local(spark):
            # On a cluster, executors may be starting or lost.
            failure = UserError if is_local(spark) else TemporaryFailure
            raise failure(
                f"train.num_workers = {workers}, but the cluster runs {slots} tasks at once; "
                f"add executors or set train.num_workers to at most {slots}"
            )
        time.sleep(0.5)
