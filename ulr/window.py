"""Days of groups added up: a window is a sum of daily tables, and costs what their size costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.histograms import canonical, in_transit, merge, partition_of
from ulr.parcels import PARCEL, open_table, pack_by_part, unpack
from ulr.schema import groups_schema
from ulr.session import spark_schema
from ulr.storage import open_filesystem

Batches = Iterator[pa.RecordBatch]


def merge_window(
    spark: SparkSession, files: Sequence[str], *, url: str, partitions: int
) -> DataFrame:
    """The groups of several daily tables, equal groups added up; a query in one partition."""
    read = partial(_read_files, url=url, files=list(files), partitions=partitions)
    parcels = spark.range(0, len(files), 1, len(files)).mapInArrow(read, PARCEL)
    placed = parcels.repartitionById(partitions, F.col("part"))
    return placed.mapInArrow(_merge_part, spark_schema(groups_schema))


def _read_files(batches: Batches, *, url: str, files: list[str], partitions: int) -> Batches:
    fs, _ = open_filesystem(url)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            table = pq.read_table(files[number], filesystem=fs, use_threads=False)
            table = merge([in_transit(table.cast(groups_schema).combine_chunks())], partitions)
            yield from pack_by_part("groups", table, partition_of(table, partitions))


def _merge_part(batches: Batches) -> Batches:
    tables = [open_table(content) for _, _, content in unpack(batches)]
    if tables:
        yield from canonical(merge(tables)).to_batches(max_chunksize=65_536)
