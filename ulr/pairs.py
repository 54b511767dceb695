"""Groups and features to pair tables: every query's groups and features meet in one partition.

Map tasks read files and send each reducer its queries; a reducer builds its pairs and writes one
file. One shuffle; groups were aggregated before it, so its size does not grow with traffic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial, reduce
from operator import add

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ulr.featurefiles import read_features
from ulr.histograms import partition_of
from ulr.pair_table import PairRecipe, PairReport, build_pair_table
from ulr.parcels import PARCEL, open_table, pack_by_part, unpack
from ulr.schema import features_schema, groups_schema
from ulr.storage import Storage, open_filesystem
from ulr.weight_health import WeightHealth, read_health

Batches = Iterator[pa.RecordBatch]


def write_pairs(
    spark: SparkSession,
    *,
    groups_url: str,
    groups_files: Sequence[str],
    features_url: str,
    features_files: Sequence[str],
    pairs_url: str,
    partitions: int,
    recipe: PairRecipe,
) -> PairReport:
    """Write one file of pairs per partition under `pairs_url`; return what was counted."""
    sources = [("groups", f) for f in groups_files] + [("features", f) for f in features_files]
    urls = {"groups": groups_url, "features": features_url}
    read = partial(_read_sources, sources=sources, urls=urls, partitions=partitions)
    parcels = spark.range(0, len(sources), 1, len(sources)).mapInArrow(read, PARCEL)
    placed = parcels.repartitionById(partitions, F.col("part"))
    write = partial(_write_part, pairs_url=pairs_url, recipe=recipe)
    rows = placed.mapInArrow(write, "report string").collect()  # one row per file
    return reduce(add, [_read_report(row.report) for row in rows], no_report())


def no_report() -> PairReport:
    """Nothing counted yet."""
    return PairReport(Counter(), WeightHealth(*np.zeros((4, 0))))


def _read_sources(
    batches: Batches, *, sources: list[tuple[str, str]], urls: dict[str, str], partitions: int
) -> Batches:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            kind, path = sources[number]
            tables = _read_groups if kind == "groups" else read_features
            for table in tables(urls[kind], path):
                yield from pack_by_part(kind, table, partition_of(table, partitions))


def _read_groups(url: str, path: str) -> Iterator[pa.Table]:
    fs, _ = open_filesystem(url)
    yield pq.read_table(path, filesystem=fs, use_threads=False).cast(groups_schema)


def _write_part(batches: Batches, *, pairs_url: str, recipe: PairRecipe) -> Batches:
    """Build and write what was sent here; same input, same bytes, so a retry overwrites."""
    tables: dict[str, list[pa.Table]] = {"groups": [], "features": []}
    number = None
    for part, kind, content in unpack(batches):
        number = part
        tables[kind].append(open_table(content))
    if number is None:
        return
    groups = pa.concat_tables([groups_schema.empty_table(), *tables["groups"]])
    features = pa.concat_tables([features_schema.empty_table(), *tables["features"]])
    table, report = build_pair_table(groups, features, recipe)
    if table.num_rows:
        name = f"part-{number:05d}.parquet"
        report.counts["bytes"] = Storage(pairs_url).write_table(table, name, row_group=1024)
    yield pa.RecordBatch.from_pydict({"report": [_write_report(report)]})


def _write_report(report: PairReport) -> str:
    health = [column.tolist() for column in report.health.columns]
    return json.dumps({"counts": report.counts, "health": health})


def _read_report(text: str) -> PairReport:
    content = json.loads(text)
    return PairReport(Counter(content["counts"]), read_health(content["health"]))
