"""Pair tables from the partitions of a window: one task and one file per partition."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple
from functools import partial, reduce
from operator import add

import numpy as np
import pyarrow as pa

from ulr.engine.interface import Batches, Engine
from ulr.features.stage import WindowTable
from ulr.features.window import HISTOGRAMS, load_histograms, tables_of
from ulr.pairs.config import PairConfig
from ulr.pairs.effective_size import EffectiveSize
from ulr.pairs.health import WeightHealth
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.table import PairReport, build_pair_table
from ulr.warehouse.table_files import TableFiles


def estimate_variance(
    engine: Engine,
    window: WindowTable,
    psi: np.ndarray,
    segments: Mapping[str, int],
    *,
    test_fraction: float,
) -> tuple[float, ...]:
    """Estimate the variance of the prior on co-clicks of every level; psi: (segments, K, K)."""
    add_up = partial(_sum_partition, psi=psi, segments=segments)
    parts = window.map(
        engine, add_up, split="train", test_fraction=test_fraction, columns=HISTOGRAMS
    )
    sums = sum((np.array(part["sums"][0].as_py()) for part in parts), np.zeros((1, 3)))
    return tuple(map(prior_variance, sums))


def write_pairs(
    engine: Engine,
    window: WindowTable,
    config: PairConfig,
    *,
    pairs_url: str,
    test_fraction: float,
) -> PairReport:
    """Write one file of pairs per partition under `pairs_url`; return their summed report."""
    write = partial(_write_partition, pairs_url=pairs_url, config=config)
    parts = window.map(engine, write, split="train", test_fraction=test_fraction)
    reports = [_read_report(part["report"][0].as_py()) for part in parts]
    return reduce(add, reports, PairReport.empty())


def _sum_partition(
    name: str, queries: pa.Table, *, psi: np.ndarray, segments: Mapping[str, int]
) -> Batches:
    levels, segment = load_histograms(queries, psi.shape[-1])
    tables = tables_of(segment, segments)
    sums = [co_click_sums(histograms, tables, psi).tolist() for histograms in levels]
    yield pa.RecordBatch.from_pydict({"sums": [sums]})


def _write_partition(
    name: str, queries: pa.Table, *, pairs_url: str, config: PairConfig
) -> Batches:
    """Build and write one partition. Equal input gives equal bytes, so a retry overwrites."""
    table, report = build_pair_table(queries, config)
    if table.num_rows:
        report.counts["bytes"] = TableFiles(pairs_url).write_table(table, name, row_group=1024)
    health = [column.tolist() for column in report.health.columns]
    text = json.dumps({"counts": report.counts, "health": health, "size": astuple(report.size)})
    yield pa.RecordBatch.from_pydict({"report": [text]})


def _read_report(text: str) -> PairReport:
    content = json.loads(text)
    health = WeightHealth(*(np.array(total, float) for total in content["health"]))
    return PairReport(Counter(content["counts"]), health, EffectiveSize(*content["size"]))
