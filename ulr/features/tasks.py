"""Gather a window: all groups and feature rows of a query meet in one task, which joins them.

Map tasks read files and send each reducer its queries; a reducer writes one file of the table
`window`. There is one shuffle. Before it, feature rows of queries that were not shown are dropped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import Broadcast
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ulr.engine.columns import hashes
from ulr.engine.shuffle import BLOCK, open_table, partition_blocks, unpack
from ulr.engine.spark_versions import repartition_by_part
from ulr.engine.tasks import map_batches, map_items
from ulr.features.files import FeatureFiles, FeaturePart, folder_day
from ulr.features.join import join_features
from ulr.features.layout import day_field
from ulr.features.reading import read_features
from ulr.features.shown import ShownQueries
from ulr.groups.histograms import partition_of
from ulr.groups.levels import CLICKS, names_in, with_levels
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import features_schema, groups_schema
from ulr.warehouse.storage import StoredFile
from ulr.warehouse.table_files import TableFiles

Batches = Iterator[pa.RecordBatch]
ROW_GROUP = 8192  # queries
_FILTER_FROM = 8 << 20  # bytes of features from which a pass over the groups pays off
_SENT_BYTES = 64 << 20  # held in a map task before they are sent
_COLUMNS = ["query_id", "segment", "ranking", "doc_ids", "patterns", "counts"]  # of groups
_groups_schema = pa.schema([groups_schema.field(name) for name in _COLUMNS])


@dataclass(frozen=True)
class WindowFiles:
    """Files of groups, on the filesystem of `groups_url`, and of features.

    levels: of feedback in the window.
    """

    groups_url: str
    groups: Sequence[StoredFile]
    features: FeatureFiles
    levels: Sequence[str] = CLICKS

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.features.size + sum(file.size for file in self.groups)


def write_window(
    spark: SparkSession,
    files: WindowFiles,
    *,
    url: str,
    partitions: int,
    filter_from: int = _FILTER_FROM,
) -> Counter[str]:
    """Write one file per partition under `url`; return the counts.

    filter_from: bytes of features from which the shown queries are collected first.
    """
    shown = None
    if files.features.size >= filter_from:
        shown = spark.sparkContext.broadcast(shown_queries(spark, files))
    units: list[StoredFile | FeaturePart] = [*files.groups, *files.features.parts()]
    send = partial(_send, files=files, names=files.features.names(), partitions=partitions,
                   shown=shown)  # fmt: skip
    blocks = map_items(spark, units, send, BLOCK, sizes=[unit.size for unit in units])
    parts = repartition_by_part(blocks, partitions, F.col("part"))
    try:
        rows = map_batches(parts, partial(_join_partition, url=url), "counts string").collect()
    finally:
        if shown is not None:
            shown.destroy()
    total = Counter(queries=0, groups=0, documents=0)
    for row in rows:  # one per file
        total.update(json.loads(row.counts))
    return total


def shown_queries(spark: SparkSession, files: WindowFiles) -> ShownQueries:
    """Return the set of queries in the groups; the driver collects 8 bytes for each."""
    collect = partial(_query_hashes, url=files.groups_url)
    sizes = [file.size for file in files.groups]
    rows = map_items(spark, files.groups, collect, "hashes binary", sizes=sizes).collect()
    return ShownQueries.of([np.frombuffer(row.hashes, np.uint64) for row in rows])


def _query_hashes(files: list[StoredFile], *, url: str) -> Batches:
    fs, _ = open_filesystem(url)
    found = [np.zeros(0, np.uint64)]
    for file in files:
        ids = pq.read_table(file.path, columns=["query_id"], filesystem=fs, use_threads=False)
        found.append(np.unique(hashes(ids["query_id"])))
    content = np.unique(np.concatenate(found)).tobytes()
    yield pa.RecordBatch.from_pydict({"hashes": pa.array([content], pa.binary())})


def _send(
    units: list[StoredFile | FeaturePart],
    *,
    files: WindowFiles,
    names: Sequence[str],
    partitions: int,
    shown: Broadcast[ShownQueries] | None,
) -> Batches:
    groups = [unit for unit in units if isinstance(unit, StoredFile)]
    parts = [unit for unit in units if isinstance(unit, FeaturePart)]
    only = None if shown is None else shown.value
    tables = {
        "groups": _read_groups(groups, files),
        "features": _read_features(parts, files.features, names, only),
    }
    for kind, content in tables.items():
        for table in _in_large_batches(content):
            yield from partition_blocks(kind, table, partition_of(table, partitions))


def _read_groups(units: list[StoredFile], files: WindowFiles) -> Iterator[pa.Table]:
    fs, _ = open_filesystem(files.groups_url)
    for file in units:
        table = pq.read_table(file.path, columns=_COLUMNS, filesystem=fs, use_threads=False)
        table = with_levels(table, names_in(table.schema), files.levels).cast(_groups_schema)
        if files.features.by_day:
            day = np.full(table.num_rows, folder_day(file.path, "dt"), np.int32)
            table = table.append_column(day_field, pa.array(day))
        yield table


def _read_features(
    parts: list[FeaturePart],
    features: FeatureFiles,
    names: Sequence[str],
    shown: ShownQueries | None,
) -> Iterator[pa.Table]:
    """Yield feature rows in batches with a column `order`: their order over all files."""
    for part in parts:
        for number, table in enumerate(read_features(features, part, names, shown)):
            order = (part.file << 40) + (part.k << 20) + number
            yield table.append_column("order", pa.array(np.full(table.num_rows, order)))


def _in_large_batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield several tables as one: a block of few rows costs as much as one of many."""
    pending: list[pa.Table] = []
    size = 0
    for table in tables:
        pending.append(table)
        size += table.nbytes
        if size >= _SENT_BYTES:
            yield pa.concat_tables(pending)
            pending, size = [], 0
    if pending:
        yield pa.concat_tables(pending)


def _join_partition(batches: Batches, *, url: str) -> Batches:
    """Join and write one partition. Equal input gives equal bytes, so a retry overwrites."""
    blocks: dict[str, list[pa.Table]] = {"groups": [], "features": []}
    number = None
    for part, kind, content in unpack(batches):
        number = part
        blocks[kind].append(open_table(content))
    if number is None:
        return
    if not blocks["groups"]:
        return
    # Spark fetches blocks in any order; the first of several feature rows must be the same one.
    in_order = sorted(blocks["features"], key=lambda table: int(table["order"][0].as_py()))
    tables = [table.drop_columns("order") for table in in_order]
    features = pa.concat_tables(tables or [features_schema.empty_table()])
    window = join_features(pa.concat_tables(blocks["groups"]), features)
    if window.num_rows == 0:
        return
    size = TableFiles(url).write_table(window, f"part-{number:05d}.parquet", row_group=ROW_GROUP)
    counts = {
        "queries": window.num_rows,
        "groups": len(window["group_sizes"].combine_chunks().values),
        "documents": len(window["doc_ids"].combine_chunks().values),
        "bytes": size,
    }
    yield pa.RecordBatch.from_pydict({"counts": [json.dumps(counts)]})
