"""Ranks of both engines give the model of one process, also when workers are lost."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle

from tests.support.clicked_pairs import as_table, clicked_data, with_even_queries
from tests.support.python_workers import has_ended
from tests.support.train_alone import train_alone
from tests.support.waiting import wait_until
from ulr.errors import UserError
from ulr.pairs.weightings import training_columns, validation_columns
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, train_on_ranks
from ulr.training.distributed.pair_files import PairFiles
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
OPTIONS = DistributedOptions(num_workers=2, worker_timeout=60.0)
# A stopped worker is detected only by this timeout.
STOPPED_AFTER_S = {"local": 2.0, "spark": 6.0}


@pytest.fixture(autouse=True)
def retry_at_once(monkeypatch):
    monkeypatch.setattr("ulr.training.distributed.recovery.MAX_BACKOFF_S", 0.05)


@pytest.fixture(
    params=["engine", pytest.param("spark_engine", marks=[pytest.mark.spark, pytest.mark.all])]
)
def ranks(request):
    """An engine that runs the workers."""
    return request.getfixturevalue(request.param)


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
def alone(source):
    return train_alone(source, PLAN)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_train_the_model_of_one_process(ranks, source, alone, workers):
    events = []
    result = train_on_ranks(
        ranks, source, PLAN, DistributedOptions(workers), on_event=events.append
    )
    assert result.ranker.model_text() == alone.model_text()
    assert result.ranker.history == alone.history
    assert result.ranker.biases.t_minus.tobytes() == alone.biases.t_minus.tobytes()
    wait_until(lambda: len(events) == 12)
    assert [event["iteration"] for event in events] == list(range(1, 13))
    assert [event["value"] for event in events] == alone.history
    assert [report.rank for report in result.reports] == list(range(workers))
    assert sum(report.rows for report in result.reports) == result.rows
    assert result.failures == []


def fail(
    rank: int, attempt: int, iteration: int, *, faults: list[tuple[int, int, str]], pids: str = ""
) -> None:
    """Fail in attempt n as the n-th fault (rank, iteration, kind) says."""
    if attempt > len(faults) or (rank, iteration) != faults[attempt - 1][:2]:
        return
    kind = faults[attempt - 1][2]
    if pids:
        with open(pids, "a") as file:
            file.write(f"{os.getpid()}\n")
    if kind == "raise":
        raise ZeroDivisionError("for a test")
    os.kill(os.getpid(), signal.SIGKILL if kind == "kill" else signal.SIGSTOP)


TIMEOUTS = ("silent", "no sign of life")  # to another worker, or to the engine
FAULTS = [
    [(0, 1, "kill")],
    [(1, 6, "kill")],
    [(1, 4, "stop")],
    [(1, 12, "raise")],
]
MORE_FAULTS = [
    [(0, 7, "raise")],
    [(0, 10, "stop")],
    [(1, 5, "raise"), (0, 9, "kill"), (1, 11, "stop")],
]


def name_of(faults: list[tuple[int, int, str]]) -> str:
    return "-".join(f"{kind}{rank}@{number}" for rank, number, kind in faults)


@pytest.mark.kill
@pytest.mark.parametrize(
    "faults",
    [
        *(pytest.param(faults, id=name_of(faults)) for faults in FAULTS),
        *(
            pytest.param(faults, id=name_of(faults), marks=pytest.mark.all)
            for faults in MORE_FAULTS
        ),
    ],
)
def test_a_run_that_loses_workers_ends_with_the_same_model(
    ranks, source, alone, *, faults, tmp_path
):
    checkpoints, pids = Checkpoints(str(tmp_path), "method=t", "abc"), tmp_path / "pids"
    on_iteration = partial(fail, faults=faults, pids=str(pids))
    stops = any(kind == "stop" for *_, kind in faults)
    timeout = STOPPED_AFTER_S[ranks.name] if stops else OPTIONS.worker_timeout
    options = replace(OPTIONS, worker_timeout=timeout)
    result = train_on_ranks(ranks, source, PLAN, options, checkpoints, on_iteration=on_iteration)
    assert result.ranker.model_text() == alone.model_text()
    assert result.ranker.history == alone.history
    # Only a stopped worker is detected by the timeout; other losses are detected at once.
    late = [any(text in reason for text in TIMEOUTS) for reason in result.failures]
    assert late == [kind == "stop" for *_, kind in faults]
    last = faults[-1][1]  # at the end of a segment, the first worker may have saved it already
    resumed = {report.resumed_at for report in result.reports}
    assert len(resumed) == 1
    assert resumed <= {(last - 1) // 4 * 4, last // 4 * 4}
    for pid, (*_, kind) in zip(pids.read_text().split(), faults, strict=True):
        if kind == "stop":  # no worker is left behind
            wait_until(partial(has_ended, int(pid)))


def stop_all(rank: int, attempt: int, iteration: int, *, pids: str) -> None:
    """Stop every worker in the first attempt."""
    if (attempt, iteration) == (1, 6):
        with open(pids, "a") as file:
            file.write(f"{os.getpid()}\n")
        os.kill(os.getpid(), signal.SIGSTOP)


@pytest.mark.kill
@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.all)])
def test_a_run_whose_workers_are_all_stopped_resumes_from_its_checkpoint(
    ranks, source, alone, workers, tmp_path
):
    checkpoints, pids = Checkpoints(str(tmp_path), "method=t", "abc"), tmp_path / "pids"
    options = DistributedOptions(workers, worker_timeout=STOPPED_AFTER_S[ranks.name])
    result = train_on_ranks(
        ranks, source, PLAN, options, checkpoints, on_iteration=partial(stop_all, pids=str(pids))
    )
    assert result.ranker.model_text() == alone.model_text()
    assert result.failures
    assert {report.resumed_at for report in result.reports} <= {4, 8}
    for pid in pids.read_text().split():
        wait_until(partial(has_ended, int(pid)))


def test_a_run_that_fails_too_often_can_be_resumed(engine, source, alone, tmp_path):
    checkpoints = Checkpoints(str(tmp_path), "method=t", "abc")
    options = replace(OPTIONS, max_retries=1)
    faults = [(0, 7, "raise")] * 2
    with pytest.raises(
        UserError, match=r"failed 2 times.*ZeroDivisionError: for a test.*run again"
    ):
        train_on_ranks(
            engine, source, PLAN, options, checkpoints, on_iteration=partial(fail, faults=faults)
        )
    (file,) = tmp_path.rglob("abc.json")
    content = file.read_bytes()
    result = train_on_ranks(engine, source, PLAN, options, checkpoints)
    assert {report.resumed_at for report in result.reports} == {4}
    assert result.ranker.model_text() == alone.model_text()
    file.write_bytes(content[:-100])  # a checkpoint that was cut off is not used
    result = train_on_ranks(engine, source, PLAN, options, checkpoints)
    assert {report.resumed_at for report in result.reports} == {0}
    assert "abc.json is damaged" in result.reports[0].damaged_checkpoint
    assert result.ranker.model_text() == alone.model_text()


def test_too_few_slots_are_an_error_before_training(spark_engine, source):
    with pytest.raises(UserError, match=r"num_workers = 9, but the cluster runs 2 tasks at once"):
        train_on_ranks(spark_engine, source, PLAN, DistributedOptions(num_workers=9))


def test_with_fewer_queries_than_workers_no_worker_is_empty(engine, tmp_path):
    table = as_table(clicked_data(1))
    pq.write_table(table, tmp_path / "part-0.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "part-1.parquet")
    files = [str(tmp_path / f"part-{n}.parquet") for n in (0, 1)]
    plan = TrainPlan(
        "joint", 2, {**SETTINGS, "min_sum_hessian_in_leaf": 0.01}, early_stopping_round=0
    )
    result = train_on_ranks(engine, PairFiles(str(tmp_path), files), plan, OPTIONS)
    assert len(result.reports) == 1
    assert result.queries == 1


def test_an_empty_table_and_features_of_several_lengths_are_rejected(engine, tmp_path):
    empty = str(tmp_path / "empty.parquet")
    table = as_table(clicked_data(20))
    pq.write_table(table.slice(0, 0), empty)
    with pytest.raises(UserError, match="the pairs table is empty"):
        train_on_ranks(engine, PairFiles(str(tmp_path), [empty]), PLAN, OPTIONS)
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
        train_on_ranks(engine, PairFiles(str(tmp_path), files), PLAN, OPTIONS)


CHOICE = replace(PLAN, method="auto", num_iterations=24, early_stopping_round=24,
                 lightgbm={**SETTINGS, "num_leaves": "auto"})  # fmt: skip


@pytest.fixture(scope="module")
def candidates(tmp_path_factory):
    """Pairs with weights of every candidate."""
    folder = tmp_path_factory.mktemp("candidates")
    table = as_table(with_even_queries(clicked_data(160)))
    columns = training_columns("auto")
    for ij, ji in columns[1:]:  # of each candidate the other way round
        table = table.append_column(ij, table["u_ji"]).append_column(ji, table["u_ij"])
    for name, own in zip(validation_columns("auto"), columns[0], strict=True):
        table = table.append_column(name, table[own])
    file = str(folder / "part-0.parquet")
    pq.write_table(table, file, row_group_size=20)
    weights = {"weights": columns, "validation_weights": validation_columns("auto")}
    return PairFiles(str(folder), [file], CHOICE.validation_fraction, **weights)


@pytest.mark.kill
@pytest.mark.parametrize(
    ("workers", "faults"), [(1, []), (2, []), (2, [(1, 3, "kill")]), (2, [(0, 21, "kill")])]
)
def test_the_choice_of_auto_does_not_depend_on_workers_or_their_loss(
    ranks, candidates, workers, faults, tmp_path
):
    alone = train_alone(candidates, CHOICE)
    assert len(alone.choice["trials"]) == 6
    checkpoints = Checkpoints(str(tmp_path), "method=auto", "abc")
    result = train_on_ranks(
        ranks, candidates, CHOICE, DistributedOptions(workers), checkpoints,
        on_iteration=partial(fail, faults=faults),
    )  # fmt: skip
    assert result.ranker.model_text() == alone.model_text()
    assert result.ranker.choice == alone.choice
    assert len(result.failures) == len(faults)
