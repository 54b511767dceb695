"""Groups and features to pair tables: each query's groups and features meet in one partition.

Map tasks read files and send each reducer its queries. A reducer builds its pairs and writes one
file. There is one shuffle; groups are aggregated before it, so its size does not grow with traffic.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.features.copartition import JoinInputs, copartition, read_partition
from ulr.features.join import shown_groups
from ulr.groups.histograms import cut_lists
from ulr.pairs.config import PairConfig
from ulr.pairs.health import WeightHealth
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.table import PairReport, build_pair_table
from ulr.warehouse.storage import Storage

Batches = Iterator[pa.RecordBatch]


def estimate_variance(
    spark: SparkSession,
    sources: JoinInputs,
    psi: np.ndarray,
    segments: Mapping[str, int],
    *,
    partitions: int,
) -> float:
    """Estimate the variance of the prior on co-clicks; psi: (segments, K, K)."""
    groups = copartition(spark, replace(sources, features_files=()), partitions)
    add_up = partial(_sum_partition, psi=psi, segments=segments)
    rows = groups.mapInArrow(add_up, "part long, sums array<double>").collect()
    return prior_variance(sum((np.array(row.sums) for row in sorted(rows)), np.zeros(3)))


def write_pairs(
    spark: SparkSession, sources: JoinInputs, config: PairConfig, *, pairs_url: str, partitions: int
) -> PairReport:
    """Write one file of pairs per partition under `pairs_url`; return their summed report."""
    write = partial(_write_partition, pairs_url=pairs_url, config=config)
    rows = copartition(spark, sources, partitions).mapInArrow(write, "report string").collect()
    reports = [_read_report(row.report) for row in rows]
    return reduce(add, reports, PairReport(Counter(), WeightHealth.empty()))


def _sum_partition(batches: Batches, *, psi: np.ndarray, segments: Mapping[str, int]) -> Batches:
    number, groups, _ = read_partition(batches)
    if number is not None:
        shown = shown_groups(cut_lists(groups, psi.shape[-1]))
        sums = co_click_sums(shown.histograms, shown.tables_of(segments), psi)
        yield pa.RecordBatch.from_pydict({"part": [number], "sums": [sums.tolist()]})


def _write_partition(batches: Batches, *, pairs_url: str, config: PairConfig) -> Batches:
    """Build and write one partition. Equal input gives equal bytes, so a retry overwrites."""
    number, groups, features = read_partition(batches)
    if number is None:
        return
    table, report = build_pair_table(groups, features, config)
    if table.num_rows:
        name = f"part-{number:05d}.parquet"
        report.counts["bytes"] = Storage(pairs_url).write_table(table, name, row_group=1024)
    health = [column.tolist() for column in report.health.columns]
    text = json.dumps({"counts": report.counts, "health": health})
    yield pa.RecordBatch.from_pydict({"report": [text]})


def _read_report(text: str) -> PairReport:
    content = json.loads(text)
    health = WeightHealth(*(np.array(total, float) for total in content["health"]))
    return PairReport(Counter(content["counts"]), health)
