"""Train models on published pairs, as many at a time as the engine has slots for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from ulr.config.settings import Settings
from ulr.engine.concurrency import run_concurrently
from ulr.engine.interface import Engine
from ulr.pipeline.describe import describe_training
from ulr.pipeline.events import Events, StepContext
from ulr.propensity.examination import load_examination
from ulr.registry.client import registry_of
from ulr.registry.live import live_run
from ulr.training.loop import IterationCallback
from ulr.training.plan import TrainPlan, plan_from_settings
from ulr.training.stage import (
    ModelOutcome,
    build_model,
    model_fingerprint,
    unchanged_model,
)
from ulr.warehouse.tables import Warehouse


@dataclass(frozen=True)
class Trial:
    """One model to train: its display name, its warehouse, and its settings."""

    name: str
    warehouse: Warehouse
    settings: Settings

    @property
    def method(self) -> str:
        """The weighting method of the pairs."""
        return self.settings.pairs.method


def fit(
    engine: Engine, trials: Sequence[Trial], events: Events, *, force: bool = False
) -> list[ModelOutcome]:
    """Train every trial whose model is missing or out of date.

    A model does not depend on how many are trained at a time.
    """
    plans = [plan_of(trial) for trial in trials]
    unchanged = [
        unchanged_model(trial.warehouse, plan, trial.settings.train)
        for trial, plan in zip(trials, plans, strict=True)
    ]
    missing = len(trials) if force else unchanged.count(None)
    concurrent_runs = min(missing, _slots(engine, trials)) if missing > 1 else 1
    title = f"train, {concurrent_runs} at a time" if concurrent_runs > 1 else "train"
    with events.steps(title, len(trials), "models") as step:
        fit_one = partial(
            _fit_one,
            engine=engine,
            concurrent_runs=concurrent_runs,
            force=force,
            step=step,
            events=events,
        )
        jobs = [partial(fit_one, trial, plan) for trial, plan in zip(trials, plans, strict=True)]
        if concurrent_runs == 1:
            return [job() for job in jobs]
        return run_concurrently(jobs, concurrent_runs, cancel=engine.cancel)


def plan_of(trial: Trial) -> TrainPlan:
    """Return the training plan that a trial's settings define."""
    settings, theta = trial.settings, None
    if settings.train.fixed_click_bias:
        theta = load_examination(settings.pairs.propensities, trial.warehouse)[0].theta
    return plan_from_settings(settings, theta)


def _slots(engine: Engine, trials: Sequence[Trial]) -> int:
    """Return how many trainings can run at a time: by the engine and the configured limit."""
    workers = max(trial.settings.train.num_workers for trial in trials)
    slots = max(1, engine.slots() // workers)
    return min(slots, trials[0].settings.train.max_concurrent_runs or slots)


def _fit_one(
    trial: Trial,
    plan: TrainPlan,
    *,
    engine: Engine,
    concurrent_runs: int,
    force: bool,
    step: StepContext,
    events: Events,
) -> ModelOutcome:
    with step(None), _iteration_callback(trial, plan, events) as on_iteration:
        outcome = build_model(
            engine,
            trial.warehouse,
            plan,
            trial.settings.train,
            force=force,
            on_iteration=on_iteration,
            concurrent_runs=concurrent_runs,
        )
    events.line(f"train {trial.name}: {describe_training(outcome)}")
    return outcome


@contextlib.contextmanager
def _iteration_callback(
    trial: Trial, plan: TrainPlan, events: Events
) -> Iterator[IterationCallback]:
    """Yield a callback that reports each iteration to the events and to MLflow."""
    settings, title = trial.settings, f"train {trial.name}"
    registry = registry_of(settings) if settings.mlflow.live else None
    fingerprint = model_fingerprint(trial.warehouse, plan, settings.train)
    metric = plan.early_stopping_metric
    with (
        events.iterations(title, plan.num_iterations, metric) as show,
        live_run(registry, title, fingerprint, metric) as publish,
    ):

        def on_iteration(iteration: int, value: float | None) -> None:
            show(iteration, value)
            publish(iteration, value)

        yield on_iteration
