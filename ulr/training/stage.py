"""A model from published pairs to a published text file; skipped if unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ulr.config.settings import Train
from ulr.engine.interface import Engine
from ulr.models.linear import linear_weights
from ulr.pairs.weightings import CLICK_MODEL, training_columns, validation_columns
from ulr.training.biases import LEARNED_BIASES
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, TrainingResult, train_on_ranks
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.distributed.telemetry import Event
from ulr.training.importance import importance_of
from ulr.training.loop import IterationCallback
from ulr.training.plan import DISTRIBUTED_ONLY, TrainPlan
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.stage import fingerprint, fingerprint_of, publish_if_changed
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import (
    Outcome,
    Warehouse,
    partition_name,
)
from ulr.warehouse.transaction import WriteTransaction

_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")
# How the work is distributed and how often it is saved do not change the model.
_NOT_IN_FINGERPRINT = (
    *(f"train.{name}" for name in (*DISTRIBUTED_ONLY, "checkpoint_every")),
    *(f"lightgbm.{name}" for name in _THREADS),
)


@dataclass(frozen=True)
class ModelOutcome(Outcome):
    """An outcome with the result of training, unless it was skipped."""

    training: TrainingResult | None = None


def build_model(
    engine: Engine,
    warehouse: Warehouse,
    plan: TrainPlan,
    train: Train,
    *,
    force: bool = False,
    on_iteration: IterationCallback | None = None,
    concurrent_runs: int = 1,
) -> ModelOutcome:
    """Publish `models` of one method: model.txt and record.json.

    on_iteration: called on another thread. concurrent_runs: trainings that share the engine, this
    one included.
    """
    partition = partition_name(plan.method)
    files = warehouse.files("pairs", partition)
    inputs = warehouse.require("pairs", partition).inputs
    click_model = inputs.get(CLICK_MODEL, "")

    def write(model: WriteTransaction) -> TrainingResult:
        checkpoints = Checkpoints(warehouse.storage.url, partition, model.fingerprint)
        checkpoints.delete(keep_own=not force)
        iterations: list[Event] = []

        def on_event(event: Event) -> None:
            iterations.append(event)
            if on_iteration is not None:
                on_iteration(event["iteration"], event["value"])

        training = train_on_ranks(
            engine,
            PairFiles(
                warehouse.storage.url,
                files,
                plan.validation_fraction,
                weights=training_columns(plan.method, click_model),
                validation_weights=validation_columns(plan.method),
            ),
            replace(
                plan, feature_names=inputs.get("feature_names", []), click_model=click_model
            ),
            DistributedOptions(train.num_workers, train.worker_timeout, train.max_retries,
                               concurrent_runs=concurrent_runs),
            checkpoints,
            on_event=on_event,
        )  # fmt: skip
        text = training.ranker.model_text()
        importance = importance_of(text, warehouse.storage.fs, files)
        record = _record(plan, training, iterations) | {"importance": importance}
        _publish(model, training, text, record)
        checkpoints.delete(keep_own=False)
        return training

    outcome, training = publish_if_changed(
        warehouse, "models", partition, **_origin(warehouse, plan, train), write=write, force=force
    )
    return ModelOutcome(outcome.manifest, outcome.skipped, outcome.damage, training)


def _publish(
    model: WriteTransaction, training: TrainingResult, text: str, record: dict[str, Any]
) -> None:
    folder = TableFiles(model.url)
    folder.write_text(text, "model.txt")
    folder.write_json(record, "record.json")
    counts = {"trees": training.ranker.best_iteration, "queries": training.queries,
              "rows": training.rows, "pairs": training.pairs}  # fmt: skip
    if (linear := linear_weights(text)) is not None:
        counts["weights"] = int(np.count_nonzero(linear[0]))
    model.publish(counts)


def _record(plan: TrainPlan, training: TrainingResult, iterations: list[Event]) -> dict[str, Any]:
    """Return what is kept of a training besides its model."""
    ranker = training.ranker
    learned = ranker.biases.record() if ranker.biases else {}
    return {
        "method": plan.method,
        "ranker": plan.ranker,
        "best_iteration": ranker.best_iteration,
        "validation": {plan.early_stopping_metric: ranker.history} if ranker.history else {},
        **{name: learned.get(name) for name in LEARNED_BIASES},
        "lightgbm": dict(plan.lightgbm) | _chosen_leaves(ranker.choice),
        "choice": ranker.choice,
        "workers": [asdict(report) for report in training.reports],
        "iterations": iterations,
        "failures": training.failures,
        "warnings": ranker.warnings,
    }


def _chosen_leaves(choice: Mapping[str, Any] | None) -> dict[str, int]:
    return {"num_leaves": choice["num_leaves"]} if choice else {}


def model_fingerprint(warehouse: Warehouse, plan: TrainPlan, train: Train) -> str:
    """Return the fingerprint of the model that these pairs and settings give."""
    return fingerprint_of(**_origin(warehouse, plan, train))


def unchanged_model(warehouse: Warehouse, plan: TrainPlan, train: Train) -> Manifest | None:
    """Return the published model if it was trained on these pairs and settings, else None."""
    published = warehouse.current("models", partition_name(plan.method))
    same = published and published.fingerprint == model_fingerprint(warehouse, plan, train)
    return published if same else None


def _origin(warehouse: Warehouse, plan: TrainPlan, train: Train) -> dict[str, Any]:
    """Return the arguments of `fingerprint_of`."""
    inputs = {"pairs": warehouse.require("pairs", partition_name(plan.method)).fingerprint}
    if plan.theta is not None:  # pairs of raw counts do not depend on it
        inputs["theta"] = fingerprint(plan.theta.tolist())
    settings = {"train": train.model_dump(), "lightgbm": dict(plan.lightgbm)}
    return {"inputs": inputs, "settings": settings, "not_in_fingerprint": _NOT_IN_FINGERPRINT}
