"""A model from published pairs to a published text file; skipped if unchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from ulr.config.settings import Train
from ulr.pairs.stage import partition_name
from ulr.training.checkpoint import Checkpoints
from ulr.training.distributed.driver import Fleet, Training, train_on_spark
from ulr.training.distributed.shuffle import PairFiles
from ulr.training.distributed.telemetry import Event
from ulr.training.plan import TrainPlan, record_of
from ulr.warehouse.storage import Storage, fingerprint
from ulr.warehouse.tables import Manifest, Outcome, Warehouse, identity_of

# How the work is shared out, and where it can be taken up again, does not change the model: it is
# no part of its fingerprint.
OF_FLEET = ("num_workers", "peer_timeout", "max_retries", "at_once")
_NO_MATTER = (*OF_FLEET, "checkpoint_every")
_THREADS = ("num_threads", "num_thread", "nthread", "nthreads", "n_jobs")


@dataclass(frozen=True)
class ModelOutcome(Outcome):
    """With how training went, where there was one."""

    training: Training | None = None


def build_model(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    plan: TrainPlan,
    train: Train,
    *,
    force: bool = False,
    tell: Callable[[int, float | None], None] | None = None,
    at_once: int = 1,
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
        checkpoints.sweep(keep_own=not force)
        rounds: list[Event] = []
        outcome = train_on_spark(
            start_spark(),
            PairFiles(warehouse.storage.url, files, plan.validation_share),
            replace(plan, feature_names=names),
            fleet_of(train, at_once),
            checkpoints,
            hear=lambda event: _note(rounds, event, tell),
        )
        folder = Storage(draft.url)
        folder.write_text(outcome.ranker.model_text(), "model.txt")
        folder.write_json(record_of(outcome.ranker, plan) | _course(outcome, rounds), "record.json")
        counts = {"trees": outcome.ranker.best_iteration, "queries": outcome.queries,
                  "rows": outcome.rows, "pairs": outcome.pairs}  # fmt: skip
        manifest = draft.publish(identity, counts=counts, inputs=inputs, settings=made)
        checkpoints.sweep(keep_own=False)
    return ModelOutcome(manifest, False, outcome)


def model_identity(warehouse: Warehouse, plan: TrainPlan, train: Train) -> str:
    """The fingerprint of what these pairs and settings make."""
    return _request(warehouse, plan, train)[2]


def unchanged_model(warehouse: Warehouse, plan: TrainPlan, train: Train) -> Manifest | None:
    """The published model, if it is the one that these pairs and settings make."""
    published = warehouse.current("models", partition_name(plan.method))
    same = published and published.fingerprint == model_identity(warehouse, plan, train)
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
    return inputs, made, identity_of(inputs=inputs, settings=_that_matter(made))


def fleet_of(train: Train, at_once: int = 1) -> Fleet:
    """The settings that say how the work is shared out."""
    return Fleet(train.num_workers, train.peer_timeout, train.max_retries, at_once=at_once)


def _that_matter(made: dict[str, Any]) -> dict[str, Any]:
    drop = {"train": _NO_MATTER, "lightgbm": _THREADS}
    return {name: {k: v for k, v in part.items() if k not in drop[name]}
            for name, part in made.items()}  # fmt: skip


def _note(rounds: list[Event], event: Event, tell: Callable | None) -> None:
    rounds.append(event)
    if tell is not None:
        tell(event["round"], event["value"])


def _course(outcome: Training, rounds: list[Event]) -> dict[str, Any]:
    """How it went: every worker's time, every round's, and what failed on the way."""
    workers = [asdict(report) for report in outcome.reports]
    return {"workers": workers, "rounds": rounds, "failures": outcome.failures}
