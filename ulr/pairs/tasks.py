"""Groups and features to pair tables: every query's groups and features meet in one partition.

Map tasks read files and send each reducer its queries; a reducer builds its pairs and writes one
file. One shuffle; groups were aggregated before it, so its size does not grow with traffic.
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
from ulr.pairs.health import WeightHealth, read_health
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.table import PairConfig, PairReport, build_pair_table
from ulr.warehouse.storage import Storage

Batches = Iterator[pa.RecordBatch]


def choose_variance(
    spark: SparkSession, sources: JoinInputs, pair_config: PairConfig, partitions: int
) -> float:
    """The prior on co-clicks that the log itself tells; equal rankings of several days are one."""
    groups = copartition(spark, replace(sources, features_files=()), partitions)
    add_up = partial(_part_sums, psi=pair_config.psi, segments=pair_config.segments)
    rows = groups.mapInArrow(add_up, "part long, sums array<double>").collect()
    return prior_variance(sum((np.array(row.sums) for row in sorted(rows)), np.zeros(3)))


def write_pairs(
    spark: SparkSession,
    sources: JoinInputs,
    pair_config: PairConfig,
    *,
    pairs_url: str,
    partitions: int,
) -> PairReport:
    """Write one file of pairs per partition under `pairs_url`; return what was counted."""
    placed = copartition(spark, sources, partitions)
    write = partial(_write_part, pairs_url=pairs_url, pair_config=pair_config)
    rows = placed.mapInArrow(write, "report string").collect()  # one row per file
    return reduce(add, [_read_report(row.report) for row in rows], no_report())


def no_report() -> PairReport:
    """Nothing counted yet."""
    return PairReport(Counter(), WeightHealth(*np.zeros((4, 0))))


def _part_sums(batches: Batches, *, psi: np.ndarray, segments: Mapping[str, int]) -> Batches:
    number, groups, _ = read_partition(batches)
    if number is not None:
        shown = shown_groups(cut_lists(groups, psi.shape[-1]))
        sums = co_click_sums(shown.histograms, shown.tables_of(segments), psi)
        yield pa.RecordBatch.from_pydict({"part": [number], "sums": [sums.tolist()]})


def _write_part(batches: Batches, *, pairs_url: str, pair_config: PairConfig) -> Batches:
    """Build and write what was sent here; same input, same bytes, so a retry overwrites."""
    number, groups, features = read_partition(batches)
    if number is None:
        return
    table, report = build_pair_table(groups, features, pair_config)
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
