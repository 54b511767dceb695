"""The pairs of a window, from published groups to a published table; skipped if unchanged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.config.settings import Pairs
from ulr.features.copartition import JoinInputs
from ulr.features.files import find_features
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.pairs.table import PairConfig, PairReport, make_pair_config
from ulr.pairs.tasks import choose_variance, write_pairs
from ulr.propensity.examination import load_examination
from ulr.warehouse.schema import metrics_schema
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse, WriteTransaction, partition_name

# A path; the content of its file is part of the inputs.
_NOT_IN_FINGERPRINT = ("propensities",)


def build_pairs(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    *,
    pairs: Pairs,
    features: str,
    force: bool = False,
) -> Outcome:
    """Publish `pairs` of one method over a window, and their weight health in `metrics`."""
    pair_config = pair_config_of(pairs, warehouse)
    feature_files = find_features(features)
    sources = JoinInputs(
        warehouse.storage.url, groups_files(warehouse, dates), features, feature_files.paths,
        pairs.test_fraction, "train",
    )  # fmt: skip
    weights = [pair_config.tables.tolist(), _listed(pair_config.psi), dict(pair_config.segments)]
    inputs = {
        "groups": groups_fingerprints(warehouse, dates),
        "features": feature_files.identity,
        "weights": fingerprint(weights),
    }
    if names := feature_files.names():
        inputs["feature_names"] = names

    def write(table: WriteTransaction, health: WriteTransaction) -> None:
        spark, config = start_spark(), pair_config
        if config.psi is not None and config.co_click_variance is None:
            variance = choose_variance(spark, sources, config, pairs.partitions)
            config = replace(config, co_click_variance=variance)
        report = write_pairs(
            spark, sources, config, pairs_url=table.url, partitions=pairs.partitions
        )
        health.write_table(health_table(config, report))
        health.publish(report.counts)
        table.publish(report.counts)

    partition = partition_name(pairs.method)
    outcome, _ = publish_if_changed(
        warehouse,
        "pairs",
        partition,
        inputs=inputs,
        settings=pairs.model_dump(),
        not_in_fingerprint=_NOT_IN_FINGERPRINT,
        side_tables=[("metrics", f"stage=pairs-{partition}")],
        write=write,
        force=force,
    )
    return outcome


def pair_config_of(pairs: Pairs, warehouse: Warehouse) -> PairConfig:
    """The weight tables that the settings and the propensities make."""
    pooled, by_segment = load_examination(pairs.propensities, warehouse)
    how = pairs.model_dump(exclude={"method", "propensities", "test_fraction", "partitions"})
    if how["co_click_variance"] == "auto":
        how["co_click_variance"] = None
    return make_pair_config(pairs.method, pooled, by_segment, **how)


def _listed(psi: np.ndarray | None) -> list | None:
    return None if psi is None else psi.tolist()


def health_table(pair_config: PairConfig, report: PairReport) -> pa.Table:
    """Weight health in the metrics schema: a number a row, with the prior on co-clicks."""
    subject = pair_config.method
    rows = [
        {"stage": "pairs", "subject": subject, "position": row["position"], "name": name,
         "value": float(value)}
        for row in report.health.rows()
        for name, value in row.items() if name != "position"
    ]  # fmt: skip
    if pair_config.psi is not None:
        rows.append({"stage": "pairs", "subject": subject, "name": "co_click_variance",
                     "value": pair_config.co_click_variance})  # fmt: skip
    return pa.Table.from_pylist(rows, schema=metrics_schema)
