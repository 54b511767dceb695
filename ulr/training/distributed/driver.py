"""The driver's side of training on Spark: prepare a job, run it with retries."""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.engine.cluster import (
    default_parallelism,
    get_property,
    is_connect,
    is_local,
    task_cpus,
)
from ulr.engine.failures import reraise_user_errors
from ulr.engine.shuffle import BLOCK, open_table, partition_blocks, unpack
from ulr.engine.spark_versions import to_arrow
from ulr.engine.tasks import Batches, map_items
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.barrier import check_slots, train_in_barrier
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.distributed.prepare import prepare
from ulr.training.distributed.query_index import FileFunction, RunOnFiles
from ulr.training.distributed.recovery import run_with_retries
from ulr.training.distributed.rendezvous import Address
from ulr.training.distributed.task import Job, WorkerCallback, WorkerReport
from ulr.training.distributed.telemetry import EventCallback, listen_for_events
from ulr.training.local import TrainedRanker, make_ranker
from ulr.training.plan import TrainPlan

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class DistributedOptions:
    """How training is distributed. It changes the run time, not the model.

    concurrent_runs: trainings that share the cluster, this one included.
    """

    num_workers: int = 1
    worker_timeout: float = 30.0
    max_retries: int = 3
    concurrent_runs: int = 1


@dataclass(frozen=True)
class TrainingResult:
    """The model, a report of every worker, the reasons of failed attempts, and training sizes."""

    ranker: TrainedRanker
    reports: list[WorkerReport]
    failures: list[str]
    queries: int
    rows: int
    pairs: int


def train_on_spark(
    spark: SparkSession,
    source: PairFiles,
    plan: TrainPlan,
    options: DistributedOptions,
    checkpoints: Checkpoints | None = None,
    *,
    on_event: EventCallback | None = None,
    on_iteration: WorkerCallback | None = None,
) -> TrainingResult:
    """Train one model on the pair files with at most `options.num_workers` workers.

    on_event: called on the driver after every iteration. on_iteration: see `Job`.
    """
    learner = plan.learner()
    check_slots(spark, options.num_workers)
    prepared, workers = None, options.num_workers
    if workers > 1:
        with reraise_user_errors():
            prepared = prepare(_run_on_spark(spark, source), source, plan, learner, workers)
        workers = prepared.placement.workers
    job = Job(
        source=source,
        plan=plan,
        learner=learner,
        prepared=prepared,
        checkpoints=checkpoints,
        token=secrets.token_hex(32),
        worker_timeout=options.worker_timeout,
        threads=_threads(spark, learner.lightgbm, workers * options.concurrent_runs),
        on_iteration=on_iteration,
    )
    with _event_listener(spark, job.token, on_event) as address:
        (state, reports, size), failures = run_with_retries(
            replace(job, driver=address),
            partial(train_in_barrier, spark, workers),
            options.max_retries,
        )
    ranker = make_ranker(state, plan.early_stopping_metric)
    for warning in ranker.warnings:
        _LOG.warning("%s: %s", plan.method, warning)
    return TrainingResult(ranker, reports, failures, size.queries, size.rows, size.pairs)


def _run_on_spark(spark: SparkSession, source: PairFiles) -> RunOnFiles:
    """Return a runner that uses Spark tasks."""
    files, sizes = range(len(source.all)), source.sizes()

    def run(function: FileFunction) -> list[pa.Table]:
        blocks = map_items(spark, files, partial(_on_files, function=function), BLOCK, sizes=sizes)
        batches = iter(to_arrow(blocks).to_batches())
        parts = [(file, open_table(content)) for file, _, content in unpack(batches)]
        return [table for _, table in sorted(parts, key=lambda part: part[0])]

    return run


def _on_files(files: list[int], *, function: FileFunction) -> Batches:
    for file in files:
        table = function(file)
        yield from partition_blocks("file", table, np.full(table.num_rows, file, np.int64))


def _threads(spark: SparkSession, lightgbm: Mapping[str, Any], workers: int) -> int:
    """Return the threads of a worker: the setting, or its part of the cores."""
    if threads := int(lightgbm.get("num_threads", 0)):
        return threads
    if is_local(spark):
        return max(1, default_parallelism(spark) // workers)
    return task_cpus(spark)


@contextlib.contextmanager
def _event_listener(
    spark: SparkSession, token: str, on_event: EventCallback | None
) -> Iterator[Address | None]:
    """Yield the address for the first worker's events, or None without a callback.

    Workers cannot be expected to reach a client of Spark Connect: it gets no events.
    """
    if on_event is None or is_connect(spark):
        yield None
        return
    host = get_property(spark, "spark.driver.host", "localhost")
    bind = get_property(spark, "spark.driver.bindAddress", host)
    with listen_for_events(bind, token, on_event) as port:
        yield host, port
