"""A user error of a task keeps its class, and with it the exit code."""

from __future__ import annotations

import errno
import os
import sys

import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F

from tests.support.clicked_pairs import as_table, clicked_data
from ulr.engine.failures import explain, reraise_user_errors, summarize, user_error_in
from ulr.errors import InvalidData, TemporaryFailure, UserError
from ulr.ml.estimator import UnbiasedLambdaMART
from ulr.training.distributed.driver import DistributedOptions, train_on_ranks
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.plan import TrainPlan
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.tables import Warehouse

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import a test
LIGHTGBM = {"num_leaves": 4, "min_data_in_leaf": 1, "num_threads": 1}


def refuse(*_):
    raise InvalidData("17 rows of sand")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("An exception\nTraceback:\n  File x\nulr.training.PeerLost: worker 1 disconnected\n\n",
         "PeerLost: worker 1 disconnected"),
        ("Job aborted.\nValueError: bad\n\tat java.lang.Thread.run\n", "ValueError: bad"),
        ("nothing known", "nothing known"),
        ("", "no reason given"),
    ],
)  # fmt: skip
def test_a_failure_is_summarized_in_one_line(text, reason):
    assert summarize(text) == reason
    assert user_error_in(text) is None


@pytest.mark.parametrize("raised_by", ["ulr.errors.", "PeerLost: worker 1 stopped: "])
@pytest.mark.parametrize("kind", [UserError, InvalidData])
def test_a_user_error_in_a_text_keeps_its_class_and_message(raised_by, kind):
    text = f"Traceback:\n{raised_by}{kind.__name__}: rows differ; make them equal\nSQLSTATE: 38000"
    error = user_error_in(text)
    assert (type(error), str(error)) == (kind, "rows differ; make them equal")


def test_other_classes_of_our_errors_module_are_no_user_errors():
    assert user_error_in("ulr.errors.NoSuchClass: x") is None
    with pytest.raises(ZeroDivisionError), reraise_user_errors():
        raise ZeroDivisionError


def test_invalid_data_in_a_task_of_a_stage_has_exit_code_3(spark, tmp_path):
    def write(transaction):
        return spark.range(1).mapInArrow(refuse, "id long").collect()

    with pytest.raises(InvalidData, match=r"^17 rows of sand$") as error:
        publish_if_changed(Warehouse(str(tmp_path)), "groups", inputs={}, settings={}, write=write)
    assert error.value.exit_code == 3


def test_invalid_data_in_a_training_task_has_exit_code_3_and_is_not_retried(spark_engine, tmp_path):
    file = str(tmp_path / "part-0.parquet")
    pq.write_table(as_table(clicked_data(20)), file)
    plan = TrainPlan("naive", 3, LIGHTGBM)
    options = DistributedOptions(num_workers=2, worker_timeout=60.0, max_retries=1)
    source = PairFiles(str(tmp_path), [file])
    with pytest.raises(InvalidData, match=r"^17 rows of sand$") as error:
        train_on_ranks(spark_engine, source, plan, options, on_iteration=refuse)
    assert error.value.exit_code == 3


def test_invalid_data_in_a_task_of_the_estimator_has_exit_code_3(spark):
    clicks = F.udf(refuse, "double")
    rows = spark.range(4).selectExpr("id", "array(1.0, 2.0) as features")
    estimator = UnbiasedLambdaMART(qidCol="id", labelCol="click", lightgbm=LIGHTGBM)
    with pytest.raises(InvalidData, match=r"^17 rows of sand$") as error:
        estimator.fit(rows.withColumn("click", clicks("id")))
    assert error.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Lost task 0.3: ExecutorLostFailure (executor 2 exited caused by one of the running tasks)"
         " Reason: Command exited with code 137\nDriver stacktrace:",
         "executor 2 was lost: Command exited with code 137 (signal 9 (SIGKILL): the likely cause"),
        ("java.io.IOException: No space left on device\n\tat x", "a disk is full (No space"),
        ("java.lang.OutOfMemoryError: Java heap space\n\tat x", "the Spark JVM ran out of memory"),
        ("[SPARK_JOB_CANCELLED] Job 3 cancelled by user", "the job was cancelled"),
        ("pyarrow.lib.ArrowMemoryError: malloc of size 8 failed", "could not allocate memory"),
    ],
)  # fmt: skip
def test_a_failure_of_the_cluster_has_exit_code_1_and_a_cause(text, words):
    known = explain(RuntimeError(f"An error occurred while calling o3.collectToPython.\n: {text}"))
    assert type(known) is TemporaryFailure
    assert words in str(known)
    assert words in summarize(text)


def test_an_unknown_failure_is_not_explained_and_names_its_task():
    text = (
        "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException:"
        " Job aborted due to stage failure: Task 0 failed 1 times, most recent failure: Lost"
        " task 0.0 (TID 0) (host executor 1): java.lang.IllegalStateException: odd\n\tat x"
    )
    assert explain(RuntimeError(text)) is None
    assert summarize(text) == "IllegalStateException: odd"


def test_a_full_disk_or_memory_in_the_driver_is_found_behind_another_error():
    try:
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/w/part-0")
        except OSError as error:
            raise RuntimeError("cannot publish") from error
    except RuntimeError as error:
        known = explain(error)
    assert known.exit_code == 1
    assert "a disk is full (No space left on device: '/w/part-0')" in str(known)
    assert explain(MemoryError()).exit_code == 1
