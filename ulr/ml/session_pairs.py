"""A DataFrame of shown documents to files of weighted pairs, by the steps of the service.

Tasks write files of the table `window`, whole queries in each; the pairs of every method are built
from these files as `ulr pairs` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ulr.engine.interface import Batches
from ulr.engine.spark.engine import SparkEngine
from ulr.engine.spark.tasks import map_batches
from ulr.errors import InvalidData
from ulr.features.stage import WindowTable
from ulr.ml.session_rows import RowOptions, window_tables
from ulr.pairs.config import PairConfig
from ulr.pairs.empty import empty_reason
from ulr.pairs.tasks import estimate_variance, write_pairs
from ulr.warehouse.storage import Storage
from ulr.warehouse.table_files import TableFiles

_FILE_BYTES = 64 << 20  # of a window in memory: what a task of pairs reads at once
_ROW_GROUP = 1024


def in_order(rows: DataFrame, options: RowOptions) -> DataFrame:
    """Return rows with `session_schema`, whole queries per partition, in the order of lists."""
    last: list[Column] = [F.col("position")]
    if not options.placed:  # without positions the content decides on the order
        last = [F.xxhash64("label", "features", "doc_id")]
    return rows.repartition("query_id").sortWithinPartitions("query_id", "list_id", *last)


def write_window(rows: DataFrame, options: RowOptions, url: str) -> WindowTable:
    """Write the table `window` of rows with `session_schema` under `url`."""
    write = partial(_write_window, options=options, url=url)
    written = map_batches(in_order(rows, options), write, "file string").collect()
    storage = Storage(url)
    return WindowTable(url, [storage.path(name) for name in sorted(row.file for row in written)])


def write_session_pairs(
    rows: DataFrame, options: RowOptions, config: PairConfig, url: str, *, test_fraction: float
) -> tuple[list[str], PairConfig]:
    """Write the pairs of rows with `session_schema`; return their files and the configuration.

    The returned configuration has the estimated prior on co-clicks, if the weights have one.
    """
    engine = SparkEngine(session=rows.sparkSession)
    window = write_window(rows, options, Storage(url).child("window"))
    if not window.files:
        raise InvalidData("the DataFrame has no rows to train on, or none to validate on")
    if config.psi is not None and config.co_click_variance is None:
        variance = estimate_variance(
            engine, window, config.psi, config.segments, test_fraction=test_fraction
        )
        config = replace(config, co_click_variance=variance)
    target = Storage(url).child("pairs")
    report = write_pairs(engine, window, config, pairs_url=target, test_fraction=test_fraction)
    if not report.counts["pairs"]:
        reason = empty_reason(report.counts, config, "the DataFrame")
        raise InvalidData(f"{reason}; check labelCol and qidCol")
    names = sorted(file.path for file in Storage(target).files())
    parts = [name for name in names if name.endswith(".parquet") and not name.startswith("_")]
    return [Storage(target).path(name) for name in parts], config


def _write_window(batches: Batches, *, options: RowOptions, url: str) -> Batches:
    """Write files of bounded size. Equal rows give equal files, so a retry overwrites them."""
    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    for number, table in enumerate(_in_files(window_tables(batches, options))):
        name = f"part-{part:05d}-{number:04d}.parquet"
        TableFiles(url).write_table(table, name, row_group=_ROW_GROUP)
        yield pa.RecordBatch.from_pydict({"file": [name]})


def _in_files(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    pending: list[pa.Table] = []
    for table in tables:
        pending.append(table)
        if sum(own.nbytes for own in pending) >= _FILE_BYTES:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)
