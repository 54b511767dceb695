"""Score a features table with a model and publish the table `scores`, sorted within each query."""

from __future__ import annotations

from ulr.config.inputs import Features
from ulr.engine.interface import Engine, partitions_for
from ulr.features.source import open_features
from ulr.models.booster import check_features
from ulr.models.tasks import write_scores
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction


def build_scores(
    engine: Engine,
    warehouse: Warehouse,
    *,
    features: Features,
    model: str,
    name: str,
    partitions: int | None,
    force: bool = False,
) -> Outcome:
    """Publish `scores` of the features under the model text; `name` is recorded with them.

    partitions: files of the table; None: chosen from the bytes of the features.
    """
    source = open_features(engine, warehouse, features.model_copy(update={"as_of": "latest"}))
    check_features(source.names(), source.where, {name: model})
    parts = partitions or partitions_for(source.size)

    def write(scores: WriteTransaction) -> None:
        counts = write_scores(engine, source, model, name, url=scores.url, partitions=parts)
        scores.publish(counts)

    outcome, _ = publish_if_changed(
        warehouse,
        "scores",
        inputs={"features": source.identity, "model": fingerprint(model)},
        settings={"model": name, "partitions": parts},
        not_in_fingerprint=["model"],
        write=write,
        force=force,
    )
    return outcome
