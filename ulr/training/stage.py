"""A model from published pairs to a published text file; skipped if unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from ulr.config.settings import Train
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import DistributedOptions, TrainingResult, train_on_spark
from ulr.training.distributed.shuffle import PairFiles
from ulr.training.distributed.telemetry import Event
from ulr.training.plan import TrainPlan, make_record
from ulr.warehouse.stage import fingerprint, fingerprint_of
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Manifest, Outcome, Warehouse, partition_name

# How the work is shared out, and where it can be taken up again, does not change the model: it is
# no part of its fingerprint.
DISTRIBUTED_ONLY = ("num_workers", "worker_timeout", "max_retries", "max_concurrent_runs")
_NOT_IN_FINGERPRINT = (*DISTRIBUTED_ONLY, "checkpoint_every")
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


@dataclass(frozen=True)
class ModelOutcome(Outcome):
    """With how training went, where there was one."""

    training: TrainingResult | None = None


def build_model(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    plan: TrainPlan,
    train: Train,
    *,
    force: bool = False,
    tell: Callable[[int, float | None], None] | None = None,
    concurrent_runs: int = 1,
) -> ModelOutcome:
    """Publish `models` for one method: model.txt and record.json.

    at_once: trainings that share the cluster with this one, itself included.
    """
    published = None if force else unchanged_model(warehouse, plan, train)
    if published:
        return ModelOutcome(published, skipped=True)
    partition = partition_name(plan.method)
    files = warehouse.files("pairs", partition)
    inputs, made, identity = _request(warehouse, plan, train)
    names = warehouse.current("pairs", partition).inputs.get("feature_names", [])
    checkpoints = Checkpoints(warehouse.storage.url, partition, identity)
    with warehouse.writing("models", partition, identity) as draft:
        checkpoints.delete(keep_own=not force)
        iterations: list[Event] = []
        outcome = train_on_spark(
            start_spark(),
            PairFiles(warehouse.storage.url, files, plan.validation_fraction),
            replace(plan, feature_names=names),
            distributed_options(train, concurrent_runs),
            checkpoints,
            on_event=lambda event: _note(iterations, event, tell),
        )
        folder = Storage(draft.url)
        folder.write_text(outcome.ranker.model_text(), "model.txt")
        folder.write_json(
            make_record(outcome.ranker, plan) | _course(outcome, iterations), "record.json"
        )
        counts = {"trees": outcome.ranker.best_iteration, "queries": outcome.queries,
                  "rows": outcome.rows, "pairs": outcome.pairs}  # fmt: skip
        manifest = draft.publish(identity, counts=counts, inputs=inputs, settings=made)
        checkpoints.delete(keep_own=False)
    return ModelOutcome(manifest, False, outcome)


def model_fingerprint(warehouse: Warehouse, plan: TrainPlan, train: Train) -> str:
    """The fingerprint of what these pairs and settings make."""
    return _request(warehouse, plan, train)[2]


def unchanged_model(warehouse: Warehouse, plan: TrainPlan, train: Train) -> Manifest | None:
    """The published model, if it is the one that these pairs and settings make."""
    published = warehouse.current("models", partition_name(plan.method))
    same = published and published.fingerprint == model_fingerprint(warehouse, plan, train)
    return published if same else None


def _request(
    warehouse: Warehouse, plan: TrainPlan, train: Train
) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What goes in, how, and the fingerprint of both."""
    partition = partition_name(plan.method)
    warehouse.files("pairs", partition)  # says what is missing
    inputs = {"pairs": warehouse.current("pairs", partition).fingerprint}
    if plan.theta is not None:  # pairs of raw counts do not depend on it
        inputs["theta"] = fingerprint(plan.theta.tolist())
    made = {"train": train.model_dump(), "lightgbm": dict(plan.lightgbm)}
    return inputs, made, fingerprint_of(inputs=inputs, settings=_that_matter(made))


def distributed_options(train: Train, concurrent_runs: int = 1) -> DistributedOptions:
    """The settings that say how the work is shared out."""
    return DistributedOptions(
        train.num_workers, train.worker_timeout, train.max_retries, concurrent_runs=concurrent_runs
    )


def _that_matter(made: dict[str, Any]) -> dict[str, Any]:
    drop = {"train": _NOT_IN_FINGERPRINT, "lightgbm": _THREADS}
    return {name: {k: v for k, v in part.items() if k not in drop[name]}
            for name, part in made.items()}  # fmt: skip


def _note(iterations: list[Event], event: Event, tell: Callable | None) -> None:
    iterations.append(event)
    if tell is not None:
        tell(event["iteration"], event["value"])


def _course(outcome: TrainingResult, iterations: list[Event]) -> dict[str, Any]:
    """How it went: every worker's time, every round's, and what failed on the way."""
    workers = [asdict(report) for report in outcome.reports]
    return {"workers": workers, "iterations": iterations, "failures": outcome.failures}
