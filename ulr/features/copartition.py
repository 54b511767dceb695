"""Groups and features on their way to a reducer: every query's rows meet in one partition."""

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
from ulr.features.split import Part, in_split
from ulr.groups.histograms import partition_of
from ulr.warehouse.schema import features_schema, groups_schema
from ulr.warehouse.storage import open_filesystem

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class JoinInputs:
    """Files of groups and features, and which of their queries are wanted."""

    groups_url: str
    groups_files: Sequence[str]
    features_url: str
    features_files: Sequence[str]
    test_fraction: float = 0.0
    part: Part = "all"


def gather(spark: SparkSession, sources: JoinInputs, partitions: int) -> DataFrame:
    """Parcels of groups and features, those of a query in one partition; one shuffle."""
    files = [("groups", f) for f in sources.groups_files]
    files += [("features", f) for f in sources.features_files]
    names = [n for f in sources.features_files[:1] for n in feature_names(sources.features_url, f)]
    read = partial(_read, sources=sources, files=files, names=names, partitions=partitions)
    parcels = spark.range(0, len(files), 1, len(files)).mapInArrow(read, BLOCK)
    return parcels.repartitionById(partitions, F.col("part"))


def receive(batches: Batches) -> tuple[int | None, pa.Table, pa.Table]:
    """The partition's number (None: nothing came), its groups and its features.

    Parcels come in whatever order Spark fetched them; here they get one of their own, so that
    the first of several equal rows is the same one every time.
    """
    parcels = sorted(unpack(batches), key=lambda parcel: hashlib.blake2b(parcel[2]).digest())
    tables: dict[str, list[pa.Table]] = {"groups": [], "features": []}
    for _, kind, content in parcels:
        tables[kind].append(open_table(content))
    number = parcels[0][0] if parcels else None
    groups = pa.concat_tables([groups_schema.empty_table(), *tables["groups"]])
    features = pa.concat_tables([features_schema.empty_table(), *tables["features"]])
    return number, groups, features


def _read(
    batches: Batches,
    *,
    sources: JoinInputs,
    files: list[tuple[str, str]],
    names: list[str],
    partitions: int,
) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            kind, path = files[number]
            tables = _tables(kind, path, sources, names)
            for table in map(partial(_wanted, sources=sources), tables):
                if table.num_rows:
                    yield from partition_blocks(kind, table, partition_of(table, partitions))


def _wanted(table: pa.Table, sources: JoinInputs) -> pa.Table:
    chosen = in_split(table["query_id"], sources.test_fraction, sources.part)
    return table if chosen.all() else table.filter(pa.array(chosen))


def _tables(
    kind: str, path: str, sources: JoinInputs, names: Sequence[str] = ()
) -> Iterator[pa.Table]:
    if kind == "features":
        yield from read_features(sources.features_url, path, names)
        return
    fs, _ = open_filesystem(sources.groups_url)
    yield pq.read_table(path, filesystem=fs, use_threads=False).cast(groups_schema)
