"""Score a features table with a model and publish the table `scores`, sorted within each query."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import SparkSession

from ulr.features.copartition import JoinInputs, copartition
from ulr.features.files import find_features
from ulr.models.booster import check_order
from ulr.models.tasks import SCORED, score_partition
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse, WriteTransaction


def build_scores(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    *,
    features: str,
    model: str,
    name: str,
    partitions: int,
    force: bool = False,
) -> Outcome:
    """Publish `scores` of the features under the model text; `name` is recorded with them."""
    feature_files = find_features(features)
    check_order(feature_files, {name: model})
    sources = JoinInputs("", [], features, feature_files.paths)

    def write(scores: WriteTransaction) -> None:
        score = partial(score_partition, url=scores.url, model=model, name=name)
        rows = copartition(start_spark(), sources, partitions).mapInArrow(score, SCORED).collect()
        scores.publish({"rows": sum(r.rows for r in rows), "queries": sum(r.queries for r in rows)})

    outcome, _ = publish_if_changed(
        warehouse,
        "scores",
        inputs={"features": feature_files.identity, "model": fingerprint(model)},
        settings={"model": name, "partitions": partitions},
        not_in_fingerprint=["model"],
        write=write,
        force=force,
    )
    return outcome
