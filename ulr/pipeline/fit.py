"""Models from published pairs, as many trainings at once as the cluster has room for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from ulr.cli.progress import Stepping, Told, steps, watched_rounds
from ulr.cli.terminal import say
from ulr.config.settings import Settings
from ulr.engine.concurrency import run_concurrently
from ulr.engine.session import start_session
from ulr.propensity.examination import known_propensities
from ulr.registry.client import registry_of
from ulr.registry.live import shown_live
from ulr.training.distributed.barrier import room_for
from ulr.training.plan import TrainPlan
from ulr.training.stage import (
    DISTRIBUTED_ONLY,
    ModelOutcome,
    build_model,
    model_fingerprint,
    unchanged_model,
)
from ulr.warehouse.tables import Warehouse

Start = Callable[[], SparkSession]


@dataclass(frozen=True)
class Trial:
    """One model: the name it is shown by, its tables, and settings whose method is its own."""

    name: str
    warehouse: Warehouse
    settings: Settings

    @property
    def method(self) -> str:
        """How its pairs are weighted."""
        return self.settings.pairs.method


def fit(trials: Sequence[Trial], *, force: bool = False) -> list[ModelOutcome]:
    """A model of every trial; one that is there already is left as it is.

    The trials share one Spark session. How many train at once changes no model.
    """
    plans = [plan_of(trial) for trial in trials]
    there = [unchanged_model(trial.warehouse, plan, trial.settings.train)
             for trial, plan in zip(trials, plans, strict=True)]  # fmt: skip
    missing = len(trials) if force else there.count(None)
    start: Start = partial(start_session, "train", trials[0].settings.spark)
    concurrent_runs = 1
    if missing > 1:
        spark = start()  # once, before there are threads
        start, concurrent_runs = (lambda: spark), min(missing, _room(spark, trials))
    title = f"train, {concurrent_runs} at once" if concurrent_runs > 1 else "train"
    with steps(title, ["model"] * len(trials), "models") as step:
        one = partial(
            _fit_one, start=start, concurrent_runs=concurrent_runs, force=force, step=step
        )
        jobs = [partial(one, trial, plan) for trial, plan in zip(trials, plans, strict=True)]
        if concurrent_runs == 1:
            return [job() for job in jobs]
        return run_concurrently(jobs, concurrent_runs, cancel=spark.sparkContext.cancelAllJobs)


def _room(spark: SparkSession, trials: Sequence[Trial]) -> int:
    """Trainings that the cluster's slots take at once, or fewer where the settings say so."""
    room = room_for(spark, max(trial.settings.train.num_workers for trial in trials))
    return min(room, trials[0].settings.train.max_concurrent_runs or room)


def _fit_one(
    trial: Trial,
    plan: TrainPlan,
    *,
    start: Start,
    concurrent_runs: int,
    force: bool,
    step: Stepping,
) -> ModelOutcome:
    with (
        step("model") as this,
        _watched(trial, plan) as tell,
    ):
        outcome = build_model(
            start,
            trial.warehouse,
            plan,
            trial.settings.train,
            force=force,
            tell=tell,
            concurrent_runs=concurrent_runs,
        )
        this.skipped = outcome.skipped
    say(f"train {trial.name}: {describe(outcome)}")
    return outcome


@contextlib.contextmanager
def _watched(trial: Trial, plan: TrainPlan) -> Iterator[Told]:
    """What is to be told of every round: to the terminal, and to MLflow while it lasts."""
    settings, title = trial.settings, f"train {trial.name}"
    registry = registry_of(settings) if settings.mlflow.live else None
    identity = model_fingerprint(trial.warehouse, plan, settings.train)
    with (
        watched_rounds(title, plan.num_iterations, plan.early_stopping_metric) as draw,
        shown_live(registry, title, identity, plan.early_stopping_metric) as publish,
    ):

        def tell(number: int, value: float | None) -> None:
            draw(number, value)
            publish(number, value)

        yield tell


def plan_of(trial: Trial) -> TrainPlan:
    """The settings of one training."""
    settings, theta = trial.settings, None
    if settings.train.fixed_click_bias:
        theta = known_propensities(settings.pairs.propensities, trial.warehouse)[0].theta
    how = settings.train.model_dump(exclude={"fixed_click_bias", *DISTRIBUTED_ONLY})
    return TrainPlan(method=trial.method, lightgbm=dict(settings.lightgbm), theta=theta, **how)


def describe(outcome: ModelOutcome) -> str:
    """What it was trained on, and what went wrong on the way."""
    counts = outcome.manifest.counts
    if outcome.training is None:
        return f"unchanged, skipped ({counts['trees']:,} trees)"
    text = f"{counts['trees']} trees on {counts['rows']:,} documents, {counts['pairs']:,} pairs"
    workers, failures = outcome.training.reports, outcome.training.failures
    if len(workers) > 1:
        text += f", by {len(workers)} workers"
    for number, reason in enumerate(failures, start=1):
        text += f"\n  attempt {number} failed and was taken up again: {reason}"
    return text
