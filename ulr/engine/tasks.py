"""Spark tasks: functions of Arrow batches, files dealt to tasks, numbers of partitions."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ulr.engine.cluster import default_parallelism, get_property
from ulr.engine.watchdog import WORKER_TIMEOUT, watch_this_process

Batches = Iterator[pa.RecordBatch]
Item = TypeVar("Item")
TASKS_PER_CORE = 2
_PARTITION_BYTES = 32 << 20  # of compressed input: some hundred megabytes in a task's memory
_SMALL_BYTES = 4 << 20  # below this, a second task costs more than it saves
_FEW = 8


def map_batches(
    frame: DataFrame,
    function: Callable[[Batches], Batches],
    schema: str | StructType,
    *,
    barrier: bool = False,
    worker_timeout: float | None = None,
) -> DataFrame:
    """Run a function on the Arrow batches of every partition, as `DataFrame.mapInArrow` does.

    worker_timeout: seconds after which a Python worker that does not run is killed; by default
    those of WORKER_TIMEOUT. A task may compute for any time.

    Spark's worker runs a full garbage collection after every task, which takes 40 to 70 ms with
    the modules of this package loaded. Objects that exist when a task begins are excluded from it.
    """
    if worker_timeout is None:
        worker_timeout = float(get_property(frame.sparkSession, WORKER_TIMEOUT, "0"))
    return frame.mapInArrow(partial(_run, function, worker_timeout), schema, barrier=barrier)


def _run(
    function: Callable[[Batches], Batches], worker_timeout: float, batches: Batches
) -> Batches:
    watch_this_process(worker_timeout)
    gc.freeze()
    return function(batches)


def map_items(
    spark: SparkSession,
    items: Sequence[Item],
    function: Callable[[list[Item]], Batches],
    schema: str | StructType,
    *,
    sizes: Sequence[int] | None = None,
) -> DataFrame:
    """Run a function on lists of items (files, parts of files), one list per task.

    sizes: bytes of the items. With sizes, consecutive items are dealt to about TASKS_PER_CORE
    tasks per core; without, every item has a task of its own.
    """
    if sizes is None:
        lists = [[item] for item in items]
    else:
        tasks = TASKS_PER_CORE * default_parallelism(spark)
        lists = [[items[i] for i in dealt] for dealt in deal(sizes, tasks)]
    numbers = spark.range(0, len(lists), 1, max(len(lists), 1))
    return map_batches(numbers, partial(_on_items, function=function, lists=lists), schema)


def _on_items(
    batches: Batches, *, function: Callable[[list[Item]], Batches], lists: list[list[Item]]
) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from function(lists[number])


def deal(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """Return the indices of the items of each task: consecutive items of about equal bytes.

    At most `tasks` lists, none of them empty.
    """
    if not sizes:
        return []
    weights = np.asarray(sizes, np.float64) + 1  # an empty file costs something, too
    middle = np.cumsum(weights) - weights / 2
    task = np.minimum((middle / weights.sum() * tasks).astype(int), tasks - 1)
    bounds = np.flatnonzero(np.diff(task)) + 1
    return [part.tolist() for part in np.split(np.arange(len(sizes)), bounds)]


def partitions_for(size: int) -> int:
    """Return the number of partitions for compressed input of `size` bytes.

    It depends on the input alone, so that the files of a table are the same on every cluster.
    """
    return max(1, min(_FEW, -(-size // _SMALL_BYTES)), -(-size // _PARTITION_BYTES))
