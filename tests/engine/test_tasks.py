"""Items are dealt to tasks by bytes, and Spark's tasks do not pay for garbage collection."""

import gc
import time

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ulr.engine.interface import TASKS_PER_CORE, Items, deal, partitions_for
from ulr.engine.spark.watchdog import WORKER_TIMEOUT


@given(st.lists(st.integers(0, 10**9), max_size=60), st.integers(1, 12))
def test_every_item_is_dealt_once_in_order_and_no_task_has_much_more_than_its_share(sizes, tasks):
    dealt = deal(sizes, tasks)
    assert [i for items in dealt for i in items] == list(range(len(sizes)))
    assert len(dealt) <= tasks
    assert all(dealt)
    total = sum(sizes) + len(sizes)
    largest = max(sizes, default=0) + 1
    for items in dealt:
        assert sum(sizes[i] + 1 for i in items) <= total / tasks + largest + 1


def test_the_number_of_partitions_grows_with_the_bytes_only():
    megabyte = 1 << 20
    assert [partitions_for(n * megabyte) for n in (0, 4, 5, 32, 256, 257)] == [1, 1, 2, 8, 8, 9]
    assert partitions_for(32 << 40) == 1 << 20


def rows_of(engine, source, function):
    return [row for batch in engine.map(source, function) for row in batch.to_pylist()]


def number_of_items(items):
    yield pa.RecordBatch.from_pydict({"items": [items], "unfrozen": [len(gc.get_objects())]})


def test_many_small_files_share_a_few_tasks_and_old_objects_are_not_collected(spark_engine):
    items = list(range(240))
    rows = rows_of(spark_engine, Items(items, [10] * 240), number_of_items)
    assert [i for row in rows for i in row["items"]] == items
    assert len(rows) == TASKS_PER_CORE * spark_engine.parallelism
    # numpy, pyarrow and pyspark alone leave more than 50,000 objects to the collector.
    assert all(row["unfrozen"] < 20_000 for row in rows)
    alone = rows_of(spark_engine, Items(items[:3]), number_of_items)
    assert [row["items"] for row in alone] == [[0], [1], [2]]


def compute_for_long(items):
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        sum(range(10_000))
    yield pa.RecordBatch.from_pydict({"items": [items], "unfrozen": [0]})


def test_a_task_that_computes_for_longer_than_the_worker_timeout_is_not_killed(spark, spark_engine):
    before = spark.conf.get(WORKER_TIMEOUT)
    spark.conf.set(WORKER_TIMEOUT, 1)
    try:
        rows = rows_of(spark_engine, Items([1, 2]), compute_for_long)
    finally:
        spark.conf.set(WORKER_TIMEOUT, before)
    assert [row["items"] for row in rows] == [[1], [2]]
