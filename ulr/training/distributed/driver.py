"""The driver's side of training on Spark: index the queries, prepare a job, run it with retries."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import SparkSession

from ulr.engine.failures import reraise_user_errors
from ulr.training.bins import make_bins
from ulr.training.checkpoint import Checkpoints, TrainState
from ulr.training.distributed.balance import balance
from ulr.training.distributed.barrier import check_slots, is_local, train_in_barrier
from ulr.training.distributed.local_ranks import rank_count
from ulr.training.distributed.recovery import run_with_retries
from ulr.training.distributed.rendezvous import Address
from ulr.training.distributed.shuffle import (
    PairFiles,
    QueryIndex,
    build_query_index,
    sample_rows,
    shuffle_to_workers,
)
from ulr.training.distributed.task import Job, WorkerCallback, WorkerReport
from ulr.training.distributed.telemetry import EventCallback, listen_for_events
from ulr.training.local import TrainedRanker, make_ranker
from ulr.training.plan import TrainPlan


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


class _Placement(NamedTuple):
    """workers: in use; rank (int32): of every query; rows: see `Job`."""

    workers: int
    rank: np.ndarray
    rows: list[tuple[int, int]]


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
    with reraise_user_errors():
        index = _drop_unused_validation(build_query_index(spark, source), plan)
        sample = sample_rows(spark, source, index)
    placement = _place(index, options.num_workers)
    job = Job(
        plan=plan,
        learner=learner,
        bins=make_bins(sample, learner.lightgbm, plan.feature_names),
        rows=placement.rows,
        biases=plan.initial_biases(index.max_position),
        checkpoints=checkpoints,
        token=secrets.token_hex(32),
        worker_timeout=options.worker_timeout,
        threads=_threads(spark, learner.lightgbm, placement.workers * options.concurrent_runs),
        on_iteration=on_iteration,
    )

    def attempt(job: Job) -> tuple[TrainState, list[WorkerReport]]:
        blocks = shuffle_to_workers(spark, source, index, placement.rank, placement.workers)
        return train_in_barrier(blocks, job)

    with _event_listener(spark, job.token, on_event) as address:
        (state, reports), failures = run_with_retries(
            replace(job, driver=address), attempt, options.max_retries
        )
    ranker = make_ranker(state, plan.early_stopping_metric)
    train = ~index.validation
    queries, rows, pairs = (int(count[train].sum()) for count in (train, index.rows, index.pairs))
    return TrainingResult(ranker, reports, failures, queries, rows, pairs)


def _drop_unused_validation(index: QueryIndex, plan: TrainPlan) -> QueryIndex:
    """Train on the held-out queries too unless early stopping needs them."""
    if plan.early_stopping_round > 0 and not index.validation.all():
        return index
    return replace(index, validation=np.zeros_like(index.validation))


def _place(index: QueryIndex, num_workers: int) -> _Placement:
    """Assign every query to a rank; training and validation are balanced separately."""
    train = ~index.validation
    queries = int(train.sum())
    workers = min(num_workers, queries)
    ranks = rank_count(workers, queries)
    rank = np.empty(train.size, np.int32)
    counts = []
    for chosen in (train, index.validation):
        rank[chosen] = balance(index.rows[chosen], index.pairs[chosen], ranks)
        counts.append(np.bincount(rank[chosen], index.rows[chosen], ranks).astype(int).tolist())
    return _Placement(workers, rank, list(zip(*counts, strict=True)))


def _threads(spark: SparkSession, lightgbm: Mapping[str, Any], workers: int) -> int:
    """Return the threads of a worker: the setting, or its part of the cores."""
    if threads := int(lightgbm.get("num_threads", 0)):
        return threads
    context = spark.sparkContext
    if is_local(spark):
        return max(1, context.defaultParallelism // workers)
    return int(context.getConf().get("spark.task.cpus", "1"))


@contextlib.contextmanager
def _event_listener(
    spark: SparkSession, token: str, on_event: EventCallback | None
) -> Iterator[Address | None]:
    """Yield the address for the first worker's events, or None without a callback."""
    if on_event is None:
        yield None
        return
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host", "localhost")
    with listen_for_events(conf.get("spark.driver.bindAddress", host), token, on_event) as port:
        yield host, port
