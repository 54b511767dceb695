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
from ulr.features.files import feature_names, find_features
from ulr.pairs.table import PairConfig, PairReport, make_pair_config
from ulr.pairs.tasks import choose_variance, write_pairs
from ulr.propensity.examination import known_propensities
from ulr.warehouse.schema import metrics_schema
from ulr.warehouse.stage import fingerprint_of
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Outcome, Warehouse, partition_name

# Where files lie does not change what is published; their content is fingerprinted instead.
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
    """Publish `pairs` for one method over a window of dates, and its weight health in `metrics`."""
    pair_config = pair_config_of(pairs, warehouse)
    partition = partition_name(pairs.method)
    days = [f"dt={date}" for date in dates]
    groups_files = [f for day in days for f in warehouse.files("groups", day)]
    found = find_features(features)
    inputs = {
        "groups": {day: warehouse.current("groups", day).fingerprint for day in days},
        "features": [[f.path.rpartition("/")[2], f.size, f.mtime_ns] for f in found],
        "weights": [
            pair_config.tables.tolist(),
            _listed(pair_config.psi),
            dict(pair_config.segments),
        ],
    }
    if names := feature_names(features, found[0].path):
        inputs["feature_names"] = names
    settings = pairs.model_dump()
    matters = {k: v for k, v in settings.items() if k not in _NOT_IN_FINGERPRINT}
    identity = fingerprint_of(inputs=inputs, settings=matters)
    published = warehouse.current("pairs", partition)
    if published and published.fingerprint == identity and not force:
        return Outcome(published, skipped=True)
    with warehouse.writing("pairs", partition, identity) as draft:
        spark = start_spark()
        sources = JoinInputs(
            warehouse.storage.url, groups_files, features, [f.path for f in found],
            pairs.test_fraction, "train",
        )  # fmt: skip
        if pair_config.psi is not None and pair_config.co_click_variance is None:
            told = choose_variance(spark, sources, pair_config, pairs.partitions)
            pair_config = replace(pair_config, co_click_variance=told)
        report = write_pairs(
            spark, sources, pair_config, pairs_url=draft.url, partitions=pairs.partitions
        )
        inputs["weights"] = "see settings"  # the tables are in the fingerprint, and large
        record = {"counts": dict(report.counts), "inputs": inputs, "settings": settings}
        _publish_health(warehouse, pair_config, identity, report, record)
        return Outcome(draft.publish(identity, **record), skipped=False)


def pair_config_of(pairs: Pairs, warehouse: Warehouse) -> PairConfig:
    """The weight tables that the settings and the propensities make."""
    pooled, by_segment = known_propensities(pairs.propensities, warehouse)
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


def _publish_health(
    warehouse: Warehouse, pair_config: PairConfig, identity: str, report: PairReport, record: dict
) -> None:
    partition = f"stage=pairs-{partition_name(pair_config.method)}"
    with warehouse.writing("metrics", partition, identity) as draft:
        Storage(draft.url).write_table(health_table(pair_config, report), "part-00000.parquet")
        draft.publish(identity, **record)
