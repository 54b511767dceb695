"""Files are dealt to tasks by bytes, and tasks do not pay for garbage collection."""

import gc
import time

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ulr.engine.spark.tasks import TASKS_PER_CORE, deal, map_items, partitions_for
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


COLUMNS = "items array<long>, unfrozen long"


def number_of_items(items):
    yield pa.RecordBatch.from_pydict({"items": [items], "unfrozen": [len(gc.get_objects())]})


def test_many_small_files_share_a_few_tasks_and_old_objects_are_not_collected(spark):
    items = list(range(240))
    frame = map_items(spark, items, number_of_items, COLUMNS, sizes=[10] * 240)
    rows = frame.collect()
    assert sorted(i for row in rows for i in row["items"]) == items
    assert len(rows) == TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    # numpy, pyarrow and pyspark alone leave more than 50,000 objects to the collector.
    assert all(row["unfrozen"] < 20_000 for row in rows)
    alone = map_items(spark, items[:3], number_of_items, COLUMNS).collect()
    assert sorted(row["items"] for row in alone) == [[0], [1], [2]]


def compute_for_long(items):
    end = time.monotonic() + 6.0
    while time.monotonic() < end:
        sum(range(10_000))
    yield pa.RecordBatch.from_pydict({"items": [items], "unfrozen": [0]})


def test_a_task_that_computes_for_longer_than_the_worker_timeout_is_not_killed(spark):
    before = spark.conf.get(WORKER_TIMEOUT)
    spark.conf.set(WORKER_TIMEOUT, 4)
    try:
        rows = map_items(spark, [1, 2], compute_for_long, COLUMNS).collect()
    finally:
        spark.conf.set(WORKER_TIMEOUT, before)
    assert sorted(row["items"] for row in rows) == [[1], [2]]
