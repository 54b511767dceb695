"""Workers as tasks of a Spark barrier stage. The only file that uses BarrierTaskContext.

Spark starts the tasks together and exchanges their addresses once. Its `allGather` takes one
second per call, so everything else goes through a `Communicator`.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict
from functools import partial

from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from ulr.engine.cluster import get_property, is_local, task_slots
from ulr.engine.shuffle import BLOCK, pack_bytes
from ulr.engine.tasks import Batches, map_batches
from ulr.errors import TemporaryFailure, UserError
from ulr.training.checkpoint import TrainState, state_from_json
from ulr.training.distributed.communicator import Communicator, single_rank
from ulr.training.distributed.prepare import TrainingSize
from ulr.training.distributed.rendezvous import Listener
from ulr.training.distributed.task import Job, WorkerReport, train_worker

# Other workers detect a stopped one first. The watchdog finds it if there are none, or all stopped.
_WATCHDOG_TIMEOUTS = 1.5
SLOTS_TIMEOUT_S = 30.0  # executors of a new application take a while to register


def train_in_barrier(
    spark: SparkSession, workers: int, job: Job
) -> tuple[TrainState, list[WorkerReport], TrainingSize]:
    """Train in one task per worker."""
    numbers = spark.range(0, workers, 1, workers)
    rows = map_batches(
        numbers, partial(_run_worker, job=job), BLOCK, barrier=True,
        worker_timeout=_WATCHDOG_TIMEOUTS * job.worker_timeout,
    ).collect()  # fmt: skip
    results = {(row.part, row.kind): json.loads(bytes(row.content)) for row in rows}
    state = state_from_json(results[0, "state"], job.plan.initial_biases(1))
    reports = [WorkerReport(**results[key]) for key in sorted(results) if key[1] == "report"]
    return state, reports, TrainingSize(**results[0, "size"])


def _run_worker(batches: Batches, *, job: Job) -> Batches:
    for _ in batches:  # the number of the task
        pass
    rank = BarrierTaskContext.get().partitionId()
    with _connect(job) as communicator:
        state, report, size = train_worker(communicator, job)
        communicator.allgather(b"done")  # no worker disconnects while another needs it
    if rank == 0:
        yield pack_bytes(rank, "state", json.dumps(state.as_json()).encode())
        yield pack_bytes(rank, "size", json.dumps(asdict(size)).encode())
    yield pack_bytes(rank, "report", json.dumps(asdict(report)).encode())


def _connect(job: Job) -> Communicator:
    context = BarrierTaskContext.get()
    rank = context.partitionId()
    if len(context.getTaskInfos()) == 1:
        return single_rank()
    host = _host(context.getTaskInfos()[rank].address)
    with contextlib.closing(Listener(host)) as listener:
        addresses = map(json.loads, context.allGather(json.dumps(listener.address)))
        return listener.rendezvous(
            [(host, port) for host, port in addresses], rank,
            token=job.token, attempt=job.attempt, timeout=job.worker_timeout, sealed=job.sealed,
        )  # fmt: skip


def _host(address: str) -> str:
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
