"""The page at the end of a night or of a comparison."""

from __future__ import annotations

import contextlib

from ulr.config.settings import Settings
from ulr.dates import held_out
from ulr.errors import RegistryUnavailable, UserError
from ulr.pipeline.events import Events
from ulr.pipeline.night import Night
from ulr.pipeline.stage_runner import Summary
from ulr.pipeline.trials import TrialResults
from ulr.registry.client import registry_of
from ulr.report.collect import comparison_facts, night_facts
from ulr.report.facts import Facts
from ulr.report.nights.store import write_index
from ulr.report.store import INDEX, page_location, store_report
from ulr.report.tables import Model
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse, open_warehouse


def report_night(night: Night, summary: Summary, events: Events) -> None:
    """Publish the page of a finished or failed night.

    The page is also attached to the MLflow run of the night's model, if there is one. If the
    registry is unavailable, the page is in the warehouse only.
    """
    window, trained, evaluated = [night.date], [night.date], ""
    with contextlib.suppress(UserError):  # no groups, or no date to hold out
        window = sorted({*night.window(), night.date})
        trained, evaluated = night.training_dates(), night.evaluation_window()
    facts = night_facts(
        night.warehouse, summary.to_json(), night.settings, methods=night.methods, window=window,
        trained=trained, evaluated_on=evaluated,
    )  # fmt: skip
    page = _publish(night.warehouse, facts, events)
    version = (facts.verdict or {}).get("version")
    if version is not None:
        registry = registry_of(night.settings)
        try:
            registry.attach_report(registry.version(version).run_id, page)
        except RegistryUnavailable as error:
            events.line(f"report {facts.name}: not attached to the MLflow run: {error}")


def report_nights(storage: Storage, events: Events) -> None:
    """Publish the page over all nights."""
    if write_index(storage) is not None:
        events.line(f"nights -> {page_location(storage, INDEX)}")


def report_comparison(
    kind: str, name: str, results: TrialResults, settings: Settings, *, metric: str, events: Events
) -> str:
    """Publish the page of a comparison and return it."""
    warehouse = open_warehouse(settings.warehouse)
    models = [Model(t.name, t.method, t.warehouse) for t in results.trials]
    by_time = settings.evaluate.holdout == "time"
    facts = comparison_facts(
        kind, name, warehouse, models, settings, metric=metric, totals=results.evaluation.totals,
        window=results.dates, trained=held_out(results.dates, by_time)[0],
        variants={trial.name: trial.settings for trial in results.trials},
    )  # fmt: skip
    return _publish(warehouse, facts, events)


def _publish(warehouse: Warehouse, facts: Facts, events: Events) -> str:
    page = store_report(warehouse.storage, facts)
    events.line(f"report -> {page_location(warehouse.storage, facts.report_name)}")
    return page
