"""The page at the end of a night or of a comparison."""

from __future__ import annotations

import contextlib

from ulr.cli.terminal import say
from ulr.config.settings import Settings
from ulr.dates import held_out
from ulr.errors import RegistryUnavailable, UserError
from ulr.pipeline.comparison import Compared
from ulr.pipeline.night import Summary
from ulr.pipeline.night_stages import Night
from ulr.registry.client import registry_of
from ulr.report.collect import comparison_facts, night_facts
from ulr.report.facts import Facts
from ulr.report.store import page_location, store_report
from ulr.report.tables import Model
from ulr.warehouse.tables import Warehouse


def report_night(night: Night, summary: Summary) -> None:
    """Keep the page of a night that has just ended, well or not.

    It is also an artifact of the training's MLflow run, if the night came to one. A registry that
    is away costs the artifact, not the night: the page is in the warehouse.
    """
    window, trained, judged = [night.date], [night.date], ""
    with contextlib.suppress(UserError):  # without any groups, or without a day to keep aside
        window = sorted({*night.window(), night.date})
        trained, judged = night.trained_on(), night.judged_by()
    facts = night_facts(
        night.warehouse, summary.to_json(), night.settings, methods=night.methods, window=window,
        trained=trained, evaluated_on=judged,
    )  # fmt: skip
    page = _kept(night.warehouse, facts)
    version = (facts.verdict or {}).get("version")
    if version is not None:
        registry = registry_of(night.settings)
        try:
            registry.attach_report(registry.version(version).run_id, page)
        except RegistryUnavailable as away:
            say(f"report {facts.name}: not added to its MLflow run: {away}")


def report_comparison(
    kind: str, name: str, compared: Compared, settings: Settings, metric: str
) -> str:
    """Keep the page of a comparison; the page, for its MLflow run."""
    warehouse = Warehouse(settings.warehouse.path)
    models = [Model(t.name, t.method, t.warehouse) for t in compared.trials]
    by_time = settings.evaluate.holdout == "time"
    facts = comparison_facts(
        kind, name, warehouse, models, settings, metric=metric, totals=compared.judged.totals,
        window=compared.dates, trained=held_out(compared.dates, by_time)[0],
        variants={trial.name: trial.settings for trial in compared.trials},
    )  # fmt: skip
    return _kept(warehouse, facts)


def _kept(warehouse: Warehouse, facts: Facts) -> str:
    page = store_report(warehouse.storage, facts)
    say(f"report -> {page_location(warehouse.storage, facts.report_name)}")
    return page
