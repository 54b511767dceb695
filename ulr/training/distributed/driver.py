"""Training on Spark, seen from the driver: place the queries, start the workers, try again.

A failed attempt costs the rounds since the last checkpoint, and nothing else: the next one reads
it and ends with the very model that an undisturbed run would have made.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pyspark.sql import SparkSession

from ulr.engine.failures import (
    CANCELLED,
    reraise_user_errors,
    summarize,
    was_cancelled,
)
from ulr.engine.session import SPARK_FAILED
from ulr.errors import UserError
from ulr.training.bins import make_reference
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.balance import balance
from ulr.training.distributed.barrier import check_slots, train_in_barrier
from ulr.training.distributed.local_ranks import ranks_of
from ulr.training.distributed.shuffle import (
    PairFiles,
    QueryIndex,
    build_query_index,
    spread,
    take_sample,
)
from ulr.training.distributed.task import Hook, Job, Report
from ulr.training.distributed.telemetry import Event, listening
from ulr.training.local import TrainedRanker, ranker_of
from ulr.training.loop import TrainSpec
from ulr.training.objective import first_biases
from ulr.training.parameters import split_parameters
from ulr.training.plan import LEARNED, TrainPlan
from ulr.training.shard import Bins
from ulr.training.validation import cut_of


@dataclass(frozen=True)
class DistributedOptions:
    """How many workers, what happens when one is lost, and how many fleets share the cluster."""

    num_workers: int = 1
    worker_timeout: float = 30.0
    max_retries: int = 3
    threads: int = 0  # of each worker; 0: what Spark gives a task
    concurrent_runs: int = 1


@dataclass(frozen=True)
class Training:
    """The model, what every worker said of itself, and the attempts that failed."""

    ranker: TrainedRanker
    reports: list[Report]
    failures: list[str]
    queries: int
    rows: int
    pairs: int


def train_on_spark(
    spark: SparkSession,
    source: PairFiles,
    plan: TrainPlan,
    fleet: DistributedOptions,
    checkpoints: Checkpoints | None = None,
    *,
    hear: Callable[[Event], None] | None = None,
    on_round: Hook | None = None,
) -> Training:
    """One model on the pair files, by `fleet.num_workers` workers at most.

    hear: told of every round while it runs. on_round: see `Job`.
    """
    cut_of(plan.early_stopping_metric)
    learner = split_parameters(plan.lightgbm, plan.objective, plan.nonnegative_weights)
    check_slots(spark, fleet.num_workers)
    with reraise_user_errors():
        census, stops = _with_validation(build_query_index(spark, source), plan)
        sample = take_sample(spark, source, ~census.aside, census)
    queries = int((~census.aside).sum())
    workers = min(fleet.num_workers, queries)
    ranks = ranks_of(workers, queries)
    part = place(census, ranks)
    bins = min(plan.position_bins, census.deepest)
    job = Job(
        spec=TrainSpec(
            plan.num_iterations, learner, plan.early_stopping_metric, plan.early_stopping_round if stops else 0,
            plan.checkpoint_every,
        ),
        bins=Bins(
            make_reference(sample, learner.lightgbm, plan.feature_names), census.width,
            learner.lightgbm,
        ),
        rows=rows_per_rank(census, part, ranks),
        biases=first_biases(bins, plan.bias_regularization, plan.theta) if plan.method == LEARNED else None,
        checkpoints=checkpoints,
        token=secrets.token_hex(32),
        worker_timeout=fleet.worker_timeout,
        threads=fleet.threads or _threads(spark, learner.lightgbm, workers * fleet.concurrent_runs),
        on_round=on_round,
    )  # fmt: skip
    with _heard(spark, job.token, hear) as driver:
        state, reports, failures = _attempts(
            replace(job, driver=driver),
            lambda job: train_in_barrier(spread(spark, source, census, part, workers), job),
            fleet.max_retries,
        )
    rows, pairs = (int(count[~census.aside].sum()) for count in (census.rows, census.pairs))
    ranker = ranker_of(state, plan.early_stopping_metric)
    return Training(ranker, reports, failures, queries, rows, pairs)


def place(census: QueryIndex, ranks: int) -> np.ndarray:
    """The rank of every query; those to train on and those to validate on each spread evenly."""
    part = np.empty(census.rows.size, np.int32)
    for chosen in (~census.aside, census.aside):
        part[chosen] = balance(census.rows[chosen], census.pairs[chosen], ranks)
    return part


def rows_per_rank(census: QueryIndex, part: np.ndarray, ranks: int) -> list[tuple[int, int]]:
    """Rows to train on and to validate on, per rank."""
    train, aside = (
        np.bincount(part[chosen], census.rows[chosen], ranks).astype(int).tolist()
        for chosen in (~census.aside, census.aside)
    )
    return list(zip(train, aside, strict=True))


def _with_validation(census: QueryIndex, plan: TrainPlan) -> tuple[QueryIndex, bool]:
    """Queries are kept aside only where training looks at them."""
    stops = plan.early_stopping_round > 0 and census.aside.any() and not census.aside.all()
    if stops:
        return census, True
    return replace(census, aside=np.zeros_like(census.aside)), False


def _attempts(job: Job, run: Callable[[Job], Any], max_retries: int) -> tuple[Any, Any, list[str]]:
    """Run until it succeeds; what the user got wrong, or stopped, is not tried again."""
    failures: list[str] = []
    while True:
        job = replace(job, attempt=len(failures) + 1)
        try:
            with reraise_user_errors():
                return *run(job), failures
        except SPARK_FAILED as error:
            if was_cancelled(str(error)):
                raise UserError(CANCELLED) from None
            failures.append(summarize(str(error)))
            if len(failures) > max_retries:
                raise UserError(
                    f"training failed {len(failures)} times, the last time: {failures[-1]}; "
                    "run again to go on from the last checkpoint, or raise train.max_retries"
                ) from error
        time.sleep(min(1.0 * len(failures), 10.0))


def _threads(spark: SparkSession, lightgbm: Any, workers: int) -> int:
    """On one machine a share of its cores; on a cluster what a task was given."""
    if given := int(lightgbm.get("num_threads", 0)):
        return given
    context = spark.sparkContext
    if context.master.startswith("local["):
        return max(1, context.defaultParallelism // workers)
    return int(context.getConf().get("spark.task.cpus", "1"))


@contextlib.contextmanager
def _heard(
    spark: SparkSession, token: str, hear: Callable[[Event], None] | None
) -> Iterator[tuple[str, int] | None]:
    """Where the first worker can send news, if anybody wants them."""
    if hear is None:
        yield None
        return
    conf = spark.sparkContext.getConf()
    host = conf.get("spark.driver.host", "localhost")
    with listening(conf.get("spark.driver.bindAddress", host), token, hear) as port:
        yield host, port
