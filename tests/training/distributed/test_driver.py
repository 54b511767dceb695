"""Barrier tasks on Spark: the same bytes as one process, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from tests.support.clicked_pairs import as_table, clicked_data
from tests.support.train_alone import train_alone
from ulr.errors import UserError
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, train_on_spark
from ulr.training.distributed.shuffle import PairFiles
from ulr.training.plan import TrainPlan

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test

SETTINGS = {
    "num_leaves": 7, "learning_rate": 0.2, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 3.0,
    "num_threads": 1, "seed": 5, "bagging_fraction": 0.7, "bagging_freq": 1,
    "feature_fraction": 0.7,
}  # fmt: skip
PLAN = TrainPlan(
    "unbiased-lambdamart",
    12,
    SETTINGS,
    validation_fraction=0.3,
    early_stopping_round=12,
    bias_regularization=1,
    checkpoint_every=4,
)
FLEET = DistributedOptions(num_workers=2, worker_timeout=5.0)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    table = as_table(clicked_data(80))
    files = []
    for n, start in enumerate(range(0, 80, 30)):
        files.append(str(folder / f"part-{n}.parquet"))
        pq.write_table(table.slice(start, 30), files[-1])
    return PairFiles(str(folder), files, PLAN.validation_fraction)


@pytest.fixture(scope="module")
def calm(spark, source):
    """Seconds of an undisturbed run, its session and its kernels warm."""
    train_on_spark(spark, source, PLAN, FLEET)
    start = time.monotonic()
    train_on_spark(spark, source, PLAN, FLEET)
    return time.monotonic() - start


@pytest.fixture(scope="module")
def alone(source):
    """What one process makes of it, without Spark."""
    return train_alone(source, PLAN)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_on_spark_train_the_model_of_one_process(spark, source, alone, workers):
    told = []
    outcome = train_on_spark(spark, source, PLAN, DistributedOptions(workers), hear=told.append)
    assert outcome.ranker.model_text() == alone.model_text()
    assert outcome.ranker.history == alone.history
    assert outcome.ranker.biases.t_minus.tobytes() == alone.biases.t_minus.tobytes()
    assert [event["round"] for event in told] == list(range(1, 13))
    assert [event["value"] for event in told] == alone.history
    assert [report.rank for report in outcome.reports] == list(range(workers))
    assert sum(report.rows for report in outcome.reports) == outcome.rows
    assert outcome.failures == []


def break_once(
    rank: int, attempt: int, number: int, *, plan: list[tuple[int, int, str]], note: str = ""
) -> None:
    """Attempt n breaks as the n-th entry (rank, round, how) of the plan says."""
    if attempt > len(plan) or (rank, number) != plan[attempt - 1][:2]:
        return
    how = plan[attempt - 1][2]
    if note:
        with open(note, "a") as file:
            file.write(f"{os.getpid()}\n")
    if how == "raise":
        raise ZeroDivisionError("for a test")
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGSTOP)


FAULTS = [
    [(0, 1, "kill")],
    [(1, 6, "kill")],
    [(0, 7, "raise")],
    [(1, 4, "stop")],
    [(0, 10, "stop")],
    [(1, 12, "raise")],
    [(1, 5, "raise"), (0, 9, "kill"), (1, 11, "stop")],
]


@pytest.mark.parametrize(
    "plan", FAULTS, ids=lambda plan: "-".join(f"{h}{r}@{n}" for r, n, h in plan)
)
def test_a_disturbed_run_ends_with_the_model_of_an_undisturbed_one(
    spark, source, alone, *, calm, plan, tmp_path
):
    checkpoints = Checkpoints(str(tmp_path), "method=t", "abc")
    start, note = time.monotonic(), tmp_path / "pids"
    breaking = partial(break_once, plan=plan, note=str(note))
    outcome = train_on_spark(spark, source, PLAN, FLEET, checkpoints, on_round=breaking)
    assert outcome.ranker.model_text() == alone.model_text()
    assert outcome.ranker.history == alone.history
    assert len(outcome.failures) == len(plan)
    last_round = plan[-1][1]  # where it ends a segment, the first worker may have saved it already
    resumed = {report.resumed_at for report in outcome.reports}
    assert len(resumed) == 1
    assert resumed <= {(last_round - 1) // 4 * 4, last_round // 4 * 4}
    stops = sum(how == "stop" for _, _, how in plan)
    # A loss costs what notices it and what was grown since the checkpoint, at most a whole run;
    # three times that and half a minute, since the machine may be busy.
    limit = stops * FLEET.worker_timeout + (3 * calm + 30) * (1 + len(plan))
    assert time.monotonic() - start < limit

    stopped = zip(note.read_text().split(), plan, strict=True)
    assert all(gone(int(pid)) for pid, (_, _, how) in stopped if how == "stop")


def gone(pid: int, within: float = 20.0) -> bool:
    """Whether a process has ended: nothing of a lost worker stays behind."""
    by = time.monotonic() + within
    while time.monotonic() < by:
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return True
        time.sleep(0.2)
    return False


def test_a_run_that_keeps_failing_says_so_and_goes_on_when_run_again(
    spark, source, alone, tmp_path
):
    checkpoints = Checkpoints(str(tmp_path), "method=t", "abc")
    fleet = DistributedOptions(num_workers=2, worker_timeout=5.0, max_retries=1)
    faults = [(0, 7, "raise")] * 2
    with pytest.raises(
        UserError, match=r"failed 2 times.*ZeroDivisionError: for a test.*run again"
    ):
        train_on_spark(
            spark, source, PLAN, fleet, checkpoints, on_round=partial(break_once, plan=faults)
        )
    outcome = train_on_spark(spark, source, PLAN, fleet, checkpoints)
    assert {report.resumed_at for report in outcome.reports} == {4}
    assert outcome.ranker.model_text() == alone.model_text()


def test_too_few_slots_are_one_clear_error_before_training(spark, source):
    with pytest.raises(UserError, match=r"num_workers = 9, but the cluster runs 2 tasks at once"):
        train_on_spark(spark, source, PLAN, DistributedOptions(num_workers=9))


def test_fewer_queries_than_workers_leave_no_worker_empty(spark, tmp_path):
    table = as_table(clicked_data(1))
    pq.write_table(table, tmp_path / "part-0.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "part-1.parquet")
    files = [str(tmp_path / f"part-{n}.parquet") for n in (0, 1)]
    plan = TrainPlan(
        "joint", 2, {**SETTINGS, "min_sum_hessian_in_leaf": 0.01}, early_stopping_round=0
    )
    outcome = train_on_spark(spark, PairFiles(str(tmp_path), files), plan, FLEET)
    assert len(outcome.reports) == 1
    assert outcome.queries == 1


def test_an_empty_table_and_features_of_several_lengths_are_refused_and_not_tried_again(
    spark, tmp_path
):
    empty = str(tmp_path / "empty.parquet")
    table = as_table(clicked_data(20))
    pq.write_table(table.slice(0, 0), empty)
    with pytest.raises(UserError, match="the pairs table is empty"):
        train_on_spark(spark, PairFiles(str(tmp_path), [empty]), PLAN, FLEET)
    short = as_table(clicked_data(20))
    column = short["features"].combine_chunks()
    values = pa.ListArray.from_arrays(
        pa.array(np.arange(21, dtype=np.int32) * 8 * 5), column.values.slice(0, 20 * 8 * 5)
    )
    short = short.set_column(3, table.schema.field("features"), values)
    files = [str(tmp_path / "six.parquet"), str(tmp_path / "five.parquet")]
    for file, content in zip(files, (table, short), strict=True):
        pq.write_table(content, file)
    with pytest.raises(UserError, match="one length for all"):
        train_on_spark(spark, PairFiles(str(tmp_path), files), PLAN, FLEET)
