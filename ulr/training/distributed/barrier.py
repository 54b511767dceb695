"""Workers as the tasks of a Spark barrier stage. The only file that knows BarrierTaskContext.

Spark brings the tasks up together and tells them each other's addresses, once; a call of its
`allGather` takes a second, so everything after goes over the mesh.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession

from ulr.engine.shuffle import BLOCK, open_table, pack_bytes, unpack
from ulr.errors import UserError
from ulr.training.checkpoint import TrainState, state_from_json
from ulr.training.distributed.rendezvous import Listener
from ulr.training.distributed.task import Job, Report, train_part

Batches = Iterator[pa.RecordBatch]
SLOTS_WAIT_S = 30.0  # executors of a fresh application take a while to register


def train_in_barrier(parcels: DataFrame, job: Job) -> tuple[TrainState, list[Report]]:
    """Train on parcels that already lie in one partition per worker."""
    rows = parcels.mapInArrow(partial(_worker, job=job), BLOCK, barrier=True).collect()
    found = {(row.part, row.kind): json.loads(bytes(row.content)) for row in rows}
    state = state_from_json(found[0, "state"], job.biases)
    reports = [Report(**found[key]) for key in sorted(found) if key[1] == "report"]
    return state, reports


def _worker(batches: Batches, *, job: Job) -> Batches:
    """One task: meet the others, train, and hand the result back."""
    context = BarrierTaskContext.get()
    rank = context.partitionId()
    with contextlib.closing(Listener(_host(context.getTaskInfos()[rank].address))) as door:
        said = context.allGather(json.dumps(door.address))
        addresses = [tuple(json.loads(text)) for text in said]
        mesh = door.meet(
            addresses, rank, token=job.token, attempt=job.attempt, timeout=job.worker_timeout
        )
    try:
        tables = ((part, kind, open_table(content)) for part, kind, content in unpack(batches))
        state, report = train_part(mesh, tables, job)
        mesh.allgather(b"done")  # nobody leaves while another still counts on it
    except BaseException as why:
        mesh.close(f"{type(why).__name__}: {why}")
        raise
    mesh.close()
    if rank == 0:
        yield pack_bytes(rank, "state", json.dumps(state.as_json()).encode())
    yield pack_bytes(rank, "report", json.dumps(asdict(report)).encode())


def _host(address: str) -> str:
    """The host of Spark's HOST:PORT, where HOST may be [IPv6]."""
    host, colon, port = address.rpartition(":")
    return (host if colon and port.isdigit() and host else address).strip("[]")


def check_slots(spark: SparkSession, workers: int, wait: float = SLOTS_WAIT_S) -> None:
    """All workers must run at once: one clear error before training, not a wait without end."""
    context = spark.sparkContext
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        raise UserError(
            "spark.dynamicAllocation.enabled = true: training needs a fixed set of executors; "
            "set it to false for `ulr train`"
        )
    by = time.monotonic() + wait
    while (slots := slots_of(spark)) < workers:
        if time.monotonic() > by or context.master.startswith("local["):
            raise UserError(
                f"train.num_workers = {workers}, but the cluster runs {slots} tasks at once; "
                f"add executors or set train.num_workers to at most {slots}"
            )
        time.sleep(0.5)


def room_for(spark: SparkSession, workers: int) -> int:
    """Trainings of so many workers that can run at once; at least one."""
    return max(1, slots_of(spark) // workers)


def slots_of(spark: SparkSession) -> int:
    """Tasks that can run at once, as Spark itself counts them for barrier stages."""
    scala = spark.sparkContext._jsc.sc()
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))
