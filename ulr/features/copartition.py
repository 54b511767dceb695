"""Shuffle groups and features so that all rows of a query are in one partition."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.shuffle import BLOCK, open_table, partition_blocks, unpack
from ulr.features.files import feature_names, read_features
from ulr.features.split import Split, in_split
from ulr.groups.histograms import partition_of
from ulr.warehouse.schema import features_schema, groups_schema
from ulr.warehouse.storage import open_filesystem

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class JoinInputs:
    """Files of groups and features, on the filesystems of the two URLs, and the queries to use."""

    groups_url: str
    groups_files: Sequence[str]
    features_url: str
    features_files: Sequence[str]
    test_fraction: float = 0.0
    split: Split = "all"


def copartition(spark: SparkSession, inputs: JoinInputs, partitions: int) -> DataFrame:
    """Return shuffle blocks of groups and features, by query; one shuffle."""
    files = [("groups", f) for f in inputs.groups_files]
    files += [("features", f) for f in inputs.features_files]
    names: list[str] = []
    if inputs.features_files:
        names = feature_names(inputs.features_url, inputs.features_files[0])
    send = partial(_send, inputs=inputs, files=files, names=names, partitions=partitions)
    blocks = spark.range(0, len(files), 1, len(files)).mapInArrow(send, BLOCK)
    return blocks.repartitionById(partitions, F.col("part"))


def read_partition(batches: Batches) -> tuple[int | None, pa.Table, pa.Table]:
    """Return the partition's number (None if it is empty), its groups and its features.

    Spark fetches blocks in any order. They are sorted by content, so that the first of several
    rows with one key is always the same.
    """
    blocks = sorted(unpack(batches), key=lambda block: hashlib.blake2b(block[2]).digest())
    groups, features = [groups_schema.empty_table()], [features_schema.empty_table()]
    for _, kind, content in blocks:
        (groups if kind == "groups" else features).append(open_table(content))
    number = blocks[0][0] if blocks else None
    return number, pa.concat_tables(groups), pa.concat_tables(features)


def _send(
    batches: Batches,
    *,
    inputs: JoinInputs,
    files: list[tuple[str, str]],
    names: Sequence[str],
    partitions: int,
) -> Batches:
    for number in (n for batch in batches for n in batch.column(0).to_pylist()):
        kind, path = files[number]
        for table in _read(kind, path, inputs, names):
            chosen = in_split(table["query_id"], inputs.test_fraction, inputs.split)
            kept = table if chosen.all() else table.filter(pa.array(chosen))
            if kept.num_rows:
                yield from partition_blocks(kind, kept, partition_of(kept, partitions))


def _read(kind: str, path: str, inputs: JoinInputs, names: Sequence[str]) -> Iterator[pa.Table]:
    if kind == "features":
        yield from read_features(inputs.features_url, path, names)
        return
    fs, _ = open_filesystem(inputs.groups_url)
    yield pq.read_table(path, filesystem=fs, use_threads=False).cast(groups_schema)
