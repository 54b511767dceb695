"""The functions of a stage as Spark tasks: Arrow batches, items dealt to tasks, blocks shuffled."""

from __future__ import annotations

import functools
import gc
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ulr.engine.blocks import open_table, table_bytes
from ulr.engine.interface import Batches, Blocks, Items, Rows, Source
from ulr.engine.spark.cluster import default_parallelism, get_property
from ulr.engine.spark.versions import repartition_by_part, to_arrow
from ulr.engine.spark.watchdog import WORKER_TIMEOUT, watch_this_process

_BLOCK = "part int, kind string, content binary"
_block_schema = pa.schema(
    [pa.field("part", pa.int32()), pa.field("kind", pa.string()), pa.field("content", pa.binary())]
)
_RESULT = "content binary"  # a batch of a result, with its own schema
Read = Callable[[Batches], Iterator[Any]]  # gives the arguments of a task's function


def map_source(
    spark: SparkSession, source: Source, function: Callable[[Any], Batches]
) -> list[pa.RecordBatch]:
    """Run a function in tasks; return its batches in the order of the tasks."""
    frame, read = _open(spark, source)
    rows = to_arrow(map_batches(frame, partial(_results, read=read, function=function), _RESULT))
    contents = (content for batch in rows.to_batches() for content in batch["content"])
    return [batch for content in contents for batch in open_table(content.as_buffer()).to_batches()]


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


def result_batch(content: pa.Buffer | bytes) -> pa.RecordBatch:
    """Return bytes as one row of a result."""
    return pa.RecordBatch.from_arrays([_binary(content)], names=["content"])


def _run(
    function: Callable[[Batches], Batches], worker_timeout: float, batches: Batches
) -> Batches:
    watch_this_process(worker_timeout)
    gc.freeze()
    return function(batches)


def _open(spark: SparkSession, source: Source) -> tuple[DataFrame, Read]:
    """Return the rows that tasks get, and what makes the arguments of a function of them."""
    if isinstance(source, Rows):
        return source.reference, _whole
    if isinstance(source, Items):
        tasks = source.tasks(default_parallelism(spark))
        return spark.range(0, len(tasks), 1, max(len(tasks), 1)), partial(_items, tasks=tasks)
    frames = []
    for own, send in source.sends:
        frame, read = _open(spark, own)
        frames.append(map_batches(frame, partial(_packed, read=read, send=send), _BLOCK))
    blocks = functools.reduce(DataFrame.union, frames)
    part = F.col("part") if source.receivers == source.parts else F.col("part") % source.receivers
    return repartition_by_part(blocks, source.receivers, part), _blocks


def _whole(batches: Batches) -> Iterator[Batches]:
    yield batches


def _items(batches: Batches, *, tasks: list[list[Any]]) -> Iterator[list[Any]]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield tasks[number]


def _blocks(batches: Batches) -> Iterator[Blocks]:
    """Yield the blocks of a task, if it has any."""
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is not None:
        yield _unpacked(first, batches)


def _unpacked(first: pa.RecordBatch, batches: Batches) -> Blocks:
    for batch in itertools.chain([first], batches):
        parts, kinds = batch["part"].to_pylist(), batch["kind"].to_pylist()
        for part, kind, content in zip(parts, kinds, batch["content"], strict=True):
            yield part, kind, content.as_buffer()


def _packed(batches: Batches, *, read: Read, send: Callable[[Any], Blocks]) -> Batches:
    for argument in read(batches):
        for part, kind, content in send(argument):
            arrays = [pa.array([part], pa.int32()), pa.array([kind]), _binary(content)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_block_schema)


def _results(batches: Batches, *, read: Read, function: Callable[[Any], Batches]) -> Batches:
    for argument in read(batches):
        for batch in function(argument):
            yield result_batch(table_bytes(batch))


def _binary(content: pa.Buffer | bytes) -> pa.Array:
    """Return one value of type binary, without a copy."""
    data = pa.py_buffer(content)
    offsets = pa.py_buffer(b"\0\0\0\0" + data.size.to_bytes(4, "little"))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
