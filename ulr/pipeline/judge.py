"""Evaluate models on a window, and let the trained model challenge the champion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ulr.config.settings import Settings
from ulr.engine.interface import Engine
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.stage import EvaluationOutcome, build_evaluation
from ulr.evaluation.totals import Totals, metric_values
from ulr.groups.window import window_dates
from ulr.models.published import evaluation_name, read_model, trained_on
from ulr.propensity.examination import WAREHOUSE, load_examination
from ulr.registry.client import registry_of
from ulr.registry.promotion import Decision, promote
from ulr.registry.stored_model import Warn, ignore
from ulr.registry.submission import submission_of
from ulr.training.parameters import split_parameters
from ulr.warehouse.tables import Warehouse, open_warehouse


def load_model_text(
    warehouse: Warehouse, name: str, settings: Settings, warn: Warn = ignore
) -> str:
    """Return a model's LightGBM text. name: registry URI, trained method or path of a text file.

    warn: receives a line about a registered model that is used without a check of its hash.
    """
    if name.startswith(("models:/", "runs:/")):
        return registry_of(settings).model_text(name, warn)
    return read_model(warehouse, name)


def evaluate_window(
    engine: Engine,
    warehouse: Warehouse,
    date: str,
    models: Mapping[str, str],
    settings: Settings,
    *,
    partition: str | None = None,
    force: bool = False,
) -> EvaluationOutcome:
    """Evaluate models (name to LightGBM text) on a window; refuse data they were trained on.

    partition: partition of `metrics` to publish; by default that of the first model.
    """
    dates = window_dates(warehouse, date, settings.propensities.window_days)
    for model in (trained_on(warehouse, name) for name in models):
        if settings.evaluate.holdout == "time":
            model.check_dates(dates)
        elif settings.evaluate.holdout == "query":
            model.check_queries(settings.pairs.test_fraction)
    return build_evaluation(
        engine,
        warehouse,
        dates,
        models,
        propensities=load_examination(settings.pairs.propensities, warehouse),
        features=settings.features,
        feedback=settings.log.feedback,
        test_fraction=settings.pairs.test_fraction,
        evaluate=settings.evaluate,
        sigmoid=split_parameters(settings.lightgbm, settings.train.objective).options.sigmoid,
        partition=partition or evaluation_name(next(iter(models))),
        force=force,
    )


def estimates_of(outcome: EvaluationOutcome, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return every ranking's metrics over all traffic, and the differences from the first one."""
    pairs: list[tuple[str, str | None]] = [(name, None) for name in (*names, LOGGING)]
    pairs += [(names[0], rival) for rival in (*names[1:], LOGGING)]
    return [
        {"ranking": subject, "against": rival, "metric": metric, **estimate._asdict()}
        for subject, rival in pairs
        for metric, estimate in metric_values(outcome.totals, subject, rival).items()
    ]


def challenge_champion(
    engine: Engine,
    date: str,
    settings: Settings,
    *,
    dry_run: bool = False,
    force: str | None = None,
    warn: Warn = ignore,
) -> Decision:
    """Register the configured method's model and promote it if it passes the gate.

    force: a reason to promote it whatever the gate decides. warn: receives a line about a champion
    without a hash, and about queued models that cannot be sent.
    """
    warehouse = open_warehouse(settings.warehouse)
    return promote(
        registry_of(settings),
        warehouse,
        submission_of(warehouse, settings),
        partial(_evaluate_with_rivals, engine, warehouse, date, settings),
        settings.promote,
        published_propensities=settings.pairs.propensities == WAREHOUSE,
        dry_run=dry_run,
        force=force,
        warn=warn,
    )


def _evaluate_with_rivals(
    engine: Engine,
    warehouse: Warehouse,
    date: str,
    settings: Settings,
    rivals: Mapping[str, str],
) -> Totals:
    method = settings.pairs.method
    models = {method: read_model(warehouse, method), **rivals}
    partition = f"{evaluation_name(method)}-against-champion"
    outcome = evaluate_window(engine, warehouse, date, models, settings, partition=partition)
    return outcome.totals
