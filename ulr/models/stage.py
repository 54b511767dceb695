"""Score a features table with a model and publish the table `scores`, sorted within each query."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from ulr.engine.tasks import partitions_for
from ulr.features.files import find_features
from ulr.models.booster import check_order
from ulr.models.tasks import write_scores
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction


def build_scores(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    *,
    features: str,
    model: str,
    name: str,
    partitions: int | None,
    force: bool = False,
) -> Outcome:
    """Publish `scores` of the features under the model text; `name` is recorded with them.

    partitions: files of the table; None: chosen from the bytes of the features.
    """
    feature_files = find_features(features)
    check_order(feature_files, {name: model})
    parts = partitions or partitions_for(feature_files.size)

    def write(scores: WriteTransaction) -> None:
        counts = write_scores(
            start_spark(), feature_files, model, name, url=scores.url, partitions=parts
        )
        scores.publish(counts)

    outcome, _ = publish_if_changed(
        warehouse,
        "scores",
        inputs={"features": feature_files.identity, "model": fingerprint(model)},
        settings={"model": name, "partitions": parts},
        not_in_fingerprint=["model"],
        write=write,
        force=force,
    )
    return outcome
